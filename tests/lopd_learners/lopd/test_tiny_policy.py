"""LOPD on the shipped tiny policy, with episodes that it really played and its own composer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lopd_envs.envscaler.starter import StarterEnv
from lopd_learners.lopd import LOPD, LOPDConfig

from lopd_gym.bank import Bank, experience_from
from lopd_gym.episode import GREEDY, Episode, Sampling
from lopd_gym.learner import LearnerContext
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.messages import ToolSpec
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.base import Policy, Prompt
from lopd_gym.policy.model_policy import ModelPolicy, task_prompt
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.tasks import Task


def load() -> Backbone:
    return Backbone.load("tiny", student=StudentConfig(kind="full"), device="cpu")


def play(policy: Policy, first: int, count: int) -> list[Episode]:
    tasks = StarterEnv().tasks("train")
    with AgentLoop(StarterEnv, policy, Sampling()) as loop:
        return loop.play([Job(tasks[i].id, i) for i in range(first, first + count)])


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return play(ModelPolicy(load(), weights="base", max_new_tokens=48), 100, 6)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with Bank.open(tmp_path_factory.mktemp("bank"), "hashing") as made:
        episodes = play(ScriptedPolicy(oracle(StarterEnv())), 0, 112)
        made.add([x for e in episodes if (x := experience_from(e)) is not None])
        yield made


def make(bank: Bank, folder: Path, **changes: Any) -> LOPD:
    config = LOPDConfig(**{**LOPD.presets["tiny"], "cold_start_steps": 0, **changes})
    return LOPD(config, LearnerContext(load(), bank, 0, folder))


def test_real_steps_bring_the_student_to_the_teacher(
    solved: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    learner = make(solved, tmp_path)
    steps = [learner.update(episodes) for _ in range(5)]
    assert steps[0]["anchor"] == 0.0
    assert steps[0]["self_hit_rate"] == 0.0
    assert steps[-1]["loss_student"] < 0.6 * steps[0]["loss_student"]
    assert not any(step["skipped"] for step in steps)


def test_its_own_past_is_shown_where_that_is_asked(
    solved: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    learner = make(solved, tmp_path, self_retrieval=True, composer="frozen")
    assert learner.update(episodes)["self_hit_rate"] == 1.0


def test_latents_of_known_embeddings_play_the_same_episode() -> None:
    backbone = load()
    embeddings: Any = backbone.base.get_input_embeddings()

    def prompt(task: Task, tools: tuple[ToolSpec, ...], *, known: bool = True) -> Prompt:
        """Put latents in the place of the last 15 tokens of the first user message: the task."""
        plain = task_prompt(backbone, task, tools)
        end = plain.prefix_len
        latents = embeddings(torch.tensor(plain.ids[end - 15 : end])).detach()
        ids = [*plain.ids[: end - 15], *[0] * 15, *plain.ids[end:]]
        latents = latents if known else torch.zeros_like(latents)
        return replace(plain, ids=ids, latents=latents, latent_start=end - 15)

    by_ids, by_latents, by_nothing = (
        play(
            ModelPolicy(
                backbone,
                weights="base",
                sampling=GREEDY,
                max_new_tokens=48,
                make_prompt=make_prompt,
            ),
            0,
            6,
        )
        for make_prompt in (None, prompt, partial(prompt, known=False))
    )
    for one, other in zip(by_ids, by_latents, strict=True):
        assert one.transcript == other.transcript
        assert np.allclose(one.logprobs, other.logprobs, atol=1e-5)
    assert all(a.transcript != b.transcript for a, b in zip(by_ids, by_nothing, strict=True))

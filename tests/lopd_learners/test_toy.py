"""Every learner solves a toy: four tasks of one domain whose hidden rules the base does not know.

The base tries each of the four possible habits about equally often when it samples, always the
same wrong one when it is greedy, and can read an example. The optimum is to solve every task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from lopd_envs.envscaler.starter import StarterEnv
from lopd_envs.envscaler.starter.generate import make_task

from lopd_gym.bank import Bank, experience_from
from lopd_gym.episode import GREEDY, Episode, Sampling
from lopd_gym.learner import LearnerContext
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.backbone import Backbone, StudentConfig, Weights
from lopd_gym.policy.base import Policy
from lopd_gym.policy.model_policy import ModelPolicy
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.run.build import learner_section, learner_type
from lopd_gym.tasks import Task
from tests.lopd_learners.setting import SAMPLING, SMALL, log_probs

STEPS, EPISODES = 4, 16


class Toy(StarterEnv):
    """Four tasks of the help desk."""

    def tasks(self, split: str) -> Sequence[Task]:
        return [make_task("helpdesk", split, number) for number in range(4)]


TASKS = [task.id for task in Toy().tasks("train")]


@cache
def loaded() -> Backbone:
    return Backbone.load("tiny", device="cpu")


def fresh() -> Backbone:
    known = loaded()
    return Backbone(
        known.base, known.tokenizer, known.chat, student=StudentConfig(kind="full"), source="tiny"
    )


def play(policy: Policy, jobs: Sequence[Job], sampling: Sampling = SAMPLING) -> list[Episode]:
    with AgentLoop(Toy, policy, sampling) as loop:
        return loop.play(jobs)


def solved(backbone: Backbone, weights: Weights) -> float:
    """Share of the tasks that are solved greedily."""
    policy = ModelPolicy(backbone, weights=weights, sampling=GREEDY, max_new_tokens=48)
    episodes = play(policy, [Job(task, 0) for task in TASKS], GREEDY)
    return sum(e.outcome.success for e in episodes) / len(episodes)


@pytest.fixture(scope="module")
def solutions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with Bank.open(tmp_path_factory.mktemp("bank"), "hashing") as bank:
        episodes = play(ScriptedPolicy(oracle(Toy())), [Job(task, 0) for task in TASKS])
        bank.add([x for e in episodes if (x := experience_from(e)) is not None])
        yield bank


def test_the_base_does_not_know_the_rules() -> None:
    assert solved(loaded(), "base") == 0.0


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_learner_solves_the_toy(name: str, solutions: Bank, tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = fresh()
    options: dict[str, Any] = {"cold_start_steps": 0} if name == "lopd" else {}
    kind, config = learner_type(learner_section(name, "tiny", options))
    learner = kind(config, LearnerContext(backbone, solutions, 0, tmp_path))
    policy = ModelPolicy(backbone, weights="student", sampling=SAMPLING, max_new_tokens=48)
    siblings = kind.needs(config).episodes_per_task
    for step in range(STEPS):
        draws = [TASKS[n // siblings % len(TASKS)] for n in range(EPISODES)]
        episodes = play(policy, [Job(task, 100 * step + n) for n, task in enumerate(draws)])
        learner.update(episodes)
    assert solved(backbone, "student") == 1.0


def test_sampling_uses_the_updated_weights(solutions: Bank, tmp_path: Path) -> None:
    """What the sampler records are the student's probabilities of this very step."""
    backbone = fresh()
    kind, config = learner_type(learner_section("rft", "tiny", {}))
    learner = kind(config, LearnerContext(backbone, solutions, 0, tmp_path))
    policy = ModelPolicy(backbone, weights="student", sampling=SAMPLING, max_new_tokens=48)
    for step in range(3):
        jobs = [Job(task, 10 * step + n) for n, task in enumerate(TASKS * 2)]
        episodes = play(policy, jobs)
        assert {e.policy_version for e in episodes} == {step}
        far = 0.0
        for episode in episodes:
            drawn = torch.from_numpy(episode.logprobs[episode.loss_mask])
            with torch.no_grad():
                mine = log_probs(backbone.student, episode)
                base = log_probs(backbone.base, episode)
            assert torch.allclose(drawn, mine, atol=1e-3)
            far = max(far, (drawn - base).abs().max().item())
        assert far < 1e-3 if step == 0 else far > 0.1
        learner.update(episodes)

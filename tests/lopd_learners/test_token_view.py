"""What learners tell a report about single tokens: the numbers they train on, and no change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lopd_learners.lopd.example import make_examples
from lopd_learners.lopd.learner import LOPD
from lopd_learners.skill_sd.skills import Skill

from lopd_gym.bank import Bank
from tests.lopd_learners.setting import DISTILLERS, log_probs, make, same, state, step


@pytest.mark.parametrize("name", ["lopd", *DISTILLERS, "skill-sd"])
def test_the_student_is_scored_where_it_sampled(name: str, bank: Bank, tmp_path: Path) -> None:
    learner = make(name, bank, tmp_path)
    episodes = step(learner.context.backbone)
    if name == "skill-sd":
        learner.update(episodes)  # it has no skill before it has seen a success
    before = state(learner)
    found = [(e, view) for e in episodes if (view := learner.token_view(e, episodes)) is not None]
    assert found
    for episode, view in found:
        sampled = np.flatnonzero(episode.loss_mask)
        skipped = len(sampled) - len(view.positions)
        assert view.positions.tolist() == sampled[skipped:].tolist()
        expected = log_probs(learner.context.backbone.student, episode)[skipped:].detach()
        assert np.allclose(view.student, expected, atol=1e-5)
        assert (view.teacher <= 0).all()
        assert np.abs(view.teacher - view.student).max() > 1e-4
        assert "find" in view.context
    assert same(before, state(learner))


def test_lopds_teacher_is_the_one_that_teaches(bank: Bank, tmp_path: Path) -> None:
    learner = make("lopd", bank, tmp_path)
    assert isinstance(learner, LOPD)
    episodes = step(learner.context.backbone)
    examples = make_examples(episodes, learner.context.backbone, learner.retriever, learner.config)
    learner._teach(examples)
    for x in examples:
        view = learner.token_view(x.episode, episodes)
        assert view is not None
        assert torch.allclose(torch.from_numpy(view.teacher), x.q_log[:, -1], atol=1e-5)


def test_sdpos_teacher_is_asked_only_where_a_sibling_succeeded(bank: Bank, tmp_path: Path) -> None:
    learner = make("sdpo", bank, tmp_path)
    episodes = step(learner.context.backbone)
    alone = [e for e in episodes if e.task_id == "task-1"]  # one success, which has no other
    views = [learner.token_view(e, episodes) is not None for e in alone]
    assert views == [e.outcome.score != 1.0 for e in alone]


def test_skill_sds_teacher_is_the_one_that_teaches_the_step(bank: Bank, tmp_path: Path) -> None:
    learner = make("skill-sd", bank, tmp_path)
    episodes = step(learner.context.backbone)
    assert all(learner.token_view(e, episodes) is None for e in episodes)
    for name in ("first", "second"):
        learner.skills.add("task-0", Skill(name, "none", "1. find() -> ok", "Find it."))
    learner.skills.credit("task-0", 0, 0.5)
    before = learner.skills.state_dict()
    views = [learner.token_view(e, episodes) for e in episodes]
    assert learner.skills.state_dict() == before
    for sample, view in zip(learner._samples(episodes), views, strict=True):
        if sample.episode.task_id != "task-0":
            assert view is None
            continue
        assert view is not None
        assert "second" in view.context  # what was never shown comes first
        assert "first" not in view.context
        assert sample.teacher_log is not None
        assert torch.allclose(torch.from_numpy(view.teacher), sample.teacher_log, atol=1e-5)


@pytest.mark.parametrize("name", ["grpo", "rft"])
def test_without_a_teacher_there_is_nothing_to_tell(name: str, bank: Bank, tmp_path: Path) -> None:
    learner = make(name, bank, tmp_path)
    episodes = step(learner.context.backbone)
    assert all(learner.token_view(e, episodes) is None for e in episodes)

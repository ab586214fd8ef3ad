"""What learners tell a report about single tokens: the numbers they train on, and no change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lopd_learners.lopd.example import make_examples
from lopd_learners.lopd.learner import LOPD

from lopd_gym.bank import Bank
from tests.lopd_learners.setting import DISTILLERS, log_probs, make, same, state, step


@pytest.mark.parametrize("name", ["lopd", *DISTILLERS])
def test_the_student_is_scored_where_it_sampled(name: str, bank: Bank, tmp_path: Path) -> None:
    learner = make(name, bank, tmp_path)
    episodes, before = step(learner.context.backbone), state(learner)
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


@pytest.mark.parametrize("name", ["grpo", "rft"])
def test_without_a_teacher_there_is_nothing_to_tell(name: str, bank: Bank, tmp_path: Path) -> None:
    learner = make(name, bank, tmp_path)
    episodes = step(learner.context.backbone)
    assert all(learner.token_view(e, episodes) is None for e in episodes)

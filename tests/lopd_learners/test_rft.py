"""RFT: which episodes are kept, and that the rest is plain maximum likelihood."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lopd_gym.episode import Episode
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.setting import Make, equal, gradient_of, group, log_probs, same, state


def kept(build: Make, episodes: list[Episode], **options: float) -> list[tuple[str, int]]:
    return [(e.task_id, e.attempt) for e in build("rft", **options).kept(episodes)]


def test_only_successes_are_kept(build: Make) -> None:
    episodes = group(make_backbone(), 0, (1.0, 0.5, 0.0, None))
    assert kept(build, episodes) == [("task-0", 0)]
    assert kept(build, episodes, threshold=0.5) == [("task-0", 0), ("task-0", 1)]


def test_easy_tasks_do_not_dominate(build: Make) -> None:
    backbone = make_backbone()
    episodes = group(backbone, 0, (1.0,) * 6) + group(backbone, 1, (1.0,))
    assert kept(build, episodes, per_task=2) == [("task-0", 0), ("task-0", 1), ("task-1", 0)]


def test_the_same_tokens_are_kept_once(build: Make) -> None:
    backbone = make_backbone()
    episodes = group(backbone, 0, (1.0, 1.0))
    assert kept(build, [episodes[0], *episodes]) == [("task-0", 0), ("task-0", 1)]
    # The same play of a task that happens to have the same text is another one.
    twin = replace(episodes[0], task_id="task-9")
    assert kept(build, [episodes[0], twin]) == [("task-0", 0), ("task-9", 0)]


def test_the_loss_is_the_token_mean_of_minus_log_p(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone = make_backbone(kind="full")
    episodes = group(backbone, 0, (1.0, 0.0, 1.0))
    good = torch.cat([log_probs(backbone.student, episodes[i]) for i in (0, 2)])
    expected = gradient_of(backbone, -good.mean())
    metrics = build("rft", backbone).update(episodes)
    assert metrics["loss"] == pytest.approx(-good.mean().item(), rel=1e-4)
    assert metrics["trained_episodes"] == 2
    assert equal(gradients[0], expected)


def test_successes_become_likelier_with_every_epoch(build: Make) -> None:
    losses = {}
    for epochs in (1, 4):
        learner = build("rft", epochs=epochs)
        metrics = learner.update(group(learner.context.backbone, 0, (1.0, 1.0)))
        losses[epochs] = metrics["loss"]
    assert losses[4] < losses[1] - 0.1


def test_without_a_success_nothing_moves(build: Make) -> None:
    learner = build("rft")
    before = state(learner)
    metrics = learner.update(group(learner.context.backbone, 0, (0.0, 0.5)))
    assert metrics == {"trained_episodes": 0.0, "skipped": 1.0}
    assert same(before, state(learner))
    assert learner.context.backbone.student_version == 0

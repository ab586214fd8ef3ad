"""The small world of LOPD's tests for all learners: groups of plays, and one maker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lopd_learners.forward import log_probs_at, supervised_states
from lopd_learners.rows import student_row
from torch import Tensor

from lopd_gym.bank import Bank
from lopd_gym.episode import Episode, Sampling
from lopd_gym.learner import Learner, LearnerContext
from lopd_gym.policy.backbone import Backbone
from lopd_gym.run.build import learner_section, learner_type
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.lopd.setting import OPTIONS, make_episode

Make = Callable[..., Any]
SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0)
PLAIN = {"lr": 1e-3, "gradient_checkpointing": False}
SMALL: dict[str, dict[str, Any]] = {
    "grpo": PLAIN,
    "lopd": OPTIONS,
    "opsd": PLAIN,
    "rft": PLAIN,
    "sdft": {**PLAIN, "skip_first": 1},
    "sdpo": {**PLAIN, "support": 8},
    "skill-sd": {**PLAIN, "distillation": 1.0},
}
"""Options under which every learner makes a visible step on a random model."""

DISTILLERS = ("opsd", "sdft", "sdpo")


def make(
    name: str, bank: Bank, folder: Path, backbone: Backbone | None = None, **options: Any
) -> Any:
    """Build a learner from its paper's preset, as a run does."""
    section = learner_section(name, "paper", {**SMALL[name], **options})
    kind, config = learner_type(section)
    context = LearnerContext(backbone or make_backbone(kind="full"), bank, seed=0, folder=folder)
    return kind(config, context)


def group(
    backbone: Backbone, number: int, scores: Sequence[float | None], **changes: Any
) -> list[Episode]:
    """Different plays of one task, with the log-probabilities that the student gave them."""
    played = [make_episode(backbone, number, s, attempt) for attempt, s in enumerate(scores)]
    return [
        replace(e, sampling=SAMPLING, logprobs=recorded(backbone, e), **changes) for e in played
    ]


def step(backbone: Backbone) -> list[Episode]:
    """A step's episodes: two groups with a spread and one without."""
    scores = {0: (1.0, 0.0, 0.0, 1.0), 1: (0.25, 1.0), 2: (1.0, 1.0)}
    return [e for number, mine in scores.items() for e in group(backbone, number, mine)]


def recorded(backbone: Backbone, episode: Episode) -> Any:
    values = episode.logprobs.copy()
    with torch.no_grad():
        values[episode.loss_mask] = log_probs(backbone.student, episode).numpy()
    return values


def log_probs(model: Any, episode: Episode) -> Tensor:
    """Log-probabilities [S] of an episode's sampled tokens."""
    row = student_row(episode, 10_000)
    return log_probs_at(model, supervised_states(model, [row]), row.targets[:, None])[:, 0]


def state(learner: Learner) -> dict[str, Tensor]:
    return learner.context.backbone.student_state()


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one | other)


def gradient_of(backbone: Backbone, loss: Tensor) -> list[Tensor]:
    """The gradient of a loss that a test computed by itself on the student."""
    parameters = backbone.student_parameters()
    return list(torch.autograd.grad(loss, parameters, materialize_grads=True))


def equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.allclose(a, b, atol=1e-6, rtol=1e-3) for a, b in zip(one, other, strict=True))

"""RFT: rejection sampling; the student is fine-tuned on its own successes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.learner import Learner, LearnerContext, Metrics, Needs
from lopd_learners.config import Positive, TrainingConfig
from lopd_learners.forward import (
    TokenRow,
    base_precision,
    check_head,
    supervised_states,
)
from lopd_learners.optim import StudentOptimiser
from lopd_learners.rows import sampled_log_probs, student_row


class RFTConfig(TrainingConfig):
    """Options of RFT.

    Attributes:
        group_size: Episodes of each task in a step.
        threshold: Score from which an episode is kept.
        per_task: Most kept episodes of one task, so that easy tasks do not dominate.
        epochs: Optimiser steps on each step's kept episodes.
    """

    lr: Positive = 2e-5
    group_size: int = Field(4, ge=1)
    threshold: float = Field(1.0, gt=0, le=1)
    per_task: int = Field(4, ge=1)
    epochs: int = Field(1, ge=1)


class RFT(Learner):
    """Rejection-sampling fine-tuning."""

    name: ClassVar[str] = "rft"
    summary: ClassVar[str] = "Fine-tuning on the student's own successes, failures thrown away."
    paper: ClassVar[str] = "Scaling Relationship on Learning Mathematical Reasoning, 2308.01825"
    config_type: ClassVar[type[RFTConfig]] = RFTConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tiny": {"lr": 1e-3, "gradient_checkpointing": False},
    }
    config: RFTConfig

    def __init__(self, config: RFTConfig, context: LearnerContext) -> None:
        super().__init__(config, context)
        self._backbone = context.backbone
        check_head(self._backbone.base)
        self._optimiser = StudentOptimiser(self._backbone, config)

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """A group of episodes for each task."""
        return Needs(episodes_per_task=config.group_size)

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Minimise the token mean of -log p over the kept episodes."""
        rows = [student_row(e, self.config.max_tokens) for e in self.kept(episodes)]
        rows = [row for row in rows if row.supervised.any()]
        if not rows:
            return {"trained_episodes": 0.0, "skipped": 1.0}
        total = sum(int(row.supervised.sum()) for row in rows)

        def loss_of(group: list[int]) -> tuple[Tensor, Metrics]:
            return self._loss([rows[i] for i in group]) / total, {}

        lengths = [len(row.ids) for row in rows]
        metrics = self._optimiser.minimise(lengths, loss_of, self.config.epochs)
        return {"trained_episodes": float(len(rows)), **metrics}

    def kept(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Return different successes, at most ``per_task`` of each task."""
        kept: dict[tuple[str, bytes], Episode] = {}
        counts: Counter[str] = Counter()
        for e in episodes:
            key = (e.task_id, e.token_ids.tobytes())
            good = (e.outcome.score or 0.0) >= self.config.threshold
            if good and key not in kept and counts[e.task_id] < self.config.per_task:
                kept[key] = e
                counts[e.task_id] += 1
        return list(kept.values())

    def _loss(self, part: Sequence[TokenRow]) -> Tensor:
        """Sum -log p over the sampled tokens of some rows."""
        student, again = self._backbone.student, self.config.gradient_checkpointing
        with base_precision(self._backbone):
            states = supervised_states(student, part, recompute=again)
            return -sampled_log_probs(student, states, part).sum()

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser."""
        return {"optimiser": self._optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._optimiser.load_state_dict(state["optimiser"])

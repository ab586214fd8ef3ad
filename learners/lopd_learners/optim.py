"""Optimiser steps: clipped, and skipped where the gradient is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lopd_gym.learner import Metrics
from lopd_gym.policy.backbone import Backbone
from lopd_learners.config import TrainingConfig
from lopd_learners.forward import micro_batches


def clipped_step(optimiser: torch.optim.Optimizer, max_norm: float) -> float:
    """Clip the gradients, step, and clear them.

    Args:
        optimiser: Whose parameters are clipped together.
        max_norm: Largest norm of all gradients.

    Returns:
        The norm before clipping. Where it is not finite, nothing was changed.
    """
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, max_norm))
    if math.isfinite(norm):
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return norm


class StudentOptimiser:
    """AdamW on the student's parameters, stepped on losses that come in micro-batches."""

    def __init__(self, backbone: Backbone, config: TrainingConfig) -> None:
        self._backbone, self._config = backbone, config
        self._adamw = torch.optim.AdamW(
            backbone.student_parameters(), lr=config.lr, weight_decay=config.weight_decay
        )

    def minimise(
        self,
        lengths: Sequence[int],
        loss_of: Callable[[list[int]], tuple[Tensor, Metrics]],
        epochs: int = 1,
    ) -> Metrics:
        """Take one step on a loss (``epochs`` of them).

        Args:
            lengths: Tokens of each sample; samples of similar length share a micro-batch.
            loss_of: Returns what the samples with these numbers add to the loss, and to other
                numbers. Counts to divide by are those of all samples, so that what a micro-batch
                holds does not matter.
            epochs: Passes over the samples, each with a step.

        Returns:
            ``loss``, the other numbers, ``grad_norm`` and ``skipped`` of the last pass.
        """
        numbers: Metrics = {}
        for _ in range(epochs):
            numbers = {"loss": 0.0}
            for group in micro_batches(lengths, self._config.micro_batch_tokens):
                share, others = loss_of(group)
                share.backward()  # type: ignore[no-untyped-call]
                for name, value in {"loss": share.item(), **others}.items():
                    numbers[name] = numbers.get(name, 0.0) + value
            norm = clipped_step(self._adamw, self._config.clip)
            numbers |= {"grad_norm": norm, "skipped": float(not math.isfinite(norm))}
        self._backbone.mark_updated()
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Return AdamW's state."""
        return self._adamw.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._adamw.load_state_dict(state)

"""OPSD: the student follows a teacher that is shown the task's solution."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from lopd_learners.config import Positive
from lopd_learners.distillation import TINY_TEMPLATE
from lopd_learners.forward import divergence_at
from lopd_learners.gold import GoldConfig, GoldDistillation
from lopd_learners.losses import clipped_forward_kl, forward_kl
from lopd_learners.rows import Place

TEMPLATE = (
    "{message}\n\nFor guidance only, here are the steps of a solution that is known to work:\n"
    "[plan]\n{trace}\n[end of plan]\nNo step has been carried out yet: understand the plan, "
    "then solve the task yourself by calling the tools."
)


class OPSDConfig(GoldConfig):
    """Options of OPSD.

    Attributes:
        entry_clip: Largest entry of a vocabulary item in the sum that is the KL divergence; None
            for no bound. A clipped entry has no gradient: where a teacher is sure and the student
            is not, as in the tiny policy's decisions, nothing is left to learn from.
    """

    template: str = TEMPLATE
    place: Place = "system"
    entry_clip: Positive | None = 0.05


class OPSD(GoldDistillation):
    """On-policy self-distillation, by the clipped forward KL over the whole vocabulary."""

    name: ClassVar[str] = "opsd"
    summary: ClassVar[str] = "A frozen self-teacher, shown the task's solution as text, supervises."
    paper: ClassVar[str] = "On-Policy Self-Distillation, arXiv 2601.18734"
    config_type: ClassVar[type[OPSDConfig]] = OPSDConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tiny": {
            "bank_rollouts": 192,
            "template": TINY_TEMPLATE,
            "place": "user",
            "entry_clip": None,
            "lr": 1e-3,
            "gradient_checkpointing": False,
        },
    }
    config: OPSDConfig

    def divergence(
        self, states: Tensor, teacher: Any, teacher_states: Tensor, sampled: Tensor
    ) -> Tensor:
        """KL(teacher || student), each entry clipped, [S]."""
        clip = self.config.entry_clip
        kl = forward_kl if clip is None else partial(clipped_forward_kl, clip=clip)
        return divergence_at(self._backbone.student, states, teacher, teacher_states, kl)

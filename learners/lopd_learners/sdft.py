"""SDFT: the student follows an average of itself that is shown a demonstration."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from lopd_learners.config import Positive, Share
from lopd_learners.distillation import TINY_TEMPLATE
from lopd_learners.forward import divergence_at
from lopd_learners.gold import GoldConfig, GoldDistillation
from lopd_learners.losses import forward_kl

TEMPLATE = (
    "{message}\n\nThis is an example of a good answer:\n{trace}\n"
    "Now answer in your own way, with your own thinking and your own tool calls."
)


class SDFTConfig(GoldConfig):
    """Options of SDFT."""

    template: str = TEMPLATE
    teacher: Literal["base", "ema"] = "ema"
    ema_rate: Share = 0.01
    skip_first: int = 3
    mismatch_cap: Positive | None = 2.0
    lr: Positive = 2e-5


class SDFT(GoldDistillation):
    """Self-distillation fine-tuning, by the forward KL over the whole vocabulary."""

    name: ClassVar[str] = "sdft"
    summary: ClassVar[str] = "An averaged self-teacher, shown a demonstration, supervises."
    paper: ClassVar[str] = "Self-Distillation Enables Continual Learning, arXiv 2601.19897"
    config_type: ClassVar[type[SDFTConfig]] = SDFTConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tiny": {
            "bank_rollouts": 192,
            "template": TINY_TEMPLATE,
            "lr": 1e-3,
            "skip_first": 0,
            "gradient_checkpointing": False,
        },
    }
    config: SDFTConfig

    def divergence(
        self, states: Tensor, teacher: Any, teacher_states: Tensor, sampled: Tensor
    ) -> Tensor:
        """KL(teacher || student), [S]."""
        return divergence_at(self._backbone.student, states, teacher, teacher_states, forward_kl)

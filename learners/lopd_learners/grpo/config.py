"""GRPO's options and presets; Dr. GRPO and DAPO are presets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lopd_learners.config import Positive, TrainingConfig
from lopd_learners.policy_gradient import Mismatch, Scale


class GRPOConfig(TrainingConfig):
    """Options of GRPO; the defaults are those of the LOPD paper's baseline.

    Attributes:
        group_size: Episodes of each task in a step.
        scale: Divide advantages by the standard deviation of the ``group``, of the ``batch``, or
            by ``none`` (Dr. GRPO).
        clip_low: Ratios may fall by this much.
        clip_high: Ratios may rise by this much; 0.28 in DAPO.
        dual_clip: Bound of the loss of a negative advantage; None for no bound, 3 in verl.
        reduction: Mean over all ``token``s of a step (DAPO), over each ``sequence`` and then over
            episodes (GRPO), or token sums over a ``constant`` (Dr. GRPO).
        constant: What token sums are divided by in the reduction ``constant``.
        kl: Weight of the k3 estimate of KL(student || base).
        drop_zero_spread: Whether groups whose scores are all equal are left out of the mean's
            denominator, and not only of its sum.
        dynamic_sampling: Whether an update waits, at most 10 steps, until a step's worth of
            groups with a spread has been played (DAPO).
        mask_truncated: Whether episodes that a limit ended are left out of the loss.
        overlong_from: Sampled tokens of an episode from which its score is lowered, before
            advantages are computed (DAPO); None for no penalty.
        overlong_buffer: Over so many tokens more the penalty grows from 0 to its largest, 1.
        mismatch: Correct for a sampler whose probabilities differ, by ``token`` or ``sequence``.
            Exact where sampling is not truncated (top_p 1, top_k 0).
        mismatch_cap: Largest weight of that correction.
        epochs: Optimiser steps on each step's episodes.
    """

    group_size: int = Field(4, ge=2)
    scale: Scale = "group"
    clip_low: float = Field(0.2, ge=0)
    clip_high: float = Field(0.2, ge=0)
    dual_clip: float | None = Field(None, gt=1)
    reduction: Literal["token", "sequence", "constant"] = "token"
    constant: int = Field(4_096, ge=1)
    kl: float = Field(0.0, ge=0)
    drop_zero_spread: bool = False
    dynamic_sampling: bool = False
    mask_truncated: bool = False
    overlong_from: int | None = Field(None, ge=0)
    overlong_buffer: int = Field(4_096, ge=1)
    mismatch: Mismatch = "none"
    mismatch_cap: Positive = 2.0
    epochs: int = Field(1, ge=1)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "tiny": {"lr": 1e-3, "gradient_checkpointing": False},
    "dr-grpo": {"scale": "none", "reduction": "constant"},
    "dapo": {
        "clip_high": 0.28,
        "dynamic_sampling": True,
        "mask_truncated": True,
        "overlong_from": 16_384,
    },
}

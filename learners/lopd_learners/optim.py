"""One optimiser step, clipped, and skipped where the gradient is not finite."""

from __future__ import annotations

import math

import torch
from torch import nn


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

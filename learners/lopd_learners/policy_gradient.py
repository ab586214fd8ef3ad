"""Advantages, the clipped surrogate and sampler weights: pure functions on tensors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

Scale = Literal["group", "batch", "none"]
Mismatch = Literal["none", "token", "sequence"]

_MAX_LOG_RATIO = 20.0
"""Beyond it a ratio of probabilities is clamped, before it overflows."""


def group_advantages(
    scores: Tensor, groups: Sequence[Hashable], scale: Scale = "group", eps: float = 1e-6
) -> Tensor:
    """Return scores relative to their group's mean (GRPO, arXiv 2402.03300, section 4.1).

    Args:
        scores: One score for each episode, [N].
        groups: The group of each episode; episodes of one task and policy version form a group.
        scale: Divide by the standard deviation (unbiased) of the ``group`` or of the whole
            ``batch``, or by nothing (Dr. GRPO, arXiv 2503.20783).
        eps: Added to the standard deviation.

    Returns:
        Advantages [N]: exactly 0 where a group has one member, or its scores are all equal.
    """
    advantages = torch.zeros_like(scores)
    for group in dict.fromkeys(groups):
        members = torch.tensor([i for i, g in enumerate(groups) if g == group])
        mine = scores[members]
        if len(members) < 2 or (mine == mine[0]).all():
            continue
        advantages[members] = mine - mine.mean()
        if scale == "group":
            advantages[members] /= mine.std() + eps
    if scale == "batch" and len(scores) > 1:
        advantages /= scores.std() + eps
    return advantages


def overlong_penalty(lengths: Tensor, start: int, buffer: int) -> Tensor:
    """Return what is taken off the scores of long answers (DAPO, arXiv 2503.14476).

    Args:
        lengths: Sampled tokens of each episode, [N].
        start: Up to here nothing is taken off.
        buffer: So many tokens later, and from there on, it is 1; between them it grows linearly.

    Returns:
        Penalties in [0, 1], [N].
    """
    return ((lengths - start) / buffer).clamp(0, 1)


def ratio(p_log: Tensor, old_log: Tensor) -> Tensor:
    """Return p / p_old of log-probabilities [...], its logarithm clamped to 20."""
    return (p_log - old_log).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()


def clipped_surrogate(
    ratios: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """Return PPO's loss of each token (arXiv 1707.06347, equation 7).

    Args:
        ratios: p / p_old, [...].
        advantages: [...].
        clip_low: Ratios below 1 - clip_low gain nothing.
        clip_high: Ratios above 1 + clip_high gain nothing; larger than ``clip_low`` in DAPO
            (arXiv 2503.14476).
        dual_clip: Bounds the loss of a negative advantage by this multiple of it (arXiv
            1912.09729); None for no bound.
    """
    clipped = ratios.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.minimum(ratios * advantages, clipped * advantages)
    if dual_clip is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -dual_clip * advantages), loss)


def sampler_weights(
    p_log: Tensor, sampler_log: Tensor, lengths: Sequence[int], kind: Mismatch, cap: float
) -> Tensor:
    """Return how much a token counts, where the sampler's probabilities are not the trainer's.

    Args:
        p_log: The trainer's log-probabilities of sampled tokens, [S]; no gradient flows.
        sampler_log: Those that the sampler recorded, [S].
        lengths: Sampled tokens of each episode; their sum is S.
        kind: ``token`` truncates each token's ratio at ``cap``; ``sequence`` drops episodes
            whose product of ratios is above it; ``none`` is 1.
        cap: Largest weight.

    Returns:
        Weights, [S].
    """
    gap = (p_log - sampler_log).detach()
    if kind == "none":
        return torch.ones_like(gap)
    if kind == "token":
        return gap.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp().clamp(max=cap)
    sums = torch.stack([mine.sum() for mine in torch.split(gap, list(lengths))])
    weights = sums.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    weights = torch.where(weights > cap, torch.zeros_like(weights), weights)
    return weights.repeat_interleave(torch.tensor(list(lengths), device=gap.device))

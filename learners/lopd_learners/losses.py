"""Divergences on top-K supports, and LOPD's margin: pure functions on tensors.

All log-probabilities are natural, normalised over the whole vocabulary, and float32 or wider.
``p`` is the student and ``q`` the teacher on the same prefix.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

_LARGEST_LOG_MASS = -1e-7
"""Below this tail mass float32 cannot tell 1 - mass from 1; the tail's gradient ends here."""

_LARGEST_GAP, _LARGEST_K3 = 20.0, 10.0


def with_tail(log_probs: Tensor) -> Tensor:
    """Append the log-probability of everything off the support.

    SDPO (Hübotter et al., arXiv 2601.20802) and LOPD (arXiv 2608.13040, section 3): K entries and
    a tail make K+1 categories, on which a KL divergence is exact for the coarsened distribution.
    Without the tail the sum is no divergence, and its gradient pushes mass off the support.

    Args:
        log_probs: Log-probabilities on the support, [..., K].

    Returns:
        Log-probabilities of K+1 categories, [..., K+1].
    """
    log_mass = log_probs.logsumexp(-1, keepdim=True).clamp(max=_LARGEST_LOG_MASS)
    tail = torch.log(-torch.expm1(log_mass))
    return torch.cat([log_probs, tail], dim=-1)


def reverse_kl(p_log: Tensor, q_log: Tensor) -> Tensor:
    """KL(p || q) of log-probabilities [..., C], summed over the last dimension."""
    return (p_log.exp() * (p_log - q_log)).sum(-1)


def forward_kl(p_log: Tensor, q_log: Tensor) -> Tensor:
    """KL(q || p) of log-probabilities [..., C], summed over the last dimension."""
    return reverse_kl(q_log, p_log)


def clipped_forward_kl(p_log: Tensor, q_log: Tensor, clip: float) -> Tensor:
    """KL(q || p) of log-probabilities [..., V], each entry of its sum at most ``clip``.

    OPSD (Zhao et al., arXiv 2601.18734): a few tokens of style have by far the largest entries,
    and would drown the rest. Negative entries are kept as they are.
    """
    return (q_log.exp() * (q_log - p_log)).clamp(max=clip).sum(-1)


def jensen_shannon(p_log: Tensor, q_log: Tensor, weight: float) -> Tensor:
    """Generalised Jensen-Shannon divergence, mixture ``(1 - weight) p + weight q``.

    Weights 0 and 1 are dispatched to the forward and the reverse KL, as in GKD (arXiv 2306.13649):
    the formula's own limits there are 0.
    """
    if weight == 0:
        return forward_kl(p_log, q_log)
    if weight == 1:
        return reverse_kl(p_log, q_log)
    logs = torch.log(torch.tensor([1 - weight, weight], dtype=p_log.dtype, device=p_log.device))
    mixture = torch.logaddexp(p_log + logs[0], q_log + logs[1])
    return weight * reverse_kl(q_log, mixture) + (1 - weight) * reverse_kl(p_log, mixture)


def sampled_reverse_kl(
    p_log: Tensor, q_log: Tensor, estimator: Literal["k1", "k2", "k3"]
) -> Tensor:
    """Estimate KL(p || q) from the log-probabilities [...] of tokens drawn from p.

    Schulman's estimators: k1 = l, k2 = l^2 / 2, k3 = exp(-l) - 1 + l, with l = log p - log q. Their
    gradients differ: in expectation that of k1 is 0, that of k2 the reverse KL's, and that of k3
    the *forward* KL's, unless k3 is weighted by p / p_old with gradient (Skill-SD,
    arXiv 2604.10674), which gives the reverse KL's.
    """
    ratio = p_log - q_log
    if estimator == "k1":
        return ratio
    if estimator == "k2":
        return ratio.square() / 2
    return torch.expm1(-ratio) + ratio


def weighted_k3(p_log: Tensor, q_log: Tensor, ratios: Tensor) -> Tensor:
    """Skill-SD's distillation loss of tokens [...] that an older p drew (arXiv 2604.10674).

    k3 times ``ratios`` = p / p_old, through which gradient has to flow: only then is the expected
    gradient that of KL(p || q). By hand it is ``ratios l grad log p``, with l = log p - log q. It
    is written like that because k3 explodes where the teacher likes a token much better and has to
    be clamped: the gradient of a clamped value would push such a token down.
    """
    gap = (p_log - q_log).detach().clamp(-_LARGEST_GAP, _LARGEST_GAP)
    k3 = (torch.expm1(-gap) + gap).clamp(max=_LARGEST_K3)
    return ratios * gap + (ratios * (k3 - gap)).detach()


def outcome_sign(scores: Tensor) -> Tensor:
    """LOPD's A(tau) = 2 r - 1 of scores r in [0, 1]: +1 for a success, -1 for a failure."""
    return 2 * scores - 1


def composer_loss(
    kl: Tensor, delta: Tensor, anchor: Tensor, *, beta: float, margin: float, anchor_weight: float
) -> Tensor:
    """LOPD's loss of the composer, for each trajectory (arXiv 2608.13040, section 3.3).

    Args:
        kl: Token mean of KL(student || teacher), [N].
        delta: A(tau) times the token mean of log q - log p at the sampled tokens, [N].
        anchor: Mean squared distance of the latents to those of the cold start, [N]; the mean and
            not the sum, as in the released code, for which the weight 0.2 is meant.
        beta: Dual variable of the margin.
        margin: What ``delta`` should reach, in nats per token (m).
        anchor_weight: Weight of the anchor (lambda).

    Returns:
        ``kl + beta (margin - delta) + anchor_weight anchor``, [N].
    """
    return kl + beta * (margin - delta) + anchor_weight * anchor


def dual_step(beta: float, delta: float, margin: float, rate: float, cap: float | None) -> float:
    """LOPD's dual update: beta <- max(0, beta + rate (margin - delta)), at most ``cap``."""
    raised = max(0.0, beta + rate * (margin - delta))
    return raised if cap is None else min(raised, cap)

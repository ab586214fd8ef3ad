"""Divergences on top-K supports, and the parts of LOPD's composer loss: pure functions.

All log-probabilities are natural, normalised over the whole vocabulary, and float32 or wider.
``p`` is the student and ``q`` the teacher on the same prefix.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGEST_LOG_MASS = -1e-7
"""Below this tail mass float32 cannot tell 1 - mass from 1; the tail's gradient ends here."""


def with_tail(log_probs: Tensor) -> Tensor:
    """Append the log-probability of everything off the support.

    SDPO (Hübotter et al., arXiv 2601.20802) and LOPD (arXiv 2608.13040, section 3): K entries and
    a tail make K+1 categories, on which a KL divergence is exact for the coarsened distribution.

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


def outcome_sign(scores: Tensor) -> Tensor:
    """LOPD's A(tau) = 2 r - 1 of scores r in [0, 1]: +1 for a success, -1 for a failure."""
    return 2 * scores - 1


def dual_step(beta: float, delta: float, margin: float, rate: float, cap: float | None) -> float:
    """LOPD's dual update: beta <- max(0, beta + rate (margin - delta)), at most ``cap``."""
    raised = max(0.0, beta + rate * (margin - delta))
    return raised if cap is None else min(raised, cap)

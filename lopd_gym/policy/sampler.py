"""Draw tokens, and say how likely each draw was under the distribution it came from.

Temperature, then top-k, then top-p, as transformers orders them. One uniform number per token,
from the conversation's own stream, decides by inverse transform, so that a draw depends on nothing
but the logits and that number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lopd_gym.episode import Sampling


def draw(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw one token per row.

    Args:
        logits: [B, V].
        uniforms: [B], float64 in [0, 1).
        sampling: Greedy if its temperature is 0; the log-probability is then the one at
            temperature 1 without truncation, since that of a certain draw would say nothing.

    Returns:
        Ids [B], and their log-probabilities [B] in the truncated, renormalised distribution.
    """
    logits = logits.float()
    if sampling.temperature == 0:
        logprobs, ids = logits.log_softmax(-1).max(-1)
        return ids, logprobs
    logprobs, candidates = _distribution(logits / sampling.temperature, sampling)
    cumulative = logprobs.double().exp().cumsum(-1)
    # Scaling by the total keeps rounding from leaving a gap at the top that no token owns.
    target = (uniforms * cumulative[:, -1])[:, None]
    choice = torch.searchsorted(cumulative, target, right=True).clamp_(max=logprobs.shape[-1] - 1)
    chosen = logprobs.gather(-1, choice)[:, 0]
    ids = choice if candidates is None else candidates.gather(-1, choice)
    return ids[:, 0], chosen


def _distribution(scaled: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor | None]:
    """Return log-probabilities [B, K] and the ids [B, K] that they belong to (None: all ids)."""
    vocabulary = scaled.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        scaled, candidates = scaled.topk(sampling.top_k, dim=-1)
    elif sampling.top_p < 1:
        scaled, candidates = scaled.sort(dim=-1, descending=True)
    else:
        return scaled.log_softmax(-1), None
    if sampling.top_p < 1:
        probabilities = scaled.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        outside = before >= sampling.top_p
        outside[:, 0] = False
        scaled = scaled.masked_fill(outside, -torch.inf)
    return scaled.log_softmax(-1), candidates

"""Token rows through a language model, with logits at supervised positions only.

The language-model head is applied in chunks, and nothing of size tokens x vocabulary is kept:
with a gradient, a chunk's logits are computed again in the backward pass. Attention needs no mask,
because padding is on the right and attention looks back only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_CHUNK_ELEMENTS = 1 << 24
"""Logits that exist at the same time: positions of a chunk x vocabulary."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One sequence.

    ``supervised`` [T] marks the tokens that count; token n is predicted at position n-1. Where
    ``latents`` [n, d] are given they replace the embeddings from ``latent_start`` on.
    """

    ids: NDArray[np.int32]
    supervised: NDArray[np.bool_]
    latents: Tensor | None = None
    latent_start: int = 0

    @property
    def targets(self) -> Tensor:
        """The supervised token ids, in order."""
        return torch.from_numpy(self.ids[self.supervised].astype(np.int64))


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Group row indices of similar length, so that a padded batch holds at most ``max_tokens``."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if group and lengths[index] * (len(group) + 1) > max_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def supervised_states(model: Any, rows: Sequence[TokenRow]) -> Tensor:
    """Return the last hidden states [S, d] that predict the supervised tokens, row after row."""
    device = model.get_input_embeddings().weight.device
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = torch.from_numpy(row.ids.astype(np.int64))
    embeds = model.get_input_embeddings()(ids.to(device))
    if any(row.latents is not None for row in rows):
        embeds = torch.stack([_place(embeds[n], row) for n, row in enumerate(rows)])
    hidden = model.base_model(inputs_embeds=embeds, use_cache=False).last_hidden_state
    where = [
        torch.from_numpy(np.flatnonzero(row.supervised) - 1 + number * width)
        for number, row in enumerate(rows)
    ]
    states: Tensor = hidden.flatten(0, 1)[torch.cat(where).to(device)]
    return states


def _place(embeds: Tensor, row: TokenRow) -> Tensor:
    if row.latents is None:
        return embeds
    end = row.latent_start + len(row.latents)
    return torch.cat([embeds[: row.latent_start], row.latents.to(embeds.dtype), embeds[end:]])


def log_probs_at(model: Any, states: Tensor, ids: Tensor) -> Tensor:
    """Return float32 log-probabilities of given ids.

    Args:
        model: The model whose head is applied.
        states: Hidden states, [S, d].
        ids: Token ids, [S, K].

    Returns:
        Log-probabilities normalised over the whole vocabulary, [S, K].
    """

    def head(part: Tensor, wanted: Tensor) -> Tensor:
        logits: Tensor = model.get_output_embeddings()(part).float()
        return logits.gather(-1, wanted) - logits.logsumexp(-1, keepdim=True)

    pieces = zip(_chunks(model, states), _chunks(model, ids), strict=True)
    if torch.is_grad_enabled():
        done = [checkpoint(head, *piece, use_reentrant=False) for piece in pieces]
    else:
        done = [head(*piece) for piece in pieces]
    return torch.cat(done)


@torch.no_grad()
def top_support(model: Any, states: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ids [S, K] of the most likely tokens, and the entropies [S] in nats."""
    ids, entropies = [], []
    for part in _chunks(model, states):
        log_probs = model.get_output_embeddings()(part).float().log_softmax(-1)
        ids.append(log_probs.topk(min(count, log_probs.shape[-1]), dim=-1).indices)
        entropies.append(-(log_probs.exp() * log_probs).sum(-1))
    return torch.cat(ids), torch.cat(entropies)


def _chunks(model: Any, values: Tensor) -> tuple[Tensor, ...]:
    vocabulary = model.get_output_embeddings().weight.shape[0]
    return torch.split(values, max(1, _CHUNK_ELEMENTS // vocabulary))

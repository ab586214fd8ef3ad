"""Token rows through a language model, with logits at supervised positions only.

The language-model head is applied in chunks, and nothing of size tokens x vocabulary is kept:
with a gradient, a chunk's logits are computed again in the backward pass. Attention needs no mask,
because padding is on the right and attention looks back only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lopd_gym.errors import UsageError
from lopd_gym.policy.backbone import Backbone

_CHUNK_ELEMENTS = 1 << 24
"""Logits that exist at the same time: positions of a chunk x vocabulary."""

_again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
"""Computes a function again in the backward pass; nothing here is random."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One sequence of T tokens.

    ``supervised`` [T] marks the tokens that count; token n is predicted at position n-1. Where
    ``latents`` [n, d] are given they replace the embeddings of the n placeholders that start at
    ``latent_start``.
    """

    ids: NDArray[np.int32]
    supervised: NDArray[np.bool_]
    latents: Tensor | None = None
    latent_start: int = 0

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.supervised) or self.supervised[:1].any():
            raise ValueError("a mask as long as the ids is needed, and nothing predicts token 0")
        if self.latents is not None:
            places = self.ids[self.latent_start :][: len(self.latents)]
            if len(places) != len(self.latents) or len(set(places.tolist())) > 1:
                raise ValueError(f"there are not {len(self.latents)} placeholders for latents")

    @property
    def targets(self) -> Tensor:
        """The supervised token ids, in order."""
        return torch.from_numpy(self.ids[self.supervised].astype(np.int64))


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Group row indices of similar length, so that a padded batch holds at most ``max_tokens``.

    A row that is longer than that is a batch of its own.
    """
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if group and lengths[index] * (len(group) + 1) > max_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def supervised_states(model: Any, rows: Sequence[TokenRow], *, recompute: bool = False) -> Tensor:
    """Return the last hidden states that predict the supervised tokens.

    Args:
        model: A causal language model of transformers.
        rows: Sequences, padded here.
        recompute: Whether the blocks are computed again in the backward pass, to save memory.

    Returns:
        Hidden states [S, d], row after row; S counts the supervised tokens of all rows.
    """
    device = model.get_input_embeddings().weight.device
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = torch.from_numpy(row.ids.astype(np.int64))
    embeds = model.get_input_embeddings()(ids.to(device))
    if any(row.latents is not None for row in rows):
        embeds = torch.stack([_place(embeds[n], row) for n, row in enumerate(rows)])
    with recomputed_blocks(model.base_model, recompute):
        hidden = model.base_model(inputs_embeds=embeds, use_cache=False).last_hidden_state
    where = [
        torch.from_numpy(np.flatnonzero(row.supervised) - 1 + number * width)
        for number, row in enumerate(rows)
    ]
    states: Tensor = hidden.flatten(0, 1)[torch.cat(where).to(device)]
    return states


def _place(embeds: Tensor, row: TokenRow) -> Tensor:
    """Put a row's latents into its embeddings [T, d]; no write in place, so gradients flow."""
    if row.latents is None:
        return embeds
    end = row.latent_start + len(row.latents)
    return torch.cat([embeds[: row.latent_start], row.latents.to(embeds.dtype), embeds[end:]])


@contextmanager
def recomputed_blocks(decoder: Any, wanted: bool) -> Iterator[None]:
    """Let a decoder keep only the input of each block for the backward pass.

    The model stays in evaluation mode, so there is no dropout, and which adapter a block has is
    part of the module tree: the second computation cannot see another one.
    """
    blocks = list(decoder.layers) if wanted and torch.is_grad_enabled() else []
    for block in blocks:
        block.forward = partial(_again, block.forward)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def log_probs_at(model: Any, states: Tensor, ids: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return float32 log-probabilities of given ids.

    Args:
        model: The model whose head is applied.
        states: Hidden states, [S, d].
        ids: Token ids, [S, K].
        temperature: What logits are divided by.

    Returns:
        Log-probabilities normalised over the whole vocabulary, [S, K].
    """

    def head(part: Tensor, wanted: Tensor) -> Tensor:
        logits: Tensor = model.get_output_embeddings()(part).float() / temperature
        return logits.gather(-1, wanted) - logits.logsumexp(-1, keepdim=True)

    pieces = zip(_chunks(model, states), _chunks(model, ids), strict=True)
    compute = partial(_again, head) if torch.is_grad_enabled() else head
    return torch.cat([compute(*piece) for piece in pieces])


@torch.no_grad()
def target_log_probs(model: Any, row: TokenRow) -> NDArray[np.float32]:
    """Return the log-probabilities [S] of a row's supervised tokens, at temperature 1."""
    states = supervised_states(model, [row])
    targets = row.targets.to(states.device)
    found: NDArray[np.float32] = log_probs_at(model, states, targets[:, None])[:, 0].cpu().numpy()
    return found


def divergence_at(
    student: Any,
    states: Tensor,
    teacher: Any,
    teacher_states: Tensor,
    divergence: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return a divergence of two models' distributions over the whole vocabulary.

    Args:
        student: The model whose head is applied to ``states`` [S, d].
        states: The student's hidden states.
        teacher: The model whose head is applied to ``teacher_states`` [S, d].
        teacher_states: The teacher's hidden states at the same tokens.
        divergence: Of log-probabilities ([n, V], [n, V]) of student and teacher, to values [n].

    Returns:
        Values, [S].
    """

    def heads(part: Tensor, teacher_part: Tensor) -> Tensor:
        p_log = student.get_output_embeddings()(part).float().log_softmax(-1)
        q_log = teacher.get_output_embeddings()(teacher_part).float().log_softmax(-1)
        return divergence(p_log, q_log)

    pieces = zip(_chunks(student, states), _chunks(student, teacher_states), strict=True)
    compute = partial(_again, heads) if torch.is_grad_enabled() else heads
    return torch.cat([compute(*piece) for piece in pieces])


def base_precision(backbone: Backbone) -> torch.autocast:
    """Compute a float32 student in the precision of the base, so that both start equal."""
    base = backbone.base
    return torch.autocast(base.device.type, base.dtype, enabled=base.dtype != torch.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """Where a teacher puts its mass at each of S supervised tokens.

    ``ids`` [S, K] are its most likely tokens; ``log_probs`` [S, K+1] are theirs and, in the last
    column, the sampled token's; ``entropy`` [S] is that of the whole distribution, in nats.
    """

    ids: Tensor
    log_probs: Tensor
    entropy: Tensor


@torch.no_grad()
def top_support(model: Any, states: Tensor, sampled: Tensor, count: int) -> Support:
    """Find the ``count`` most likely tokens at each of the hidden states [S, d].

    ``sampled`` [S] are the tokens whose log-probabilities are wanted too.
    """
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for part, tokens in zip(_chunks(model, states), _chunks(model, sampled), strict=True):
        log_probs = model.get_output_embeddings()(part).float().log_softmax(-1)
        top = log_probs.topk(min(count, log_probs.shape[-1]), dim=-1)
        noted = torch.cat([top.values, log_probs.gather(-1, tokens[:, None])], dim=-1)
        found.append((top.indices, noted, -(log_probs.exp() * log_probs).sum(-1)))
    return Support(*(torch.cat(values) for values in zip(*found, strict=True)))


@torch.no_grad()
def check_head(model: Any) -> None:
    """Make sure that a model's logits are its head on its last hidden states.

    Raises:
        UsageError: They are not: the model scales or caps its logits.
    """
    ids = torch.arange(4, device=model.get_input_embeddings().weight.device)[None]
    states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    logits = model(input_ids=ids, use_cache=False).logits.float()
    error = (model.get_output_embeddings()(states).float() - logits).abs().max()
    if error > 0.01 * logits.abs().max():
        raise UsageError(
            f"{type(model).__name__} changes its logits after the language-model head, which "
            "training does not support: expected a model like Qwen3, Llama or Olmo 3."
        )


def _chunks(model: Any, values: Tensor) -> tuple[Tensor, ...]:
    vocabulary = model.get_output_embeddings().weight.shape[0]
    return torch.split(values, max(1, _CHUNK_ELEMENTS // vocabulary))

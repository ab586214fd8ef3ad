"""`MultiTurnEngine`: turns of many conversations at once, each with a cache kept across turns.

Conversations join and leave at any step. What one step computes depends on nothing but the
sequence of `open`, `extend` and `close` calls, and every conversation draws from its own random
stream: neither the clock nor batch-mates decide what is sampled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lopd_gym.episode import Sampling
from lopd_gym.errors import UsageError
from lopd_gym.policy.backbone import Backbone, Weights
from lopd_gym.policy.base import Completion, Prompt
from lopd_gym.policy.decoder import Chunk, Decoder, make_decoder
from lopd_gym.policy.sampler import draw

PREFILL_COLUMNS = 512
"""New tokens of one conversation in one prefill pass; longer prompts take several passes."""
PREFILL_TOKENS = 2048
"""New tokens of all conversations in one prefill pass, padding included."""
PREFILL_PADDING = 256
"""Padding that is cheaper than a second pass; beyond it, at most half of a pass is padding."""


@dataclass(slots=True)
class _Conversation:
    prompt: Prompt
    ids: list[int]
    random: np.random.Generator
    limit: int
    cached: int = 0
    running: bool = True
    turn: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class MultiTurnEngine:
    """An `Engine` over one backbone.

    It takes over the student's weights at the next `step` after they were updated; conversations
    that are still open are then computed anew.

    Args:
        backbone: The model.
        weights: Whether the student or the base plays.
        sampling: How tokens are drawn.
        stop_ids: Ids that end a turn; by default the backbone's.
        decoder: What runs the model; by default the fastest that can.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        weights: Weights = "student",
        sampling: Sampling | None = None,
        stop_ids: Iterable[int] | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self.sampling = sampling or Sampling()
        self._backbone = backbone
        self._weights = weights
        self._stop_ids = frozenset(backbone.stop_ids if stop_ids is None else stop_ids)
        self._decoder = decoder or make_decoder(backbone, weights)
        self._loaded_version: int | None = None
        self._open: dict[int, _Conversation] = {}
        self._free: list[int] = []

    def open(self, prompt: Prompt, *, seed: int, max_new_tokens: int) -> int:
        """Start a conversation and its first turn; returns its slot."""
        if not prompt.ids:
            raise UsageError("A prompt needs at least one token, found none.")
        slot = heapq.heappop(self._free) if self._free else len(self._open)
        random = np.random.default_rng(seed)
        self._open[slot] = _Conversation(prompt, list(prompt.ids), random, max_new_tokens)
        return slot

    def extend(self, slot: int, ids: list[int], *, max_new_tokens: int) -> None:
        """Append the ids of new messages and start the next turn."""
        conversation = self._open[slot]
        if conversation.running:
            raise UsageError(f"Conversation {slot} is in a turn: wait for its completion.")
        conversation.ids.extend(ids)
        conversation.limit = max_new_tokens
        conversation.running = True
        conversation.turn, conversation.logprobs = [], []

    def close(self, slot: int) -> None:
        """Free a slot; what it sampled in an unfinished turn is dropped."""
        del self._open[slot]
        heapq.heappush(self._free, slot)
        if not self._open:
            self._free.clear()
            self._decoder.clear()

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """Prefill what is new, decode one token for every running turn; return finished ones."""
        slots = [slot for slot in sorted(self._open) if self._open[slot].running]
        if not slots:
            return []
        self._refresh()
        self._prefill(slots)
        logits = self._decoder.decode(self._chunk(slots, 1))
        for slot in slots:
            self._open[slot].cached += 1
        uniforms = [self._open[slot].random.random() for slot in slots]
        where = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        ids, logprobs = draw(logits, where, self.sampling)
        drawn = zip(slots, ids.tolist(), logprobs.tolist(), strict=True)
        finished = [self._append(slot, token, logprob) for slot, token, logprob in drawn]
        return [completion for completion in finished if completion is not None]

    # -- one step ----------------------------------------------------------------------------

    def _refresh(self) -> None:
        version = self._backbone.student_version if self._weights == "student" else 0
        if version == self._loaded_version:
            return
        self._decoder.refresh()
        self._loaded_version = version
        for conversation in self._open.values():
            conversation.cached = 0

    def _prefill(self, slots: list[int]) -> None:
        """Bring every slot to where only its last token is missing from the cache."""
        while behind := [slot for slot in slots if self._missing(slot) > 1]:
            # Similar lengths share a pass, so that little of it is padding.
            behind.sort(key=lambda slot: (self._missing(slot), slot))
            group: list[int] = []
            real = width = 0
            for slot in behind:
                columns = min(self._missing(slot) - 1, PREFILL_COLUMNS)
                total = columns * (len(group) + 1)
                padding = total - real - columns
                if group and (total > PREFILL_TOKENS or padding > max(real, PREFILL_PADDING)):
                    break
                group.append(slot)
                real, width = real + columns, columns
            group.sort()
            self._decoder.prefill(self._chunk(group, width))
            for slot in group:
                self._open[slot].cached += min(width, self._missing(slot) - 1)

    def _missing(self, slot: int) -> int:
        conversation = self._open[slot]
        return len(conversation.ids) - conversation.cached

    def _chunk(self, slots: list[int], width: int) -> Chunk:
        """Gather the next ``width`` tokens of each slot, short of the last one in a prefill."""
        device = self._backbone.device
        starts, lengths, ids = [], [], []
        for slot in slots:
            conversation = self._open[slot]
            start = conversation.cached
            length = max(1, min(width, self._missing(slot) - 1))
            starts.append(start)
            lengths.append(length)
            ids.append(conversation.ids[start : start + length] + [0] * (width - length))
        embeddings = self._decoder.embed(torch.tensor(ids, device=device))
        return Chunk(slots, starts, lengths, self._with_latents(embeddings, slots, starts))

    def _with_latents(self, embeddings: Tensor, slots: list[int], starts: list[int]) -> Tensor:
        """Put each prompt's latents in place of the embeddings of its dummy ids."""
        width = embeddings.shape[1]
        for index, (slot, start) in enumerate(zip(slots, starts, strict=True)):
            prompt = self._open[slot].prompt
            if prompt.latents is None:
                continue
            first = max(prompt.latent_start, start)
            last = min(prompt.latent_start + len(prompt.latents), start + width)
            if first < last:
                piece = prompt.latents[first - prompt.latent_start : last - prompt.latent_start]
                embeddings[index, first - start : last - start] = piece.to(embeddings)
        return embeddings

    def _append(self, slot: int, token: int, logprob: float) -> Completion | None:
        conversation = self._open[slot]
        conversation.ids.append(token)
        conversation.turn.append(token)
        conversation.logprobs.append(logprob)
        ended = token in self._stop_ids
        if not ended and len(conversation.turn) < conversation.limit:
            return None
        conversation.running = False
        return Completion(slot, conversation.turn, conversation.logprobs, cut_off=not ended)

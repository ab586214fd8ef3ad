"""A decoder for any causal language model of transformers, through its own forward pass.

Each pass gets a cache that shows every row's past aligned on the right, so that transformers' own
masks (causal, sliding window, padding) are right as they are. The keys and values themselves lie
in preallocated stores, one per layer, and are gathered for a pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from lopd_gym.errors import UsageError
from lopd_gym.policy.decoder import Chunk

if TYPE_CHECKING:
    from lopd_gym.policy.backbone import Backbone, Weights

_FIRST_LENGTH = 256
_SUPPORTED = {"full_attention", "sliding_attention"}


class GeneralDecoder:
    """A `Decoder` that runs the student or the base as it is, adapters included.

    Raises:
        UsageError: The model has layers whose state is not a cache of keys and values.
    """

    def __init__(self, backbone: Backbone, weights: Weights) -> None:
        self._model: Any = backbone.student if weights == "student" else backbone.base
        config = self._model.config
        other = set(getattr(config, "layer_types", None) or ()) - _SUPPORTED
        if other:
            raise UsageError(
                f"Model type '{config.model_type}' has layers of type {sorted(other)}; only "
                "models with full or sliding attention can play."
            )
        parameters = inspect.signature(self._model.base_model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._layers: int = config.num_hidden_layers
        self.clear()

    def refresh(self) -> None:
        """Nothing to do: the model that runs is the one that is trained."""

    def clear(self) -> None:
        """Forget all rows and free the cache."""
        self._rows = self._length = 0
        self._stores = [_Store() for _ in range(self._layers)]

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of ids."""
        embeddings: Tensor = self._model.get_input_embeddings()(ids)
        return embeddings

    def prefill(self, chunk: Chunk) -> None:
        """Put new tokens into the cache."""
        with _evaluating(self._model):
            self._model.base_model(**self._inputs(chunk))

    def decode(self, chunk: Chunk) -> Tensor:
        """Run one new token per row and return the logits [B, V] that follow it."""
        with _evaluating(self._model):
            output = self._model(**self._inputs(chunk))
        logits: Tensor = output.logits[:, -1]
        return logits

    def _inputs(self, chunk: Chunk) -> dict[str, Any]:
        device = chunk.embeddings.device
        width = chunk.embeddings.shape[1]
        past = max(chunk.starts)
        if max(chunk.rows) >= self._rows:
            self._rows = max(max(chunk.rows) + 1, 2 * self._rows)
        self._length = max(self._length, _FIRST_LENGTH)
        while self._length < past + width:
            self._length *= 2
        starts = torch.tensor(chunk.starts, device=device)[:, None]
        lengths = torch.tensor(chunk.lengths, device=device)[:, None]
        positions = starts + torch.arange(width, device=device)  # [B, n]
        columns = torch.arange(past + width, device=device)  # [T], the past ends at column `past`
        shift = past - starts
        first = torch.tensor(chunk.rows, device=device)[:, None] * self._length
        plan = _Plan(
            rows=self._rows,
            length=self._length,
            past=past,
            write=(first + positions).flatten(),
            read=(first + (columns - shift).clamp(min=0)).flatten(),
        )
        cache = Cache(layers=[_GatheredLayer(store, plan) for store in self._stores])
        return {
            "inputs_embeds": chunk.embeddings,
            "attention_mask": ((columns >= shift) & (columns < past + lengths)).long(),
            "position_ids": positions,
            "use_cache": True,
            self._cache_argument: cache,
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the tokens of one pass are written to and what is read, as flat token indices."""

    rows: int
    length: int
    past: int
    write: Tensor
    read: Tensor


class _Store:
    """Keys and values of one layer: [rows, length, heads, head size] each."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []

    def exchange(self, new: tuple[Tensor, Tensor], plan: _Plan) -> tuple[Tensor, Tensor]:
        """Write keys and values [B, heads, n, head size], and read those of the whole pass."""
        old = self._tensors or [t.new_zeros(0, 0, t.shape[1], t.shape[3]) for t in new]
        self._tensors = [_grown(tensor, plan.rows, plan.length) for tensor in old]
        gathered = []
        for tensor, states in zip(self._tensors, new, strict=True):
            flat = tensor.view(plan.rows * plan.length, *tensor.shape[2:])
            flat[plan.write] = states.transpose(1, 2).flatten(0, 1)
            read = flat[plan.read].view(states.shape[0], -1, *tensor.shape[2:])
            gathered.append(read.transpose(1, 2))
        return gathered[0], gathered[1]


class _GatheredLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """What transformers sees of a store during one pass."""

    def __init__(self, store: _Store, plan: _Plan) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._store = store
        self._plan = plan

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self._store.exchange((key_states, value_states), self._plan)

    def get_seq_length(self) -> int:
        return self._plan.past

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._plan.past + query_length, 0


def _grown(tensor: Tensor, rows: int, length: int) -> Tensor:
    """Return the store with room for ``rows`` x ``length``."""
    have_rows, have_length = tensor.shape[:2]
    if rows <= have_rows and length <= have_length:
        return tensor
    larger = tensor.new_zeros(rows, length, *tensor.shape[2:])
    larger[:have_rows, :have_length] = tensor
    return larger


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a model that is being trained into evaluation mode: checkpointing forgets the cache."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()

"""A decoder for any causal language model of transformers, through its own forward pass.

Each pass gets a cache that shows every row's past aligned on the right, so that transformers' own
masks (causal, sliding window, padding) are right as they are. The tokens themselves lie in
preallocated stores, one per layer, and are gathered for a pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

if TYPE_CHECKING:
    from lopd_gym.policy.backbone import Backbone, Weights
    from lopd_gym.policy.decoder import Chunk

_FIRST_LENGTH = 256


class _Store:
    """Keys and values of one layer: [rows, length, heads, head size]."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None


class GeneralDecoder:
    """A `Decoder` that runs the student or the base as it is, adapters included."""

    def __init__(self, backbone: Backbone, weights: Weights) -> None:
        self._model = backbone.student if weights == "student" else backbone.base
        self._embedding: Any = self._model.get_input_embeddings()
        parameters = inspect.signature(self._model.base_model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._layers = self._model.config.get_text_config().num_hidden_layers
        self.clear()

"""The contract of a decoder: it runs new tokens of many conversations on top of their caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from lopd_gym.policy.backbone import Backbone, Weights


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens of B conversations, padded on the right to n.

    What is written for padding lies behind a row's last token, where later tokens overwrite it.
    """

    rows: list[int]
    """The conversations' B rows in the cache, ascending."""
    starts: list[int]
    """How many tokens each row has in its cache already."""
    lengths: list[int]
    """How many of the n new tokens are real."""
    embeddings: Tensor
    """[B, n, hidden size]"""


class Decoder(Protocol):
    """One model with one cache, whose rows the engine hands out."""

    def refresh(self) -> None:
        """Take over the newest weights."""
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of ids."""
        ...

    def prefill(self, chunk: Chunk) -> None:
        """Put new tokens into the cache."""
        ...

    def decode(self, chunk: Chunk) -> Tensor:
        """Run one new token per row and return the logits [B, V] that follow it."""
        ...

    def clear(self) -> None:
        """Forget all rows and free the cache."""
        ...


def make_decoder(backbone: Backbone, weights: Weights) -> Decoder:
    """Return the lean decoder where it can run the model, else the general one."""
    from lopd_gym.policy.general import GeneralDecoder
    from lopd_gym.policy.lean import LeanDecoder, lean_fits

    if lean_fits(backbone.base):
        return LeanDecoder(backbone, weights)
    return GeneralDecoder(backbone, weights)

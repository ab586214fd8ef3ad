"""The contract between the agent loop and whatever plays: a language model or a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lopd_gym.messages import AssistantMessage, Observation, ToolSpec
from lopd_gym.tasks import Task

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished assistant turn of the conversation ``key``.

    ``error`` says that infrastructure broke instead: the episode is marked failed.
    """

    key: int
    message: AssistantMessage
    sampled_tokens: int = 0
    generation_s: float = 0.0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """The tokens of one conversation; the arrays are those of `lopd_gym.episode.Episode`."""

    token_ids: NDArray[np.int32]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn_index: NDArray[np.int16]
    prefix_len: int


def empty_recording() -> Recording:
    """Return the recording of a conversation in which nothing was sampled."""
    ids, mask = np.empty(0, np.int32), np.empty(0, np.bool_)
    return Recording(ids, mask, np.empty(0, np.float32), np.empty(0, np.int16), 0)


class Policy(Protocol):
    """Plays many conversations at once. Every conversation has a ``key`` given by the loop."""

    @property
    def version(self) -> int:
        """How often the weights that play were updated."""
        ...

    def begin(self, key: int, task: Task, tools: tuple[ToolSpec, ...], seed: int) -> None:
        """Open a conversation; its first turn starts with the next `advance`."""
        ...

    def observe(self, key: int, messages: Observation) -> None:
        """Append new messages to a conversation that waits, and start its next turn."""
        ...

    def advance(self) -> list[Turn]:
        """Do one step of work for all conversations in a turn; return the turns that ended."""
        ...

    def context_tokens(self, key: int) -> int:
        """Return how many tokens a conversation holds so far."""
        ...

    def end(self, key: int) -> Recording:
        """Close a conversation and return its tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ids that open a conversation.

    Where ``latents`` [n, hidden size] are given, they replace the embeddings of the n ids that
    start at ``latent_start``.
    """

    ids: list[int]
    prefix_len: int
    latents: torch.Tensor | None = None
    latent_start: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens of one finished turn, with the sampler's own log-probabilities."""

    slot: int
    ids: list[int]
    logprobs: list[float]
    cut_off: bool
    """Whether the turn hit its token limit before an end-of-turn token."""


class Engine(Protocol):
    """Generates turns for many conversations and keeps each one's KV cache across turns."""

    def open(self, prompt: Prompt, *, seed: int, max_new_tokens: int) -> int:
        """Start a conversation and its first turn; returns its slot."""
        ...

    def extend(self, slot: int, ids: list[int], *, max_new_tokens: int) -> None:
        """Append the ids of new messages and start the next turn."""
        ...

    def step(self) -> list[Completion]:
        """Prefill what is new, decode one token for every running turn; return finished ones."""
        ...

    def close(self, slot: int) -> None:
        """Free a slot."""
        ...

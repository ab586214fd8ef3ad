"""Tasks, and how an episode of one can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lopd_gym.messages import Message

TRAIN_SPLIT = "train"
"""The only split whose tasks may be learned from and may enter an experience bank."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance.

    ``messages`` open the conversation (a system message, then the first user message, whose text
    is the task). ``data`` holds the initial state and whatever verifying needs; it is never shown
    to the policy. ``group`` names what belongs together (a domain, a class of systems).
    """

    id: str
    split: str
    messages: tuple[Message, ...]
    group: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def instruction(self) -> str:
        """The text of the first user message."""
        return next(m.content for m in self.messages if m.role == "user")


class Termination(StrEnum):
    """Why an episode ended. These are never merged."""

    SUBMITTED = "submitted"
    USER_STOP = "user_stop"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    PARSE_LIMIT = "parse_limit"
    TOOL_EXCEPTION = "tool_exception"
    TIMEOUT = "timeout"
    INFRASTRUCTURE = "infrastructure"

    @property
    def truncated(self) -> bool:
        """Whether a limit ended the episode, in Gymnasium's sense of ``truncated``."""
        return self in _LIMITS


_LIMITS = frozenset(
    {
        Termination.STEP_LIMIT,
        Termination.TOKEN_LIMIT,
        Termination.PARSE_LIMIT,
        Termination.TIMEOUT,
        Termination.INFRASTRUCTURE,
    }
)


@dataclass(frozen=True, slots=True)
class Check:
    """One verified condition on the state that an episode reached."""

    name: str
    passed: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verified result of an episode.

    ``score`` is in [0, 1], and None exactly when the episode failed for reasons of infrastructure:
    such an episode has no score, rather than a score of 0. ``measures`` are further numbers by
    name, reported beside the score.
    """

    score: float | None
    success: bool
    termination: Termination
    checks: tuple[Check, ...] = ()
    error: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the machinery broke, so that nothing can be said about the policy."""
        return self.score is None

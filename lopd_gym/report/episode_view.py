"""One episode turn by turn, cut to a size that fits a page; what is left out is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import escape

from lopd_gym.episode import Episode
from lopd_gym.report.text import call_text
from lopd_gym.tasks import Check

MAX_TEXT = 1_500
"""Characters of one text."""

MAX_MESSAGES = 40
"""Messages of one episode: the first few and the last."""

MAX_BYTES = 40_000
"""Bytes of all texts of one episode, as they stand in the page."""

_FIRST = 12
_CHECKS = 40


@dataclass(frozen=True, slots=True)
class Token:
    """A sampled token: its text, and how much more likely the teacher finds it, in nats.

    ``level`` is -4 to 4: the colour of the advantage log q - log p, at 2 nats or more the fullest.
    """

    text: str
    teacher: float
    student: float

    @property
    def advantage(self) -> float:
        """Log q - log p."""
        return self.teacher - self.student

    @property
    def level(self) -> int:
        """The step of the colour scale."""
        return round(2 * min(2.0, max(-2.0, self.advantage)))


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message; ``turn`` numbers the policy's own, from 0."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[str, ...] = ()
    error: str = ""
    turn: int | None = None
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """What a page shows of an episode, and why it is shown (``tags``)."""

    key: str
    phase: str
    number: int
    tags: tuple[str, ...]
    task_id: str
    group: str
    seed: int
    score: float | None
    success: bool
    ending: str
    error: str
    turns: int
    calls: int
    checks: tuple[Check, ...]
    messages: tuple[MessageView | int, ...]
    """An int stands for so many messages that are left out."""
    teacher_context: str = ""

    @property
    def word(self) -> str:
        """The outcome in a word."""
        return "failed" if self.score is None else "solved" if self.success else "missed"


class _Room:
    """The bytes that an episode has left."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    def cut(self, text: str) -> str:
        """Shorten a text to what it may take, counted as it stands in the page."""
        kept = text[:MAX_TEXT]
        while kept and _cost(kept) > self._left:
            kept = kept[: len(kept) // 2]
        self._left -= _cost(kept)
        if len(kept) < len(text):
            kept += f" […{len(text) - len(kept):,} more characters]"
        return kept


def episode_view(
    episode: Episode,
    phase: str,
    number: int,
    tags: Sequence[str],
    tokens: Mapping[int, Sequence[Token]] | None = None,
    teacher_context: str = "",
) -> EpisodeView:
    """Prepare an episode for a page.

    Args:
        episode: What was played.
        phase: Whose episode it is.
        number: Its place in the phase.
        tags: Why it is shown.
        tokens: The sampled tokens of each of the policy's turns, from 0.
        teacher_context: What the teacher was shown.
    """
    room = _Room(MAX_BYTES)
    outcome = episode.outcome
    return EpisodeView(
        key=f"{'tokens-' if tokens else ''}{phase}-{number}",
        phase=phase,
        number=number,
        tags=tuple(tags),
        task_id=room.cut(episode.task_id),
        group=room.cut(episode.group),
        seed=episode.seed,
        score=outcome.score,
        success=outcome.success,
        ending=outcome.termination.value,
        error=room.cut(outcome.error or ""),
        turns=episode.turns,
        calls=len(episode.actions),
        checks=tuple(
            Check(room.cut(c.name), c.passed, room.cut(c.error or ""))
            for c in sorted(outcome.checks, key=lambda c: c.passed)[:_CHECKS]
        ),
        messages=tuple(_messages(episode, room, tokens or {})),
        teacher_context=room.cut(teacher_context),
    )


def _messages(
    episode: Episode, room: _Room, tokens: Mapping[int, Sequence[Token]]
) -> list[MessageView | int]:
    transcript = episode.transcript
    hidden = max(0, len(transcript) - MAX_MESSAGES)
    found: list[MessageView | int] = []
    turn = -1
    for place, message in enumerate(transcript):
        turn += message["role"] == "assistant"
        if _FIRST <= place < _FIRST + hidden:
            if place == _FIRST:
                found.append(hidden)
            continue
        found.append(_message(message, room, turn, tokens))
    return found


def _message(
    message: Mapping[str, Any], room: _Room, turn: int, tokens: Mapping[int, Sequence[Token]]
) -> MessageView:
    own = message["role"] == "assistant"
    return MessageView(
        role=str(message["role"]),
        text=room.cut(message.get("content") or ""),
        reasoning=room.cut(message.get("reasoning") or ""),
        calls=tuple(room.cut(call_text(call)) for call in message.get("tool_calls", ())),
        error=room.cut(message.get("parse_error") or ""),
        turn=turn if own else None,
        tokens=tuple(tokens.get(turn, ())) if own else (),
    )


def _cost(text: str) -> int:
    return len(escape(text).encode("utf-8", "replace"))

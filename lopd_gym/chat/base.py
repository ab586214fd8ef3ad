"""The contract of a chat format: how one model family writes a conversation as text.

A format renders messages and parses replies. It is append-only: what the policy has sampled stays
as it was, and only the new messages are rendered after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lopd_gym.messages import AssistantMessage, Message, ToolSpec


class ChatFormat(Protocol):
    """Renders openings and new messages, and reads the policy's replies."""

    name: str
    end_of_turn: str
    """The text of the token that ends an assistant turn; the policy samples it."""

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[str, str]:
        """Render the first messages as ``(prefix, rest)``.

        ``prefix`` runs up to the end of the first user message, its end-of-turn mark included;
        ``rest`` is everything after it, up to where the policy begins to write.
        """
        ...

    def following(self, messages: Sequence[Message], *, ended: bool) -> str:
        """Render new messages after a sampled turn, up to where the policy writes again.

        ``ended`` tells whether the sampled turn already holds its end-of-turn token; where it
        does not (it was cut off), the text begins by closing the turn.
        """
        ...

    def parse(self, text: str, tools: Sequence[ToolSpec]) -> AssistantMessage:
        """Read a sampled turn (without its end-of-turn token). Never raises.

        A malformed reply becomes a message whose ``parse_error`` says what is wrong with it.
        """
        ...

    def write(self, message: AssistantMessage) -> str:
        """Render a turn as the policy would have written it, without the end-of-turn token."""
        ...

"""Gymnasium spaces for messages: `gymnasium.spaces.Text` cannot hold ordinary text."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space

from lopd_gym.messages import AssistantMessage, Message, Observation


class MessagesSpace(Space[Observation]):
    """All tuples of messages: what `ToolEnv.reset` and `ToolEnv.step` return."""

    def __init__(self) -> None:
        super().__init__(shape=None, dtype=None)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple of messages."""
        return isinstance(x, tuple) and all(isinstance(m, Message) for m in x)

    def sample(self, mask: Any = None, probability: Any = None) -> Observation:
        """Draw a one-message observation."""
        return (Message("user", f"message {self.np_random.integers(1000)}"),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesSpace)


class AssistantSpace(Space[AssistantMessage]):
    """All assistant messages: the actions of `ToolEnv`."""

    def __init__(self) -> None:
        super().__init__(shape=None, dtype=None)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an assistant message."""
        return isinstance(x, AssistantMessage)

    def sample(self, mask: Any = None, probability: Any = None) -> AssistantMessage:
        """Draw a text message."""
        return AssistantMessage(text=f"text {self.np_random.integers(1000)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssistantSpace)

"""What environments and policies say to each other: messages, tool calls and tool descriptions.

How a particular model writes a tool call is the business of `lopd_gym.chat`, not of this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message that an environment shows to the policy."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one tool, with arguments as plain JSON values."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the policy did in one turn: the action of every environment.

    ``parse_error`` holds the reason when the model's text could not be read as a message; the
    environment answers it with an observation. ``cut_off`` marks a turn that hit the token limit.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    parse_error: str | None = None
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Name, description and JSON schema of a tool's parameters, as shown to the policy."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "required": []}
    )

    def as_openai(self) -> dict[str, Any]:
        """Return the tool in the OpenAI function format, which chat templates expect."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


Observation = tuple[Message, ...]

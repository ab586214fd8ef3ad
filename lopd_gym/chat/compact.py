"""The compact format of the tiny policy: ChatML turns in which nothing is said twice.

Tools are listed by name and parameter names only, calls are JSON without spaces, and results have
a role of their own. A model that was not trained on this format cannot use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lopd_gym.chat.calls import call_from_json
from lopd_gym.chat.chatml import ChatML, Malformed, json_text, neutral, tagged, turn
from lopd_gym.messages import Message, ToolCall, ToolSpec

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class CompactFormat(ChatML):
    """System turn with a line of tool signatures, calls in ``<tool_call>`` tags, tool turns."""

    _before_calls = ""

    def __init__(self) -> None:
        super().__init__("compact", thinking="absent", forced="")

    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> str | None:
        if not tools:
            return content
        listed = "Tools: " + " ".join(neutral(signature(spec)) for spec in tools)
        return listed if content is None else f"{content}\n{listed}"

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        return [turn(m.role, neutral(m.content)) for m in messages]

    def _read_calls(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        said, inside = tagged(text, _OPEN, _CLOSE)
        calls = []
        for number, call in enumerate(inside, start=1):
            try:
                calls.append(call_from_json(call))
            except ValueError as err:
                raise Malformed(f"tool call {number}: {err}") from err
        return said, tuple(calls)

    def _write_calls(self, calls: Sequence[ToolCall]) -> str:
        return "".join(_OPEN + call_text(call) + _CLOSE for call in calls)


def signature(spec: ToolSpec) -> str:
    """Return ``name(parameter,optional_parameter?)``."""
    required = spec.parameters.get("required", ())
    names = [n if n in required else f"{n}?" for n in spec.parameters.get("properties", {})]
    return f"{spec.name}({','.join(names)})"


def call_text(call: ToolCall) -> str:
    """Return ``{"name":...,"arguments":{...}}`` without spaces."""
    return json_text({"name": call.name, "arguments": dict(call.arguments)}, compact=True)

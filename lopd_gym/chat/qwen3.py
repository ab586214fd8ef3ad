"""Qwen3's format: Hermes-style JSON calls in ``<tool_call>`` tags, results in user turns.

Follows the template that Qwen3 ships (hub: Qwen/Qwen3-4B), except that it is append-only: that
template drops earlier reasoning when it renders a conversation again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from lopd_gym.chat.calls import call_from_json
from lopd_gym.chat.chatml import ChatML, Malformed, Thinking, json_text, neutral, tagged, turn
from lopd_gym.messages import Message, ToolCall, ToolSpec

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TOOLS_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
_TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    f"within {_OPEN}{_CLOSE} XML tags:\n{_OPEN}\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n'
    f"{_CLOSE}"
)
_NO_THOUGHT = "<think>\n\n</think>\n\n"


class Qwen3Format(ChatML):
    """Qwen3 conversations; with ``thinking="absent"`` any ChatML model that does not think."""

    def __init__(self, name: str, thinking: Thinking) -> None:
        super().__init__(name, thinking, forced=_NO_THOUGHT if thinking == "off" else "")

    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> str | None:
        if not tools:
            return content
        lines = "\n".join(neutral(json.dumps(t.as_openai(), ensure_ascii=False)) for t in tools)
        intro = "" if content is None else f"{content}\n\n"
        return f"{intro}{_TOOLS_HEAD}{lines}{_TOOLS_TAIL}"

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        turns = []
        for is_tool, group in groupby(messages, key=lambda m: m.role == "tool"):
            if is_tool:
                results = (
                    f"<tool_response>\n{neutral(m.content)}\n</tool_response>" for m in group
                )
                turns.append(turn("user", "\n".join(results)))
            else:
                turns.extend(turn(m.role, neutral(m.content)) for m in group)
        return turns

    def _read_calls(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        said, blocks = tagged(text, _OPEN, _CLOSE)
        return said, tuple(_read_call(block, n) for n, block in enumerate(blocks, start=1))

    def _write_calls(self, calls: Sequence[ToolCall]) -> str:
        plain = ({"name": c.name, "arguments": dict(c.arguments)} for c in calls)
        return "\n".join(f"{_OPEN}\n{json_text(call)}\n{_CLOSE}" for call in plain)


def _read_call(text: str, number: int) -> ToolCall:
    try:
        return call_from_json(text.strip())
    except ValueError as err:
        raise Malformed(f"tool call {number}: {err}") from err

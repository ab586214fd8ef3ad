"""Olmo 3's format: Python-like calls in ``<function_calls>``, results in environment turns.

Follows the templates of Olmo 3 (hub: allenai/Olmo-3-7B-Think and -Instruct). Those that think
get ``<think>`` as part of the prompt, so a sampled turn begins inside the reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lopd_gym.chat.calls import calls_from_python
from lopd_gym.chat.chatml import ChatML, Malformed, Thinking, json_text, neutral, tagged, turn
from lopd_gym.messages import Message, ToolCall, ToolSpec

_OPEN, _CLOSE = "<function_calls>", "</function_calls>"
_DEFAULT_SYSTEM = "You are a helpful function-calling AI assistant. "
_NO_TOOLS = "You do not currently have access to any functions. <functions></functions>"
_WITH_TOOLS = (
    "You are provided with function signatures within <functions></functions> XML tags. You may "
    "call one or more functions to assist with the user query. Output any function calls within "
    f"{_OPEN}{_CLOSE} XML tags. Do not make assumptions about what values to plug into functions."
)


class Olmo3Format(ChatML):
    """Olmo 3 conversations."""

    _before_calls = ""

    def __init__(self, name: str, thinking: Thinking) -> None:
        super().__init__(name, thinking, forced="" if thinking == "off" else "<think>")

    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> str | None:
        if not tools:
            return f"{_DEFAULT_SYSTEM}{_NO_TOOLS}" if content is None else content
        listing = json.dumps([t.as_openai() for t in tools], ensure_ascii=False)
        intro = f"{_DEFAULT_SYSTEM}{_WITH_TOOLS}" if content is None else content
        return f"{intro}<functions>{neutral(listing)}</functions>"

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        return [
            turn("environment" if m.role == "tool" else m.role, neutral(m.content))
            for m in messages
        ]

    def _read_calls(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        said, blocks = tagged(text, _OPEN, _CLOSE)
        try:
            return said, tuple(call for block in blocks for call in calls_from_python(block))
        except ValueError as err:
            raise Malformed(f"function calls: {err}") from err

    def _write_calls(self, calls: Sequence[ToolCall]) -> str:
        return f"{_OPEN}{chr(10).join(_write_call(call) for call in calls)}{_CLOSE}"


def _write_call(call: ToolCall) -> str:
    values = (f"{key}={json_text(value)}" for key, value in call.arguments.items())
    return f"{call.name}({', '.join(values)})"

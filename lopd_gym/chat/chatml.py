"""ChatML turns, ``<|im_start|>role ... <|im_end|>``: what Qwen3 and Olmo 3 have in common.

A subclass says how tools, tool results and calls are written. Not a chat template: nothing that
was sampled is ever rendered again, so thinking stays in the context whatever the format's name.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from lopd_gym.messages import AssistantMessage, Message, ToolCall, ToolSpec

Thinking = Literal["keep", "strip", "off", "absent"]
"""Kept; sampled but left out of the parsed message; switched off; unknown to the model."""

_START, _END = "<|im_start|>", "<|im_end|>"
_TRAILING = re.compile(r"(?:<\|[^|<>\s]{1,40}\|>\s*)+\Z")
_CONTROL = re.compile(
    r"<(?=\|[^|<>\s]{1,40}\|>|/?(?:think|tool_call|tool_response|tools|functions|function_calls)>)"
)


class Malformed(Exception):
    """A reply that cannot be read; its text is the reason, as the policy will see it."""


class ChatML(ABC):
    """A `ChatFormat` with ChatML turns.

    ``forced`` is text that the prompt puts at the start of every assistant turn.
    """

    end_of_turn = _END
    _before_calls = "\n"

    def __init__(self, name: str, thinking: Thinking, forced: str) -> None:
        self.name = name
        self.thinking = thinking
        self._generation = f"{_START}assistant\n{forced}"

    # -- what a family writes in its own way -------------------------------------------------

    @abstractmethod
    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> str | None:
        """Return the text of the system turn, None for no such turn."""

    @abstractmethod
    def _turns(self, messages: Sequence[Message]) -> list[str]:
        """Render messages as whole turns, each ending with the end-of-turn mark."""

    @abstractmethod
    def _read_calls(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        """Split a reply without its reasoning into text and calls; raises `Malformed`."""

    @abstractmethod
    def _write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Render tool calls."""

    # -- the contract ------------------------------------------------------------------------

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[str, str]:
        """Render the first messages as ``(prefix, rest)``."""
        system = messages[0].content if messages and messages[0].role == "system" else None
        others = messages if system is None else messages[1:]
        text = self._system(None if system is None else neutral(system), tools)
        head = [] if text is None else [turn("system", text)]
        first_user = next((i for i, m in enumerate(others) if m.role == "user"), len(others) - 1)
        prefix = head + self._turns(others[: first_user + 1])
        rest = self._turns(others[first_user + 1 :])
        return "\n".join(prefix), "\n".join(["", *rest, self._generation])

    def following(self, messages: Sequence[Message], *, ended: bool) -> str:
        """Render new messages after a sampled turn."""
        close = "" if ended else _END
        return "\n".join([close, *self._turns(messages), self._generation])

    def parse(self, text: str, tools: Sequence[ToolSpec]) -> AssistantMessage:
        """Read a sampled turn; a malformed one becomes a message with ``parse_error``."""
        reasoning = ""
        try:
            reasoning, body = self._split_reasoning(_TRAILING.sub("", text))
            said, calls = self._read_calls(body)
        except Malformed as err:
            return AssistantMessage(text=text, reasoning=reasoning, parse_error=str(err))
        return AssistantMessage(text=said.strip(), tool_calls=calls, reasoning=reasoning)

    def write(self, message: AssistantMessage) -> str:
        """Render a turn as the policy would have written it."""
        said = [neutral(message.text)] if message.text else []
        calls = [self._write_calls(message.tool_calls)] if message.tool_calls else []
        thought = self._write_reasoning(neutral(message.reasoning))
        return thought + self._before_calls.join(said + calls)

    # -- thinking ----------------------------------------------------------------------------

    def _write_reasoning(self, reasoning: str) -> str:
        if self.thinking in ("off", "absent"):
            return ""
        opener = "" if self._generation.endswith("<think>") else "<think>"
        return f"{opener}\n{reasoning}\n</think>\n\n"

    def _split_reasoning(self, text: str) -> tuple[str, str]:
        before, closed, after = text.partition("</think>")
        opened = self._generation.endswith("<think>") or before.lstrip().startswith("<think>")
        if not closed:
            if opened:
                raise Malformed("the reasoning was not closed with </think>")
            return "", text
        reasoning = before.strip().removeprefix("<think>").strip()
        return ("" if self.thinking == "strip" else reasoning), after


def turn(role: str, content: str) -> str:
    """Render one turn."""
    return f"{_START}{role}\n{content}{_END}"


def tagged(text: str, opening: str, closing: str) -> tuple[str, list[str]]:
    """Split a reply into what is outside of a pair of tags, and each piece inside of them.

    The last closing tag may be missing. Raises `Malformed` for one that was never opened.
    """
    outside, *blocks = text.split(opening)
    pieces = [block.partition(closing) for block in blocks]
    outside += "".join(after for _, _, after in pieces)
    if closing in outside:
        raise Malformed(f"{closing} without {opening}")
    return outside, [inside for inside, _, _ in pieces]


def neutral(content: str) -> str:
    """Return text in which no control string of a chat format is left.

    Messages come from tasks and tools, which are not trusted to open or close turns. A space
    after ``<`` keeps the text readable and stops the tokenizer from seeing a control token.
    """
    return _CONTROL.sub("< ", content)


def json_text(value: object, *, compact: bool = False) -> str:
    """Render a JSON value for a call; control strings inside of its strings are escaped."""
    separators = (",", ":") if compact else None
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    return _CONTROL.sub(r"\\u003c", text)

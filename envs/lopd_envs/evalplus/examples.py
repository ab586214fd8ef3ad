"""The examples that a statement itself shows: calls with plain values, and their results.

They are the public tests. Nothing but the statement's text is read, so nothing hidden can leak.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

_RESULT = re.compile(r"[ \t]*(?:#[ \t]*)?(?:==>|=>|==|->|➞|→|=|returns|\n)[ \t]*")
_MAX_CALL_CHARS = 2_000

CONTRADICTORY = frozenset(f"HumanEval/{n}" for n in (47, 116, 130, 148))
"""Tasks whose statement shows something else than their reference returns."""


@dataclass(frozen=True, slots=True)
class Example:
    """A call that the statement shows, and what it says comes out."""

    text: str
    arguments: list[Any]
    expected: Any


def find_examples(prompt: str, entry_point: str) -> list[Example]:
    """Return the examples in a statement whose arguments and result are literals."""
    found = []
    for match in re.finditer(rf"(?<![\w.]){re.escape(entry_point)}\(", prompt):
        if prompt[: match.start()].endswith("def "):
            continue
        call = _call_at(prompt, match.start(), match.end())
        if call is None:
            continue
        text, arguments = call
        after = prompt[match.start() + len(text) :]
        separator = _RESULT.match(after)
        if separator is None:
            continue
        try:
            expected = _literal(after[separator.end() :].split("\n")[0])
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        found.append(Example(text, arguments, expected))
    return found


def _call_at(prompt: str, start: int, inside: int) -> tuple[str, list[Any]] | None:
    """Read the call that starts here: its text, and its arguments if all are literals."""
    for end in (m.end() for m in re.finditer(r"\)", prompt[inside : inside + _MAX_CALL_CHARS])):
        text = prompt[start : inside + end]
        try:
            node = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        try:
            return text, [ast.literal_eval(argument) for argument in node.args]
        except (ValueError, TypeError, MemoryError, RecursionError):
            return None
    return None


def _literal(text: str) -> Any:
    """Read a literal that may be followed by a remark."""
    text = text.strip().rstrip(".;,")
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        return ast.literal_eval(re.split(r"\s+[#(]|\s{2,}|;", text)[0].strip())

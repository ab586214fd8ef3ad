r"""Read tool calls: as a JSON object, or in Python's notation with JSON values.

Lenient where the meaning is plain (arguments as a JSON string, ``true`` beside ``True``), and
everything else is a ValueError with a reason. Nothing is ever evaluated as code.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from lopd_gym.messages import ToolCall

_NAME = re.compile(r"[\s,]*([\w.\-]+)\s*")
_DECODER = json.JSONDecoder(strict=False)
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def call_from_json(text: str) -> ToolCall:
    """Read ``{"name": ..., "arguments": {...}}``.

    Raises:
        ValueError: The text is not such a call; the message says why.
    """
    value = _loads(text)
    if not isinstance(value, Mapping):
        raise ValueError("expected a JSON object with name and arguments")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("the name is missing")
    return ToolCall(name, _arguments(value.get("arguments", value.get("parameters"))))


def calls_from_python(text: str) -> list[ToolCall]:
    """Read calls like ``find(name="x", count=2)``, one after the other.

    Raises:
        ValueError: The text is not a sequence of such calls; the message says why.
    """
    calls, position = [], 0
    while text[position:].strip():
        call, position = _python_call(text, position)
        calls.append(call)
    return calls


def _loads(text: str) -> Any:
    try:
        return _storable(_DECODER.decode(text))
    except RecursionError as err:
        raise ValueError("nested too deeply") from err
    except json.JSONDecodeError as err:
        raise ValueError(f"not valid JSON ({err.msg} at character {err.pos})") from err


def _storable(value: Any) -> Any:
    """Return the value if it can be written as JSON; no NaN, no half of a surrogate pair."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return value


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _loads(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("the arguments are not a JSON object")
    return value


def _python_call(text: str, position: int) -> tuple[ToolCall, int]:
    name, position = _name(text, position, "a function name")
    if text[position : position + 1] != "(":
        raise ValueError(f"expected '(' after {name}")
    position += 1
    arguments: dict[str, Any] = {}
    while not text[position:].lstrip().startswith(")"):
        key, position = _name(text, position, f"an argument of {name}")
        if text[position : position + 1] != "=":
            raise ValueError(f"expected '=' after {name}'s argument {key}")
        arguments[key], position = _python_value(text, position + 1)
    return ToolCall(name, arguments), text.index(")", position) + 1


def _name(text: str, position: int, what: str) -> tuple[str, int]:
    match = _NAME.match(text, position)
    if match is None:
        raise ValueError(f"expected {what} at character {position}")
    return match[1], match.end()


def _python_value(text: str, position: int) -> tuple[Any, int]:
    """Read one value and the comma after it; returns where the next argument begins."""
    end = _value_end(text, position)
    literal = text[position:end].strip()
    return _literal(literal), end + (text[end] == ",")


def _value_end(text: str, position: int) -> int:
    """Return where a value ends: at a comma or bracket outside of strings and nesting."""
    closers: list[str] = []
    quote = ""
    index = position
    while index < len(text):
        char = text[index]
        if quote:
            index += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in _CLOSERS:
            closers.append(_CLOSERS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        elif not closers and char in ",)":
            return index
        index += 1
    raise ValueError("a call is not closed with ')'")


def _literal(text: str) -> Any:
    """Read a value in JSON's notation or, failing that, in Python's."""
    try:
        return _loads(text)
    except ValueError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = json.dumps(ast.literal_eval(text), allow_nan=False)
        return _storable(json.loads(plain))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as err:
        raise ValueError(f"{text[:40]!r} is not a JSON value") from err

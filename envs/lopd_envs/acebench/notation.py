"""ACEBench's notation of calls, ``[Api(key='value'), ...]``: writing it, and reading it twice.

`read_answer` reads a reply as upstream's scorer does, `read_calls` as its executor does. Text is
parsed, never evaluated: what is no literal stays its own source text.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from lopd_gym.messages import ToolCall

Call = tuple[str, dict[Any, Any]]
"""A name and arguments."""

_MAX_DEPTH = 32
_MAX_CHARS = 100_000


def write_calls(calls: Iterable[ToolCall]) -> str:
    """Write calls in ACEBench's notation, with Python's literals.

    Arguments that cannot be written (`refusal`) become words that cannot be read back.
    """
    return f"[{', '.join(_write(call) for call in calls)}]"


def _write(call: ToolCall) -> str:
    if refusal(call.arguments) is not None:
        return f"{call.name}(unfit arguments)"
    return f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"


def read_answer(text: str, *, squeeze: bool) -> list[Call]:
    """Read a reply's first bracketed list of calls, as it is scored.

    Args:
        text: The whole reply.
        squeeze: Remove all white space first and expect nothing but the list, as upstream does
            for dialogues.

    Raises:
        ValueError: The reply holds no such list.
    """
    body = _parse("".join(text.split()) if squeeze else _first_list(text))
    if not isinstance(body, ast.List | ast.Tuple):
        raise ValueError("expected a list of calls")
    if not all(isinstance(element, ast.Call) for element in body.elts):
        raise ValueError("expected nothing but calls in the list")
    return [_call(e) for e in body.elts if isinstance(e, ast.Call)]


def read_calls(text: str) -> list[Call]:
    """Read calls as the executor does: brackets may be missing, and what is no call is dropped.

    Raises:
        ValueError: The text cannot be parsed.
    """
    body = _parse(text.removeprefix(" ").strip("[]'"))
    elements = body.elts if isinstance(body, ast.Tuple | ast.List) else [body]
    return [_call(element) for element in elements if isinstance(element, ast.Call)]


def tool_calls(text: str) -> tuple[ToolCall, ...]:
    """Return the calls that a reply consists of, in this notation; none where it is other text."""
    # A bracket and its end on one line, as upstream asks; its regular expression is quadratic.
    if not any(0 <= line.find("[") < line.rfind("]") for line in text.split("\n")):
        return ()
    try:
        return tuple(ToolCall(name, _named(values)) for name, values in read_calls(text))
    except ValueError:
        return ()


def refusal(arguments: Mapping[str, Any]) -> str | None:
    """Return why arguments cannot be plain, moderate JSON values, or None where they can.

    The simulated apps keep what they are given, so nothing may enter that cannot be copied,
    compared and written again.
    """
    waiting: list[tuple[Any, int]] = [(value, 1) for value in arguments.values()]
    size = 0
    while waiting:
        value, depth = waiting.pop()
        size += len(value) if isinstance(value, str) else 1
        if depth > _MAX_DEPTH or size > _MAX_CHARS:
            return "the arguments are too large or too deeply nested"
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                return "the arguments are not a JSON object"
            size += sum(len(key) for key in value)
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(item, depth + 1) for item in value]
        elif not _plain(value):
            return "an argument is not a JSON value of moderate size"
    return None


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, bool) or value is None:
        return True
    return isinstance(value, int | float) and abs(value) < 1e100  # not so: NaN, infinity


def _named(values: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in values.items()}


def _first_list(text: str) -> str:
    """Return the first balanced ``[...]``; brackets in strings count, as they do upstream."""
    depth, start = 0, 0
    for index, char in enumerate(text):
        if char == "[":
            start = index if depth == 0 else start
            depth += 1
        elif char == "]" and depth > 0:
            depth -= 1
            if depth == 0:
                return text[start : index + 1]
    raise ValueError("expected a bracketed list of calls")


def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_CHARS:
        raise ValueError("the reply is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as err:
        raise ValueError(f"cannot be parsed: {err}") from err


def _call(node: ast.Call) -> Call:
    try:
        named = [k for k in node.keywords if k.arg is not None]
        return _name(node.func), {k.arg: _value(k.value) for k in named}
    except (TypeError, RecursionError, OverflowError) as err:
        raise ValueError(f"cannot be read: {err}") from err


def _name(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _value(node: ast.expr | None) -> Any:
    """Return a literal's value; a bare word is its text, anything else its source text."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is Ellipsis else value
        case ast.UnaryOp(op=operator, operand=operand):
            value = _value(operand)
            number = isinstance(value, int | float) and isinstance(operator, ast.USub)
            return -value if number else value
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True)}
        case ast.Name(id=name):
            return name
        case ast.Call() if node.keywords:
            return dict([_call(node)])
        case ast.Call():
            return {_name(node.func): {}}
        case None:
            return None
        case _:
            return _odd_value(node)


def _odd_value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.unparse(node)

"""Tool calls as text: reading and writing Python call syntax. Nothing that is read is evaluated.

`parse_call` reads the benchmark's own answers, `read_reply` what a policy wrote in the prompting
protocol, with upstream's leniencies.
"""

from __future__ import annotations

import ast
import operator
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lopd_gym.errors import DataError

MAX_REPLY_CHARS = 200_000
"""A longer reply is not read as calls."""

MAX_DEPTH = 32
MAX_SIZE = 200_000
"""How deep and how large (in values and characters) the arguments of a call may be."""


class Unreadable(ValueError):
    """A reply that is not a list of calls; officially that is plain text, not a fault."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a name, named arguments, and positional ones (only the answers have these)."""

    name: str
    arguments: Mapping[str, Any]
    positional: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Nested:
    """A call that was given as an argument. It is never carried out."""

    name: str


def parse_call(text: str) -> Call:
    """Read one call of a bare name with literal arguments; raises `DataError` for anything else."""
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
            if len(named) == len(node.keywords):
                return Call(node.func.id, named, tuple(map(ast.literal_eval, node.args)))
    except (SyntaxError, ValueError) as err:
        raise DataError(f"Expected a call with literal arguments, found {text!r}.") from err
    raise DataError(f"Expected a call with literal arguments, found {text!r}.")


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as the prompting protocol asks for it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


_WARNINGS = threading.Lock()
"""What is done about warnings concerns the whole process, so one thread at a time does it."""


def read_reply(text: str) -> list[Call]:
    """Read a reply ``[f(a=1), g()]`` as upstream's decoder does, without evaluating any of it.

    Upstream's leniencies are kept: missing brackets are added, positional arguments are dropped,
    bare names become strings. An expression of anything but numbers is refused.

    Raises:
        Unreadable: The reply is no list of calls.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise Unreadable(f"a reply of {len(text)} characters")
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in what the policy wrote
            body = ast.parse(text.strip("'"), mode="eval").body
            elements = [body] if isinstance(body, ast.Call) else getattr(body, "elts", None)
            if elements is None or not all(isinstance(e, ast.Call) for e in elements):
                raise Unreadable("expected a list of calls")
            return [Call(_name(e.func), _arguments(e)) for e in elements]
    except (SyntaxError, ValueError, TypeError, ArithmeticError) as err:
        raise Unreadable(str(err)) from err
    except (RecursionError, MemoryError) as err:
        raise Unreadable("too deeply nested") from err


def to_carry_out(call: Call) -> Call:
    """Return a call that was read from a reply as upstream would go on to execute it.

    Upstream writes the call as text once more: a dictionary of dictionaries turns into a call, and
    the keys of any other into strings.

    Raises:
        Unreadable: An argument holds an empty dictionary, which upstream cannot write.
    """
    return Call(call.name, {name: _rewritten(value) for name, value in call.arguments.items()})


def _rewritten(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if not value:
        raise Unreadable("an empty dictionary")
    if all(isinstance(part, dict) for part in value.values()):
        return Nested(str(next(iter(value))))
    return {str(key): _rewritten(part) for key, part in value.items()}


def _name(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _arguments(call: ast.Call) -> dict[str, Any]:
    return {str(k.arg): _value(k.value) for k in call.keywords}


def _value(node: ast.expr | None) -> Any:
    """Return an argument's value; each branch is one of upstream's rules."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is Ellipsis else value
        case ast.UnaryOp(operand=ast.Constant(value=value)):
            return -value  # type: ignore[operator]  # whichever operator it was
        case ast.BinOp():
            return _number(node)
        case ast.Name(id=name):
            return name
        case ast.Call(keywords=[]):
            return ast.unparse(node)
        case ast.Call():
            return {_name(node.func): _arguments(node)}
        case ast.Subscript(value=value, slice=index):
            return f"{ast.unparse(value)}[{ast.unparse(index)}]"
    return _collection(node)


def _collection(node: ast.expr | None) -> Any:
    match node:
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True)}
    raise Unreadable(f"unsupported argument: {type(node).__name__}")


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _number(node: ast.expr) -> int | float:
    """Compute with numbers only: upstream evaluates any expression here, which runs code."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result: int | float = _OPERATORS[type(op)](_number(left), _number(right))
            return result
    raise Unreadable("an expression of something else than numbers")


def leaves(arguments: Mapping[str, Any], max_size: int = MAX_SIZE) -> Iterator[Any]:
    """Yield all values that hold no others, keys included.

    Raises:
        Unreadable: The arguments are too large or too deeply nested to go on with.
    """
    waiting: list[tuple[Any, int]] = [(arguments, 0)]
    size = 0
    while waiting:
        value, depth = waiting.pop()
        size += len(value) if isinstance(value, str) else 1
        if depth > MAX_DEPTH or size > max_size:
            raise Unreadable("the arguments are too large or too deeply nested")
        if isinstance(value, Mapping):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple):
            waiting += [(part, depth + 1) for part in value]
        else:
            yield value

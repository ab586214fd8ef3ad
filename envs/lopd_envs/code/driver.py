"""The program that runs a candidate solution inside a sandbox, and the encoding of its values.

It is sent to a session of `lopd_gym.sandbox` as source, so it uses the standard library only. It
knows code and inputs, never an expected output: it turns each input into an encoded value, and our
own process compares. Whatever a candidate does to this program, it can only spoil its own answers.

The encoding is JSON in which only None, bool, str, list, ordinary int and finite float stand for
themselves. Everything else is an object with one key that names the type:
``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"float": "nan"}``, ``{"int": "ff.."}``.
A value of any other type, subclasses included, is ``{"opaque": "its.type"}``; a long value is
``{"digest": [SHA-256 of its canonical encoding, length]}``.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import resource
import signal
import struct
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from types import FrameType, ModuleType
from typing import Any, BinaryIO

WHOLE_CHARS = 1 << 20
"""Longer encodings are sent as a digest."""

MAX_CHARS = 1 << 25
MAX_NODES = 1 << 22
MAX_DEPTH = 200
"""Values above these are an output limit; no one reads that far."""

REPLY_CHARS = 1 << 21
"""A reply ends early when its values are longer than this."""

WALL_PER_CPU = 3.0
"""How many seconds of wall time go with a second of processor time, on a busy machine."""

_BIG = 1 << 63
_PLAIN = {bool, str, type(None)}
_NAMES = {
    kind: kind.__name__
    for kind in (complex, bytes, bytearray, tuple, deque, set, frozenset, dict, Counter)
} | {defaultdict: "dict", OrderedDict: "OrderedDict"}


class TooLarge(Exception):
    """A value that is too long, too wide or too deep to be encoded."""


class Malformed(ValueError):
    """Text that is not an encoded value."""


# -- encoding --------------------------------------------------------------------------------


def encode(value: object, whole_chars: int = WHOLE_CHARS) -> str:
    """Encode a value as canonical JSON text: equal sets and dicts give equal text.

    Args:
        value: Any value.
        whole_chars: A longer text is replaced by a digest.

    Raises:
        TooLarge: The value exceeds a limit.
    """
    text = json.dumps(_Encoder().tree(value, 0), separators=(",", ":"))
    if len(text) > MAX_CHARS:
        raise TooLarge(f"a value of {len(text)} characters")
    if len(text) > whole_chars:
        digest = hashlib.sha256(text.encode()).hexdigest()
        return json.dumps({"digest": [digest, len(text)]})
    return text


class _Encoder:
    """Builds the JSON tree of one value and counts its nodes."""

    def __init__(self) -> None:
        self._nodes = 0

    def tree(self, value: Any, depth: int) -> Any:
        self._count(1, depth)
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if -_BIG < value < _BIG else {"int": f"{value:x}"}
        if kind is float:
            return value if isfinite(value) else {"float": repr(value)}
        if kind is list:
            return self._items(value, depth)
        return {_NAMES.get(kind, "opaque"): self._content(kind, value, depth)}

    def _content(self, kind: type, value: Any, depth: int) -> Any:
        if kind is complex:
            return [self.tree(value.real, depth), self.tree(value.imag, depth)]
        if kind in (bytes, bytearray):
            return value.hex()
        if kind in (tuple, deque):
            return self._items(value, depth)
        if kind in (set, frozenset):
            return sorted(self._items(value, depth), key=json.dumps)
        if kind in (dict, defaultdict, Counter):
            return sorted(self._pairs(value, depth), key=json.dumps)
        if kind is OrderedDict:
            return self._pairs(value, depth)
        return f"{kind.__module__}.{kind.__qualname__}"

    def _items(self, values: Any, depth: int) -> list[Any]:
        kinds = set(map(type, values))
        ordinary = kinds <= _PLAIN
        if kinds == {int}:
            ordinary = min(values) > -_BIG and max(values) < _BIG
        elif kinds == {float}:
            ordinary = all(map(isfinite, values))
        if ordinary:  # a copy at the speed of C, for the values are often long
            self._count(len(values), depth)
            return list(values)
        return [self.tree(v, depth + 1) for v in values]

    def _pairs(self, values: Any, depth: int) -> list[Any]:
        return [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in values.items()]

    def _count(self, nodes: int, depth: int) -> None:
        self._nodes += nodes
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise TooLarge(f"a value of {self._nodes} nodes and depth {depth}")


def encode_whole(value: object) -> str:
    """Encode a value that the other side has to know, such as an input.

    Raises:
        TooLarge: The value exceeds a limit.
    """
    return encode(value, MAX_CHARS)


# -- decoding --------------------------------------------------------------------------------


class Opaque:
    """Stands for a value of a type that is not encoded. It equals nothing, not even itself."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


class Digest:
    """Stands for a value that is too long to be sent; equal to one with the same digest."""

    def __init__(self, sha256: str, length: int) -> None:
        self.sha256, self.length = sha256, length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and other.sha256 == self.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"<a value of {self.length} characters>"


def decode(text: str) -> Any:
    """Build the value that `encode` was given; the text may be anything.

    Raises:
        Malformed: It is not an encoded value.
    """
    try:
        return _build(json.loads(text), 0)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as err:
        raise Malformed(f"not an encoded value: {err}") from err


def _build(tree: Any, depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise Malformed("nested too deeply")
    if isinstance(tree, list):
        return [_build(v, depth + 1) for v in tree]
    if not isinstance(tree, dict):
        return tree
    [(kind, content)] = tree.items()
    return _BUILDERS[kind](content, depth + 1)


def _built_items(make: Callable[[Iterable[Any]], Any]) -> Callable[[Any, int], Any]:
    return lambda content, depth: make([_build(v, depth) for v in content])


def _built_pairs(make: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    return lambda content, depth: make(
        {_build(key, depth): _build(value, depth) for key, value in content}
    )


def _complex(content: Any, depth: int) -> complex:
    real, imaginary = (_build(part, depth) for part in content)
    return complex(real, imaginary)


def _digest(content: Any, depth: int) -> Digest:
    sha256, length = content
    return Digest(str(sha256), int(length))


_BUILDERS: dict[str, Callable[[Any, int], Any]] = {
    "int": lambda content, depth: int(content, 16),
    "float": lambda content, depth: float(content),
    "complex": _complex,
    "bytes": lambda content, depth: bytes.fromhex(content),
    "bytearray": lambda content, depth: bytearray.fromhex(content),
    "tuple": _built_items(tuple),
    "deque": _built_items(deque),
    "set": _built_items(set),
    "frozenset": _built_items(frozenset),
    "dict": _built_pairs(dict),
    "Counter": _built_pairs(Counter),
    "OrderedDict": _built_pairs(OrderedDict),
    "opaque": lambda content, depth: Opaque(str(content)),
    "digest": _digest,
}


# -- running ---------------------------------------------------------------------------------


class Driver:
    """Answers requests: ``load`` a candidate's code, then ``call`` it on inputs."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self._requests = requests
        self._replies = replies
        self._function: Callable[..., Any] = lambda: None
        self._done: list[dict[str, Any]] = []
        signal.signal(signal.SIGPROF, self._out_of_time)
        signal.signal(signal.SIGALRM, self._out_of_time)

    def serve(self) -> None:
        """Answer requests until there are no more."""
        while header := self._requests.read(4):
            message = json.loads(self._requests.read(struct.unpack(">I", header)[0]))
            self._reply(getattr(self, "_" + message.pop("op"))(**message))

    def _reply(self, answer: Any) -> None:
        payload = json.dumps(answer).encode()
        self._replies.write(struct.pack(">I", len(payload)) + payload)
        self._replies.flush()

    def _hello(self) -> dict[str, Any]:
        return {"python": ".".join(map(str, sys.version_info[:3]))}

    def _load(self, preamble: str, code: str, entry_point: str, cpu_s: float) -> dict[str, Any]:
        """Run the code as a module and find its entry point, ``name`` or ``Class.method``."""
        self._done = []
        module = ModuleType("solution")
        sys.modules["solution"] = module
        exec(preamble, vars(module))  # noqa: S102 - the sandbox around this process is the boundary
        try:
            compiled = compile(code, "solution.py", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
            return {"verdict": "compile_error", "detail": _describe(err)}
        answer = self._guarded(lambda: exec(compiled, vars(module)), cpu_s)  # noqa: S102
        if "verdict" in answer:
            return answer
        return self._guarded(lambda: self._find(module, entry_point), cpu_s)

    def _find(self, module: ModuleType, entry_point: str) -> None:
        owner, _, name = entry_point.rpartition(".")
        holder: Any = getattr(module, owner)() if hasattr(module, owner) else module
        self._function = getattr(holder, name)

    def _call(self, inputs: list[str], cpu_s: list[float]) -> dict[str, Any]:
        """Call the candidate on inputs until one fails or the reply grows too long."""
        self._done, size = [], 0
        for text, limit in zip(inputs, cpu_s, strict=True):
            arguments = copy.deepcopy(decode(text))
            answer = self._guarded(partial(self._function, *arguments), limit)
            if "result" in answer:
                answer = _encoded(answer)
            self._done.append(answer)
            size += len(answer.get("value", ""))
            if "verdict" in answer or size > REPLY_CHARS:
                break
        return {"results": self._done}

    def _guarded(self, act: Callable[[], Any], cpu_s: float) -> dict[str, Any]:
        """Do something under a limit on processor time; a failure becomes a verdict."""
        # The handler answers in the candidate's stead and ends the process: an exception could
        # be caught by the candidate.
        signal.setitimer(signal.ITIMER_REAL, WALL_PER_CPU * cpu_s)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        started = time.process_time()
        try:
            result = act()
        except MemoryError:
            return {"verdict": "memory_limit", "detail": "MemoryError"}
        except BaseException as err:
            return {"verdict": "runtime_error", "detail": _describe(err)}
        finally:
            spent = time.process_time() - started
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        return {"result": result, "cpu_s": spent}

    def _out_of_time(self, signum: int, frame: FrameType | None) -> None:
        late = {"verdict": "time_limit", "detail": "out of time"}
        self._reply({**late, "results": [*self._done, late]})
        os._exit(0)


def _encoded(answer: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": encode(answer["result"]), "cpu_s": answer["cpu_s"]}
    except TooLarge as err:
        return {"verdict": "output_limit", "detail": str(err)}
    except MemoryError:
        return {"verdict": "memory_limit", "detail": "MemoryError"}
    except Exception as err:  # a container that changes while it is read
        return {"verdict": "runtime_error", "detail": _describe(err)}


def _describe(err: BaseException) -> str:
    try:
        return f"{type(err).__name__}: {err}"[:500]
    except BaseException:  # a candidate's exception may do anything when it is shown
        return type(err).__name__


def main() -> None:
    """Keep the session's pipes private, send the candidate's own output nowhere, and serve."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.set_int_max_str_digits(0)
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    Driver(requests, replies).serve()


if __name__ == "__main__":
    main()

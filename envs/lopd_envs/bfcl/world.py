"""The simulated APIs of one play: fresh instances, and a dispatcher that only looks names up.

Upstream evaluates the model's text. Here a call is a name and literal values: the name must be a
public method of an involved API, and everything else is answered with upstream's error text.
"""

from __future__ import annotations

import decimal
import inspect
import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

from lopd_envs.bfcl.calls import Call, Nested, Unreadable, leaves
from lopd_envs.bfcl.corpus import Entry
from lopd_envs.bfcl.wheel import Wheel
from lopd_gym.tools import ToolResult

_STATELESS = "MathAPI"
MAX_BITS = 4_000
MAX_STEPS = 1_000
"""The longest integer and the largest exponent or precision that MathAPI is given."""


class World:
    """The API instances of one play of an entry."""

    def __init__(self, wheel: Wheel, entry: Entry) -> None:
        self._wheel = wheel
        long_context = entry.category == "multi_turn_long_context"
        self.instances: dict[str, Any] = {}
        for name in entry.raw["involved_classes"]:
            instance = wheel.apis[name]()
            if name != _STATELESS:
                state = deepcopy(entry.raw["initial_config"].get(name, {}))
                instance._load_scenario(state, long_context=long_context)
            # Upstream hands out long-context decoys by reference, from one episode to the next.
            self.instances[name] = deepcopy(instance)
        self._methods = {
            method_name: method
            for instance in self.instances.values()
            for method_name, method in inspect.getmembers(instance, inspect.ismethod)
            if not method_name.startswith("_")
        }

    def call(self, call: Call) -> ToolResult:
        """Carry out one call and render its result exactly as upstream does. Never raises."""
        method = self._methods.get(call.name)
        if method is None:
            unknown = call.name.partition(".")[0]
            return ToolResult(_error(f"name '{unknown}' is not defined"), refused=True)
        is_math = method.__self__ is self.instances.get(_STATELESS)
        problem = _unfit(call.arguments) or (_endless(call.arguments) if is_math else None)
        if problem is not None:
            return ToolResult(_error(problem), refused=True)
        # The instances may keep what they are given, and the same call is replayed later.
        positional, arguments = deepcopy((call.positional, dict(call.arguments)))
        try:
            with _own_precision(self._wheel) if is_math else nullcontext():
                return ToolResult(_render(method(*positional, **arguments)))
        except Exception as err:  # the tool's own fault is an observation, as upstream
            return ToolResult(_error(str(err)), raised=repr(err))

    def named(self, call: Call) -> dict[str, Any]:
        """Return a call's arguments by name."""
        if not call.positional:
            return dict(call.arguments)
        signature = inspect.signature(self._methods[call.name])
        return signature.bind(*call.positional, **call.arguments).arguments


def _error(reason: str) -> str:
    return f"Error during execution: {reason}"


def _render(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


_PRECISION = threading.Lock()


@contextmanager
def _own_precision(wheel: Wheel) -> Iterator[None]:
    """MathAPI sets the precision of the whole process: nobody else may see it, or change it."""
    with _PRECISION, decimal.localcontext(), wheel.mpmath.workprec(wheel.mpmath.mp.prec):
        yield


def _unfit(arguments: Mapping[str, Any]) -> str | None:
    """Say why arguments are no plain literals of a reasonable size, or None."""
    try:
        for value in leaves(arguments):
            if isinstance(value, Nested):
                return f"name '{value.name.partition('.')[0]}' is not defined"
            if isinstance(value, float) and not math.isfinite(value):
                return f"name '{value}' is not defined"
    except Unreadable as err:
        return str(err)
    return None


def _endless(arguments: Mapping[str, Any]) -> str | None:
    """Say why MathAPI would compute for hours, or None."""
    whole = [value for value in arguments.values() if isinstance(value, int)]
    steps = [arguments.get(name) for name in ("exponent", "precision", "decimal_places")]
    too_long = any(value.bit_length() > MAX_BITS for value in whole)
    if too_long or any(isinstance(value, int) and abs(value) > MAX_STEPS for value in steps):
        return "the numbers are too large to compute with"
    return None

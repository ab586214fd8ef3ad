"""When an output of an EvalPlus task is right: equality, tolerance, and the tasks that differ.

The rules are EvalPlus' own (`evalplus.eval` at version 0.3.1), with these deviations, each on
purpose: comparing never runs a candidate's code; where sets are compared a string is no set of
letters; a tolerance that one float output brings does not stick to the task's other inputs; nested
lists of numbers are not broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lopd_envs.code.values import all_floats, close, equal_as_sets, safely_equal

_SETS = frozenset(f"Mbpp/{n}" for n in (2, 7, 111, 140, 232, 249, 579, 769))
"""Tasks whose result is a collection in any order."""

_FOUND = frozenset({"check_str", "text_match_three", "text_starta_endb"})
"""Functions that return a match object or None; only whether there is one is compared."""

_FLOAT_TOLERANCE = 1e-6
_RELATIVE = 1e-7


def accepts(
    task_id: str,
    entry_point: str,
    arguments: Sequence[Any],
    value: Any,
    expected: Any,
    tolerance: float,
) -> bool:
    """Whether ``value`` is right.

    Args:
        task_id: Id of the task, e.g. ``Mbpp/2``.
        entry_point: Name of its function.
        arguments: Our own copy of the arguments that the candidate was called with.
        value: What the candidate returned, decoded.
        expected: What the reference returned.
        tolerance: The task's absolute tolerance, 0 for none.
    """
    if entry_point == "find_zero":
        return _is_root(arguments[0], value, tolerance)
    if task_id in _SETS:
        return equal_as_sets(value, expected)
    if entry_point in _FOUND and task_id.startswith("Mbpp/"):
        return (value if isinstance(value, bool) else value is not None) == _found(expected)
    if safely_equal(value, expected) or _second_reading(task_id, arguments, value, tolerance):
        return True
    if tolerance == 0 and all_floats(expected):
        tolerance = _FLOAT_TOLERANCE
    same_kind = type(value) is type(expected)
    return tolerance > 0 and same_kind and close(value, expected, tolerance, _RELATIVE)


def _is_root(coefficients: Sequence[float], x: Any, tolerance: float) -> bool:
    """HumanEval/32: any root of the polynomial will do."""
    if not isinstance(x, (int, float)):
        return False
    try:
        total = sum(c * math.pow(x, i) for i, c in enumerate(coefficients))
    except (OverflowError, ValueError):
        return False
    return abs(total) <= tolerance


def _found(expected: Any) -> bool:
    return expected if isinstance(expected, bool) else expected is not None


def _second_reading(task_id: str, arguments: Sequence[Any], value: Any, tolerance: float) -> bool:
    """Two statements can be read in two ways; EvalPlus accepts both."""
    if task_id == "Mbpp/558":
        return safely_equal(value, _digit_distance(*arguments))
    if task_id == "Mbpp/581" and isinstance(value, (int, float)):
        return abs(value - _pyramid_surface(*arguments)) <= tolerance
    return False


def _digit_distance(first: int, second: int) -> int:
    """Mbpp/558 with the shorter number padded with zeros."""
    width = max(len(str(first)), len(str(second)))
    pairs = zip(str(first).zfill(width), str(second).zfill(width), strict=True)
    return sum(abs(int(a) - int(b)) for a, b in pairs)


def _pyramid_surface(edge: float, height: float) -> int:
    """Mbpp/581 with the height taken from the apex to the base, not along a face."""
    slant = math.hypot(edge / 2, height)
    return round(edge**2 + 2 * edge * slant)

"""Compare values that were decoded from a sandbox. Runs in our process, on plain values only."""

from __future__ import annotations

import math
from typing import Any

from lopd_envs.code.driver import Opaque

_NUMBERS = (bool, int, float, complex)


def close(value: Any, expected: Any, absolute: float, relative: float) -> bool:
    """Whether two numbers, or equally nested lists and tuples of them, differ by little.

    The bound is ``absolute + relative * |expected|``, as in NumPy; nan is close to nothing.
    """
    if isinstance(value, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(
            close(v, e, absolute, relative) for v, e in zip(value, expected, strict=True)
        )
    if not (isinstance(value, _NUMBERS) and isinstance(expected, _NUMBERS)):
        return False
    try:
        if value == expected:
            return True
        bound = absolute + relative * abs(expected)
        return math.isfinite(bound) and abs(value - expected) <= bound
    except OverflowError:
        return False


def all_floats(value: Any) -> bool:
    """Whether a value is a float, or a non-empty flat list or tuple of nothing but floats."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(v, float) for v in value)
    return isinstance(value, float)


def equal_as_sets(value: Any, expected: Any) -> bool:
    """Whether two collections hold the same elements. A string is no collection of letters."""
    collections = (list, tuple, set, frozenset)
    if not isinstance(value, collections) or not isinstance(expected, collections):
        return False
    try:
        return set(value) == set(expected)
    except TypeError:  # an element that cannot be in a set
        return False


def safely_equal(value: Any, expected: Any) -> bool:
    """Compare with ``==``; values nested too deeply to compare are not equal."""
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def shown(value: Any, limit: int = 300) -> str:
    """Return a value as people write it, cut to ``limit`` characters."""
    if isinstance(value, Opaque):
        return repr(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with too many digits, a value too deep
        text = f"<a {type(value).__name__} that is too large to show>"
    return text if len(text) <= limit else f"{text[:limit]}..."

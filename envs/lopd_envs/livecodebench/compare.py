"""When an output of a LiveCodeBench task is right.

``official`` is LiveCodeBench's own rule: numbers are equal exactly. ``strict`` adds a tolerance
where a fractional number is expected, and tells True from 1; it says more about a program, and is
not comparable with published scores.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from lopd_envs.code.driver import Digest, decode, encode
from lopd_envs.code.values import safely_equal

Comparison = Literal["official", "strict"]

TOLERANCE = 1e-6
"""Absolute or relative, whichever is larger."""


def same_output(text: str, expected: str, comparison: Comparison) -> bool:
    """Compare what a program printed with what it should, line by line.

    Blanks around lines and around the whole do not matter; a line of numbers is compared number
    by number, other lines as they are.
    """
    lines = [line.strip() for line in text.strip().split("\n")]
    wanted = [line.strip() for line in expected.strip().split("\n")]
    return len(lines) == len(wanted) and all(
        line == want or _same_numbers(line, want, comparison)
        for line, want in zip(lines, wanted, strict=True)
    )


def _same_numbers(line: str, wanted: str, comparison: Comparison) -> bool:
    tokens, wanted_tokens = line.split(), wanted.split()
    if len(tokens) != len(wanted_tokens) or not tokens:
        return False
    return all(
        _same_number(token, want, comparison)
        for token, want in zip(tokens, wanted_tokens, strict=True)
    )


def _same_number(token: str, wanted: str, comparison: Comparison) -> bool:
    try:
        number, want = Decimal(token), Decimal(wanted)
    except InvalidOperation:
        return False
    if not (number.is_finite() and want.is_finite()):
        return False
    if number == want:
        return True
    fractional = "." in wanted or "e" in wanted.lower()
    return comparison == "strict" and fractional and _near(float(number), float(want))


def same_value(value: Any, expected: Any, comparison: Comparison) -> bool:
    """Compare a returned value with JSON: tuples at any depth count as lists."""
    if isinstance(value, Digest):
        return safely_equal(value, decode(encode(expected)))
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(
            same_value(v, e, comparison) for v, e in zip(value, expected, strict=True)
        )
    if comparison == "official":
        return safely_equal(value, expected)
    if isinstance(value, bool) is not isinstance(expected, bool):
        return False
    if isinstance(expected, float) and isinstance(value, (int, float)):
        try:
            return _near(float(value), expected)
        except OverflowError:
            return False
    return safely_equal(value, expected)


def _near(number: float, wanted: float) -> bool:
    return math.isclose(number, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)

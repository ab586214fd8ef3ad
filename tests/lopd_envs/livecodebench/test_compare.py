"""When outputs are the same, officially and strictly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lopd_envs.code.driver import Opaque, decode, encode
from lopd_envs.livecodebench.compare import same_output, same_value


@pytest.mark.parametrize(
    ("text", "expected", "official", "strict"),
    [
        ("3\n", "3", True, True),
        ("  3  \n\n", "3\n", True, True),
        ("7.00", "7", True, True),
        ("1  2   3", "1 2 3", True, True),
        ("1 2", "1 2 3", False, False),
        ("1\n2", "1 2", False, False),
        ("a  b", "a b", False, False),
        ("Yes", "YES", False, False),
        ("0.333333", "0.3333333333", False, True),
        ("0.30000000000000004", "0.3", False, True),
        ("1000000.5", "1000000.0", False, True),  # relative
        ("1.1", "1.0", False, False),
        ("3.0000001", "3", False, False),  # no fraction is expected
        ("1e3", "1000", True, True),
        ("nan", "nan", True, True),
        ("nan", "NaN", False, False),
        ("inf", "1e999", False, False),
        ("Infinity", "inf", False, False),
        ("", "", True, True),
        ("", "0", False, False),
        ("3 x", "3.0 x", False, False),
        ("\ufffd", "3", False, False),
        ("9" * 100_000, "9" * 100_000, True, True),
    ],
)
def test_printed_output(text: str, expected: str, official: bool, strict: bool) -> None:
    assert same_output(text, expected, "official") is official
    assert same_output(text, expected, "strict") is strict


@pytest.mark.parametrize(
    ("value", "expected", "official", "strict"),
    [
        ((1, 2), [1, 2], True, True),
        ([(1, 2), (3, (4,))], [[1, 2], [3, [4]]], True, True),
        (True, 1, True, False),
        (1, True, True, False),
        (True, True, True, True),
        (0.1 + 0.2, 0.3, False, True),
        (1, 1.0, True, True),
        (10**400, 1.0, False, False),
        ([0.1 + 0.2], [0.3], False, True),
        ("1", 1, False, False),
        (None, None, True, True),
        ([1], [1, 2], False, False),
        ({"a": 1}, {"a": 1}, True, True),
        (Opaque("x"), 1, False, False),
        (float("nan"), 1.0, False, False),
    ],
)
def test_returned_values(value: Any, expected: Any, official: bool, strict: bool) -> None:
    assert same_value(value, expected, "official") is official
    assert same_value(value, expected, "strict") is strict


def test_long_values() -> None:
    long = ["abc"] * 400_000
    assert same_value(decode(encode(long)), long, "official")
    assert not same_value(decode(encode(long)), long[1:], "official")


LINES = st.lists(st.integers() | st.floats(allow_nan=False) | st.text("ab "), max_size=4)


@given(LINES, LINES)
def test_any_text_is_compared(left: list[Any], right: list[Any]) -> None:
    a, b = (" ".join(map(str, side)) for side in (left, right))
    assert same_output(a, a, "official")
    assert same_output(a, b, "official") <= same_output(a, b, "strict")

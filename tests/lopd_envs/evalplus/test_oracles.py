"""When an output is right: the rules of EvalPlus, case by case."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lopd_envs.code.driver import Opaque
from lopd_envs.code.values import close, shown
from lopd_envs.evalplus.oracles import accepts

NAN = float("nan")


def right(value: Any, expected: Any, tolerance: float = 0.0, task: str = "HumanEval/1") -> bool:
    return accepts(task, "f", [], value, expected, tolerance)


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "verdict"),
    [
        (1, 1, 0, True),
        (True, 1, 0, True),
        (3.0, 3, 0, True),
        (3, 3.0, 0, True),
        ([1, 2], (1, 2), 0, False),
        (0.1 + 0.2, 0.3, 0, True),
        ([0.1 + 0.2], [0.3], 0, True),
        ((0.1 + 0.2,), [0.3], 0, False),
        ([0.1 + 0.2, 1], [0.3, 1], 0, False),  # not all floats, so no tolerance
        ([[0.1 + 0.2]], [[0.3]], 0, False),
        ([[0.1 + 0.2]], [[0.3]], 1e-6, True),
        (1.00001, 1.0, 0, False),
        (1.00001, 1.0, 1e-4, True),
        (2, 2.0000001, 0, False),  # an int where a float is expected must be exact
        ([1.0], [1.0, 2.0], 0, False),
        ([], [], 0, True),
        (NAN, NAN, 0, False),
        ([NAN], [float("nan")], 1e-6, False),
        (math.inf, math.inf, 0, True),
        (math.inf, 1.0, 1e-6, False),
        (1.0, math.inf, 1e-6, False),
        ("a", "a", 1e-6, True),
        ("a", "b", 1e-6, False),
        (None, 0, 0, False),
        (None, None, 0, True),
        (Opaque("x"), Opaque("x"), 0, False),
        ({1: 2.0}, {1: 2.0 + 1e-9}, 1e-6, False),
        (10**400, 1.5, 1e-6, False),
        (10**400, 10**400, 0, True),
        (1 + 1e-9j, 1 + 0j, 1e-6, True),
    ],
)
def test_equality_and_tolerance(value: Any, expected: Any, tolerance: float, verdict: bool) -> None:
    assert right(value, expected, tolerance) is verdict


def test_a_tolerance_does_not_stick_to_the_next_input() -> None:
    assert right(0.1 + 0.2, 0.3)
    assert not right([[0.1 + 0.2]], [[0.3]])


@pytest.mark.parametrize(
    ("value", "expected", "verdict"),
    [
        ([1, 2, 2], (2, 1), True),
        ({1, 2}, [1, 2], True),
        ("ab", ["a", "b"], False),
        ([[1]], [[1]], False),
        (None, [], False),
        ([], [], True),
    ],
)
def test_collections_in_any_order(value: Any, expected: Any, verdict: bool) -> None:
    assert right(value, expected, task="Mbpp/7") is verdict
    assert right([2, 1], [1, 2], task="Mbpp/6") is False


@pytest.mark.parametrize(
    ("value", "expected", "verdict"),
    [
        (Opaque("re.Match"), Opaque("re.Match"), True),
        (True, Opaque("re.Match"), True),
        (True, True, True),
        (False, None, True),
        (None, None, True),
        (False, Opaque("re.Match"), False),
        (Opaque("re.Match"), None, False),
        (0, None, False),
    ],
)
def test_whether_something_was_found(value: Any, expected: Any, verdict: bool) -> None:
    found = accepts("Mbpp/737", "check_str", ["annie"], value, expected, 0.0)
    assert found is verdict


def test_any_root_will_do() -> None:
    def root(value: Any) -> bool:
        return accepts("HumanEval/32", "find_zero", [[-6, 11, -6, 1]], value, 1.0, 1e-4)

    assert all(root(x) for x in (1, 2.0, 3, 1.00001))
    assert not any(root(x) for x in (1.5, NAN, math.inf, 1e300, "1", None, 1j, [1]))


def test_second_readings() -> None:
    def surface(value: Any) -> bool:
        return accepts("Mbpp/581", "surface_Area", [3, 4], value, 33, 0.0)

    assert [surface(v) for v in (33, 35, 34, "35", None)] == [True, True, False, False, False]

    def distance(value: Any) -> bool:
        return accepts("Mbpp/558", "digit_distance_nums", [23, 556], value, 6, 0.0)

    assert [distance(v) for v in (6, 11, 7)] == [True, 5 + 3 + 3 == 11, False]


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32) | st.integers(-100, 100)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
    st.sampled_from([1e-6, 1e-4, 0.5]),
)
def test_tolerance_is_numpys(pairs: list[tuple[float, float]], tolerance: float) -> None:
    values, expected = [list(side) for side in zip(*pairs, strict=True)]
    with np.errstate(all="ignore"):
        wanted = bool(np.allclose(values, expected, rtol=1e-7, atol=tolerance))
    assert close(values, expected, tolerance, 1e-7) is wanted


def test_whatever_is_shown_is_short() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert shown([1, "a"]) == "[1, 'a']"
    assert shown(Opaque("re.Match")) == "<re.Match>"
    assert len(shown("a" * 10_000)) < 400
    assert "too large" in shown(10**10_000)
    assert "too large" in shown(deep)

"""The encoding of values: nothing is lost, nothing unknown is guessed, garbage is refused."""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lopd_envs.code.driver import (
    MAX_DEPTH,
    WHOLE_CHARS,
    Digest,
    Malformed,
    Opaque,
    TooLarge,
    decode,
    encode,
)

HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(deque)
        | st.sets(HASHABLE, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
    ),
    max_leaves=16,
)


def types_of(value: Any) -> Any:
    """The value's type, with those of its items where they have an order."""
    if isinstance(value, (list, tuple, deque)):
        return type(value), [types_of(v) for v in value]
    return type(value)


@given(VALUES)
@settings(max_examples=200)
def test_a_value_comes_back_with_its_types(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert types_of(again) == types_of(value)


@given(st.sets(st.integers() | st.text()))
def test_equal_sets_have_equal_text(value: set[Any]) -> None:
    assert encode(value) == encode(set(sorted(value, key=repr, reverse=True)))
    assert encode({v: 1 for v in value}) == encode({v: 1 for v in reversed(list(value))})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2.5, "a", None, True], '[1,2.5,"a",null,true]'),
        ((1, 2), '{"tuple":[1,2]}'),
        ({1: "x"}, '{"dict":[[1,"x"]]}'),
        (float("-inf"), '{"float":"-inf"}'),
        (-(2**64), '{"int":"-10000000000000000"}'),
        ([1e400, 1.0], '[{"float":"inf"},1.0]'),
        (2 - 1j, '{"complex":[2.0,-1.0]}'),
        (b"\x00\xff", '{"bytes":"00ff"}'),
        (defaultdict(int, {"a": 1}), '{"dict":[["a",1]]}'),
        (Counter("aab"), '{"Counter":[["a",2],["b",1]]}'),
        (OrderedDict(b=1, a=2), '{"OrderedDict":[["b",1],["a",2]]}'),
        (re.match("a", "a"), '{"opaque":"re.Match"}'),
        ("\ud800", '"\\ud800"'),
    ],
)
def test_the_text_of_known_values(value: Any, text: str) -> None:
    assert encode(value) == text


def test_subclasses_are_opaque_and_equal_to_nothing() -> None:
    class Sly(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    one = IntEnum("one", "ONE")
    for value in (Sly(3), one.ONE, object(), print, int, iter([])):  # type: ignore[attr-defined]
        found = decode(encode(value))
        assert isinstance(found, Opaque)
        assert found != 3
        assert found != found


def test_nan_equals_nothing() -> None:
    assert decode(encode([float("nan")])) != decode(encode([float("nan")]))
    assert decode(encode(-0.0)).hex() == "-0x0.0p+0"


def test_integers_of_any_length() -> None:
    huge = 10**20_000  # above the limit of Python's own conversion to decimal
    assert decode(encode(huge)) == huge
    assert decode(encode([-huge, 1])) == [-huge, 1]


def test_long_values_are_compared_by_digest() -> None:
    long, other = "a" * (WHOLE_CHARS + 1), "a" * WHOLE_CHARS + "b"
    assert isinstance(decode(encode(long)), Digest)
    assert decode(encode(long)) == decode(encode(str(long)))
    assert decode(encode(long)) != decode(encode(other))
    assert decode(encode(long)) != long


def test_values_beyond_the_limits_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(TooLarge, match="depth"):
        encode(deep)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TooLarge):
        encode(endless)
    with pytest.raises(TooLarge, match="characters"):
        encode("a" * (1 << 26))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1",
        '{"tuple": 3}',
        '{"tuple": [1], "list": [2]}',
        '{"object": []}',
        '{"complex": [1]}',
        '{"complex": [1%s, 0]}' % ("0" * 400),
        '{"int": "zz"}',
        '{"int": 3}',
        '{"dict": [[1]]}',
        '{"dict": [[[1], 2]]}',
        '{"set": [[]]}',
        '{"bytes": "0"}',
        '{"digest": 1}',
        '{"set": [{"opaque": "x"}]}',
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        "9" * 10_000,
    ],
)
def test_garbage_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        decode(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tuple", "set", "dict", "int", "float", "digest", "Counter", "x"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_a_value_or_malformed(tree: Any) -> None:
    with suppress(Malformed):
        decode(json.dumps(tree))

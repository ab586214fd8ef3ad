"""Traces: one line per call, short, whatever the values are."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lopd_gym.bank.trace import (
    MAX_RESULT_CHARS,
    TRACE_HEADER,
    item_text,
    reduce_result,
    write_trace,
)


def test_a_trace_keeps_calls_arguments_and_telling_results() -> None:
    actions = [
        ("find", {"name": "Ann", "limit": 2}, '{"customer_id": "C7", "address": "Mill Lane 3"}'),
        ("refund", {"order": None}, '{"success": false, "error": "no such order"}'),
        ("close", {}, "Done,\n  at last"),
    ]
    assert write_trace(actions).splitlines() == [
        '1. find(name="Ann",limit=2) -> customer_id=C7',
        "2. refund(order=null) -> success=False,error=no such order",
        "3. close() -> Done, at last",
    ]


def test_an_item_is_task_header_and_steps() -> None:
    assert item_text("Do it.", "1. f() -> ok") == f"Do it.\n{TRACE_HEADER}\n1. f() -> ok"


def test_results_are_reduced() -> None:
    assert reduce_result('{"data": {"order_id": 5, "lines": [1, 2]}, "status": "paid"}') == (
        "status=paid,order_id=5"
    )
    assert reduce_result("{'success': True}") == "success=True"
    assert reduce_result('{"lines": []}') == "ok"
    assert reduce_result("[1, 2]") == "[1, 2]"
    assert reduce_result('{"message": "two\\nlines"}') == "message=two lines"


def test_long_values_are_clipped() -> None:
    (line,) = write_trace([("f", {"x": "a" * 500}, "b" * 500)]).splitlines()
    arguments, result = line.split(" -> ")
    assert arguments == '1. f(x="' + "a" * 76 + "...)"
    assert result == "b" * 117 + "..."


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=json_values | st.dictionaries(st.sampled_from(["id", "error", "data"]), json_values))
def test_any_observation_becomes_one_short_line(value: object) -> None:
    for observation in (json.dumps(value), str(value)):
        reduced = reduce_result(observation)
        assert len(reduced) <= MAX_RESULT_CHARS
        assert len(reduced.splitlines()) <= 1


@given(st.lists(st.dictionaries(st.from_regex("[a-z_]+", fullmatch=True), json_values), max_size=4))
def test_lines_are_numbered(calls: list[dict[str, object]]) -> None:
    lines = write_trace([("f", arguments, "ok") for arguments in calls]).split("\n")
    assert [line.split(".")[0] for line in lines if line] == [
        str(number + 1) for number in range(len(calls))
    ]

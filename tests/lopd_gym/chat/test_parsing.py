"""What the chat formats read from a model's reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopd_gym.chat import get_format
from lopd_gym.messages import AssistantMessage, ToolCall

NAMES = ["chatml", "qwen3", "qwen3-strip", "qwen3-nothink", "olmo3", "olmo3-strip", "olmo3-nothink"]
FIND = ToolCall("find", {"title": "Emma"})


def qwen(text: str) -> AssistantMessage:
    return get_format("qwen3").parse(text, ())


def olmo(text: str) -> AssistantMessage:
    return get_format("olmo3-nothink").parse(text, ())


def wrapped(inside: str) -> str:
    return f"<tool_call>\n{inside}\n</tool_call>"


FIND_TEXT = '{"name": "find", "arguments": {"title": "Emma"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", AssistantMessage("Hello.")),
        (wrapped(FIND_TEXT), AssistantMessage("", (FIND,))),
        (f"<tool_call>{FIND_TEXT}</tool_call>", AssistantMessage("", (FIND,))),
        (f"Look:\n{wrapped(FIND_TEXT)}<|im_end|>", AssistantMessage("Look:", (FIND,))),
        (f"<tool_call>\n{FIND_TEXT}", AssistantMessage("", (FIND,))),
        (f"{wrapped(FIND_TEXT)}\n{wrapped(FIND_TEXT)}", AssistantMessage("", (FIND, FIND))),
        (
            f"<think>\nA book.\n</think>\n\n{wrapped(FIND_TEXT)}",
            AssistantMessage("", (FIND,), "A book."),
        ),
        (
            wrapped(json.dumps({"name": "find", "arguments": '{"title": "Emma"}'})),
            AssistantMessage("", (FIND,)),
        ),
        (wrapped('{"name": "f", "arguments": ""}'), AssistantMessage("", (ToolCall("f", {}),))),
        (wrapped('{"name": "f"}'), AssistantMessage("", (ToolCall("f", {}),))),
        (
            wrapped('{"name": "f", "arguments": {"a": {"b": {"c": "}"}}}}'),
            AssistantMessage("", (ToolCall("f", {"a": {"b": {"c": "}"}}}),)),
        ),
        (
            wrapped('{"name": "f", "arguments": {"a": "two\nlines"}}'),
            AssistantMessage("", (ToolCall("f", {"a": "two\nlines"}),)),
        ),
    ],
)
def test_qwen3_reads(text: str, expected: AssistantMessage):
    assert qwen(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (wrapped('{"name": "find", "arguments": {"title": "Emma"}'), "not valid JSON"),
        (wrapped("find(title='Emma')"), "not valid JSON"),
        (wrapped('["find"]'), "JSON object"),
        (wrapped('{"arguments": {}}'), "name is missing"),
        (wrapped('{"name": "f", "arguments": [1]}'), "arguments are not a JSON object"),
        (wrapped('{"name": "f", "arguments": "Emma"}'), "not valid JSON"),
        (wrapped('{"name": "f", "arguments": {"a": NaN}}'), "tool call 1"),
        (wrapped('{"name": "f", "arguments": {"a": "\\ud800"}}'), "tool call 1"),
        (f"{wrapped(FIND_TEXT)}\n{wrapped('oops')}", "tool call 2"),
        ("done</tool_call>", "without"),
        ("<think>\nI wonder", "</think>"),
    ],
)
def test_qwen3_says_what_is_wrong(text: str, reason: str):
    message = qwen(text)
    assert message.parse_error is not None
    assert reason in message.parse_error
    assert message.tool_calls == ()


@pytest.mark.parametrize(
    ("inside", "arguments"),
    [
        ('f(a="x", b=[1, {"c": null}], d=true)', {"a": "x", "b": [1, {"c": None}], "d": True}),
        ("f(a='x, (y)', d=True, e=None)", {"a": "x, (y)", "d": True, "e": None}),
        ('f(a="say \\"hi\\"",)', {"a": 'say "hi"'}),
        ('f(from="A", to="B")', {"from": "A", "to": "B"}),
        ("f()", {}),
    ],
)
def test_olmo3_reads_arguments(inside: str, arguments: dict[str, Any]):
    message = olmo(f"Look: <function_calls>{inside}</function_calls>")
    assert message == AssistantMessage("Look:", (ToolCall("f", arguments),))


@pytest.mark.parametrize(
    "inside", ["f(", "f(a)", "f(a=)", "f(a=b)", "f(a=1 b=2)", "f(1)", "hello there", 'f(a="x)']
)
def test_olmo3_says_what_is_wrong(inside: str):
    message = olmo(f"<function_calls>{inside}</function_calls>")
    assert message.parse_error is not None
    assert message.parse_error.startswith("function calls: ")


def test_olmo3_begins_inside_its_thought():
    chat = get_format("olmo3")
    reply = "A book.\n</think>\n\n<function_calls>f()</function_calls>"
    assert chat.parse(reply, ()) == AssistantMessage("", (ToolCall("f", {}),), "A book.")
    assert chat.parse("A book", ()).parse_error is not None


@pytest.mark.parametrize("name", ["qwen3-strip", "olmo3-strip"])
def test_strip_leaves_reasoning_out_of_the_message(name: str):
    assert get_format(name).parse("<think>hm</think>Hello.", ()) == AssistantMessage("Hello.")


# -- properties ------------------------------------------------------------------------------

TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "<function_calls>"]
TAGS += ["</function_calls>", '{"name":', '"arguments":', "{", "}", "f(", ")", "=", '"', "\\", ","]
TAGS += ["NaN", "1e999", "[" * 2000, "9" * 5000, "\\ud800", "f(a='\\x00')", "{1: 2}", "b''"]
replies = st.lists(st.one_of(st.sampled_from(TAGS), st.text(max_size=8)), max_size=12).map("".join)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.from_regex(r"[A-Za-z_][\w.\-]{0,12}", fullmatch=True)
calls = st.builds(ToolCall, names, st.dictionaries(names, json_values, max_size=3))
words = st.text(st.characters(categories=["L", "N", "P"]), max_size=20).map(str.strip)
plain = words.filter(lambda text: "<" not in text)
messages = st.builds(
    AssistantMessage, plain, st.lists(calls, max_size=3).map(tuple), reasoning=plain
)


@pytest.mark.parametrize("name", NAMES)
@given(reply=replies)
def test_parsing_never_raises(name: str, reply: str):
    message = get_format(name).parse(reply, ())
    json.dumps([dict(c.arguments) for c in message.tool_calls], allow_nan=False)
    if message.parse_error is not None:
        assert message.tool_calls == ()
        message.parse_error.encode("utf-8")


@pytest.mark.parametrize("name", NAMES)
@given(message=messages)
def test_what_is_written_is_read_back(name: str, message: AssistantMessage):
    chat = get_format(name)
    kept = message.reasoning if name in ("qwen3", "olmo3") else ""
    expected = AssistantMessage(message.text, message.tool_calls, kept)
    assert chat.parse(chat.write(message), ()) == expected


@given(call=calls.map(lambda c: ToolCall(c.name, {**c.arguments, "x": "</tool_call><|im_end|>"})))
def test_control_strings_in_arguments_survive_as_text(call: ToolCall):
    for name in ("qwen3", "olmo3-nothink"):
        chat = get_format(name)
        written = chat.write(AssistantMessage(tool_calls=(call,)))
        assert "<|im_end|>" not in written
        assert chat.parse(written, ()).tool_calls == (call,)

"""Model text is parsed and never evaluated, whatever is in it."""

from __future__ import annotations

import os
from keyword import iskeyword
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lopd_envs.acebench import make_acebench
from lopd_envs.acebench.notation import read_answer, read_calls, refusal, tool_calls, write_calls
from lopd_envs.acebench.tools import SceneTools

from lopd_gym.messages import AssistantMessage, ToolCall
from tests.lopd_envs.acebench.port import port

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=12)
scalars |= st.floats(allow_nan=False, allow_infinity=False, width=32)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda n: not iskeyword(n))


@given(st.lists(st.builds(ToolCall, names, st.dictionaries(names, values, max_size=3)), min_size=1))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(calls: list[ToolCall]) -> None:
    text = write_calls(calls)
    brackets = sum(text.count(bracket) for bracket in "[]")
    expected = [(call.name, dict(call.arguments)) for call in calls]
    assert read_calls(text) == expected or text.strip("[]'") != text[1:-1]
    if brackets == 2 or "]" not in str(expected):
        assert read_answer(text, squeeze=False) == expected


@given(st.text(max_size=60) | st.text("[]()=,'\"ab1{}:*-. \n", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_as_the_port_reads_it_or_refused(text: str) -> None:
    parser = port("parser")
    try:
        theirs = [next(iter(call.items())) for call in parser.decode_execution_calls(text)]
    except Exception:
        theirs = None
    try:
        ours = read_calls(text)
    except ValueError:
        ours = None
    assert ours == theirs


ATTACKS = {
    "a shell command": "[{tool}(x=__import__('os').system('touch {file}'))]",
    "as a name": "[__import__('os').system('touch {file}')]",
    "an attribute walk": "[{tool}.__class__.__mro__(x=1)]",
    "a walk as argument": "[{tool}(x=().__class__.__base__.__subclasses__())]",
    "a private method": "[_phone(x=1)]",
    "the scene's own method": "[call(name='x', arguments={{}})]",
    "an app's own method": "[say(key='{{0.__class__}}')]",
    "an undocumented method": "[process_refund(user='user1', amount=1000)]",
    "a lambda": "[{tool}(x=(lambda: open('{file}', 'w'))())]",
    "arithmetic": "[{tool}(x=9**9**9**9)]",
    "a huge number": "[{tool}(x=0x" + "f" * 20_000 + ")]",
    "infinity": "[{tool}(x=1e999)]",
    "a comprehension": "[{tool}(x=[i for i in range(10**9)])]",
    "deep lists": "[{tool}(x=" + "[" * 5_000 + "]" * 5_000 + ")]",
    "deep calls": "[{tool}(x=" + "f(y=" * 3_000 + "1" + ")" * 3_000 + ")]",
    "deep minus": "[{tool}(x=" + "-" * 50_000 + "1)]",
    "a long text": "[{tool}(x='" + "y" * 2_000_000 + "')]",
    "a lone surrogate": "[{tool}(x='\\ud800')]",
    "a format string": "[{tool}(x='{{0.__class__}}')]",
    "unpacked": "[{tool}(y=1, **globals())]",
    "an opening without end": "[" * 90_000,
    "many openings and a call": "[" * 40_000 + "{tool}(y=1)" + "]" * 40_000,
    "a long walk": "[{tool}(x=a" + ".b" * 40_000 + ")]",
    "a long sum": "[{tool}(x=1" + "+1" * 40_000 + ")]",
    "statements": "[{tool}(x=1)]; import os; os.system('touch {file}')",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attacks_do_nothing(attack: str, acebench_folder: Path, tmp_path: Path) -> None:
    env = make_acebench("agent_multi_step", acebench_folder)
    for tool in ("send_message", "get_latest_message_id", "turn_on_wifi"):
        text = attack.format(tool=tool, file=tmp_path / "written")
        env.reset(seed=0, options={"task": "agent_multi_step_5"})
        assert isinstance(env.toolset, SceneTools)
        before = env.toolset._scene.state()
        replies, reward, *_ = env.step(AssistantMessage(text=text))
        assert reward == 0.0
        assert replies
        assert env.toolset._scene.state() == before
        assert "error" in replies[0].content
        env.step(AssistantMessage(text="finish conversation"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attacks_are_wrong_answers(attack: str, acebench_folder: Path, tmp_path: Path) -> None:
    for task_id in ("normal_atom_number_0", "normal_multi_turn_user_adjust_0_0"):
        env = make_acebench("normal", acebench_folder)
        task = env.find(task_id)
        name = task.data["row"].fields["function"][0]["name"]
        text = attack.format(tool=name, file=tmp_path / "written")
        env.reset(seed=0, options={"task": task_id})
        *_, info = env.step(AssistantMessage(text=text))
        assert set(info["outcome"].measures.values()) == {0.0}
    assert os.listdir(tmp_path) == []


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [nested(1_000), nested(50_000), 10**400, float("nan"), float("inf"), "\ud800", "x" * 10**6,
     {1: 2}, b"x", 1j, list(range(200_000))],
    ids=["deep", "very deep", "huge", "nan", "inf", "surrogate", "long", "keys", "bytes", "complex",
         "wide"],
)  # fmt: skip
def test_unfit_arguments_are_refused(value: Any, acebench_folder: Path) -> None:
    assert refusal({"message": value}) is not None
    env = make_acebench("agent_multi_step", acebench_folder)
    env.reset(seed=0, options={"task": "agent_multi_step_5"})
    env.toolset.call("delete_message", {"message_id": 1})
    people = {"sender_name": "Eve", "receiver_name": "Frank"}
    result = env.toolset.call("send_message", people | {"message": value})
    assert result.refused
    assert '"7"' not in str(env.toolset.states())  # type: ignore[attr-defined]
    unfit = AssistantMessage(tool_calls=(ToolCall("send_message", people | {"message": value}),))
    replies, *_ = env.step(unfit)
    assert "error" in replies[0].content
    env.verify()
    single = make_acebench("normal", acebench_folder)
    for task_id in ("normal_atom_number_0", "normal_multi_turn_user_adjust_0_0"):
        (right,) = single.oracle(single.find(task_id))
        (call,) = right.tool_calls
        name = next(iter(call.arguments))
        single.reset(seed=0, options={"task": task_id})
        wrong = ToolCall(call.name, {**call.arguments, name: value})
        *_, info = single.step(AssistantMessage(tool_calls=(wrong,)))
        assert set(info["outcome"].measures.values()) == {0.0}


def test_plain_text_is_no_call() -> None:
    for text in ("hello", "[hello]", "", "finish conversation", "see [1] and [2]", "[a, b]"):
        assert tool_calls(text) == ()
    assert tool_calls("[f(a=1), g()]") == (ToolCall("f", {"a": 1}), ToolCall("g", {}))

"""How an episode goes: turns, the step limit, what is checked beside the official verdict."""

from __future__ import annotations

from keyword import iskeyword

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from lopd_envs.bfcl.calls import Unreadable, parse_call, read_reply, to_carry_out, write_call
from lopd_envs.bfcl.env import BFCL, BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.errors import DataError, UsageError
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Outcome, Task, Termination

READ = AssistantMessage(tool_calls=(ToolCall("ls", {}),))
TEXT = AssistantMessage(text="done")
BROKEN = AssistantMessage(text="<tool_call>{", parse_error="no JSON")


def episode(env: BFCLEnv, task: Task, replies: list[AssistantMessage]) -> Outcome:
    """Play replies up to the end that the environment sets."""
    env.reset(seed=0, options={"task": task.id})
    for reply in replies:
        if env.outcome is None:
            env.step(reply)
    assert env.outcome is not None
    return env.outcome


def by_name(outcome: Outcome) -> dict[str, bool]:
    return {check.name: check.passed for check in outcome.checks}


def a_file_task(env: BFCLEnv, split: str) -> Task:
    classes = ((t, t.data["entry"].raw["involved_classes"]) for t in env.tasks(split))
    return next(t for t, names in classes if names == ["GorillaFileSystem"])


@pytest.mark.parametrize("split", ["multi_turn_miss_func", "live_multiple"])
def test_it_is_a_gymnasium_environment(wheel: Wheel, split: str) -> None:
    check_env(BFCLEnv(wheel, split), skip_render_check=True)
    made = gymnasium.make("lopd_gym.env:lopd_gym/bfcl-v0", split=split)
    made.reset(seed=3)
    made.step(TEXT)


def test_a_policy_that_never_stops_is_forced_to_after_21_steps(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    outcome = episode(env, a_file_task(env, "multi_turn_base"), [READ] * 100)
    assert env._turns == 21
    assert outcome.termination is Termination.STEP_LIMIT
    assert (outcome.score, by_name(outcome)["no turn over the step limit"]) == (0.0, False)
    assert outcome.checks[0].error == "multi_turn:force_terminated"


def test_a_forced_end_of_the_last_turn_passes_officially(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    task = a_file_task(env, "multi_turn_base")
    replies = [*list(env.oracle(task))[:-1], *[READ] * 30]
    outcome = episode(env, task, replies)
    assert outcome.termination is Termination.STEP_LIMIT
    assert outcome.success
    assert not by_name(outcome)["no turn over the step limit"]
    stricter = BFCLEnv(wheel, "multi_turn_base", BFCL.model_copy(update={"at_limit": "zero"}))
    assert episode(stricter, task, replies).score == 0.0


def test_a_limit_of_the_loop_leaves_the_open_turn_out(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    task = a_file_task(env, "multi_turn_base")
    env.reset(seed=0, options={"task": task.id})
    for reply in list(env.oracle(task))[:-1]:
        env.step(reply)
    outcome = env.finish(Termination.TOKEN_LIMIT)
    assert outcome.score == 0.0
    *turns, last = [passed for name, passed in by_name(outcome).items() if name.startswith("turn")]
    assert all(turns)
    assert not last


@pytest.mark.parametrize("category", ["multi_turn_miss_func", "multi_turn_miss_param"])
def test_acting_too_early_may_pass_officially_and_is_shown(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category)
    passed = 0
    for task in env.tasks(category)[:60]:
        entry = task.data["entry"]
        withheld = entry.truth.index(())
        replies: list[AssistantMessage] = []
        turns: list[list[AssistantMessage]] = [[]]
        for message in env.oracle(task):
            turns[-1].append(message)
            if not message.tool_calls:
                turns.append([])
        for number, turn in enumerate(turns[:-1]):
            early = turns[withheld + 1][:-1] if number == withheld else []
            replies += [*early, *turn]
        outcome = episode(env, task, replies)
        assert not by_name(outcome)["no call where none was possible"]
        passed += outcome.success
    assert 20 < passed < 60


def test_the_first_wrong_turn_is_named(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    task = next(t for t in env.tasks("multi_turn_base") if len(t.data["entry"].turns) > 3)
    messages = list(env.oracle(task))
    ends = [number for number, m in enumerate(messages) if not m.tool_calls]
    without_second = [*messages[: ends[0] + 1], TEXT, *messages[ends[1] + 1 :]]
    checks = {c.name: (c.passed, c.error) for c in episode(env, task, without_second).checks}
    assert checks["turn 0"] == (True, None)
    assert checks["turn 1"] == (False, "multi_turn:empty_turn_model_response")
    assert checks["turn 2"] == (False, "not reached")


@pytest.mark.parametrize("reply", [TEXT, BROKEN, AssistantMessage()])
def test_a_reply_without_a_call_ends_the_turn(wheel: Wheel, reply: AssistantMessage) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    task = env.tasks("multi_turn_base")[0]
    second = task.data["entry"].turns[1][0]["content"]
    env.reset(seed=0, options={"task": task.id})
    messages, *_ = env.step(reply)
    assert [(m.role, m.content) for m in messages] == [("user", second)]


def test_a_broken_call_is_an_abstention_officially(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "irrelevance")
    assert episode(env, env.tasks("irrelevance")[0], [BROKEN]).success


def test_java_as_text_is_refused_with_the_way_out(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "simple_java", protocol="prompting")
    with pytest.raises(UsageError, match=r"env\.protocol=fc"):
        env.reset(seed=0)


LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True).filter(lambda n: not iskeyword(n))


@settings(max_examples=50)
@given(NAMES, st.dictionaries(NAMES, LITERALS, max_size=4))
def test_what_is_written_is_read_back(name: str, arguments: dict[str, object]) -> None:
    text = write_call(name, arguments)
    assert read_reply(f"[{text}, {text}]")[1].arguments == arguments
    assert parse_call(text).arguments == arguments


PIECES = st.sampled_from(
    [*"()[]{}:,=+-*.'`", "f", "a=", "1", "2.5", "None", "lambda:", "**", "if "]
)


@given(st.text() | st.lists(PIECES).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        calls = [to_carry_out(call) for call in read_reply(text)]
    except Unreadable:
        return
    assert all(isinstance(call.name, str) for call in calls)


@pytest.mark.parametrize("text", ["f", "f(x)", "f(a=g())", "a.f()", "f(**x)", "f(a=1+1)", "f("])
def test_answers_that_are_no_plain_calls_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="literal arguments"):
        parse_call(text)

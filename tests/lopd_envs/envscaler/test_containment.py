"""What third-party code can do to an episode, and that it stays there."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from lopd_sandboxes.process import ProcessSandbox
from lopd_sandboxes.session import PipeSession

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Limits, SessionDied
from lopd_gym.tasks import Termination
from tests.lopd_envs.envscaler.synthetic import (
    CHANGED,
    DONE,
    EATS,
    HANGS,
    HASTY,
    PASSES,
    TASK_ID,
    call,
    make_env,
    process_of,
)


def test_a_hanging_tool_ends_its_episode_with_a_timeout(tmp_path: Path) -> None:
    env = make_env(tmp_path, limits=HASTY, on_exception="observation")
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    messages, reward, terminated, truncated, info = env.step(call("hang"))
    outcome = info["outcome"]
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (outcome.score, outcome.termination) == (0.0, Termination.TIMEOUT)
    assert outcome.error == "hang took too long"
    assert "took too long" in messages[0].content
    env.reset(seed=0)  # and only its episode
    env.step(call("add", name="apple"))
    assert env.step(DONE)[1] == 1.0
    env.close()


def test_a_hanging_check_fails_and_the_others_are_still_verified(tmp_path: Path) -> None:
    env = make_env(tmp_path, PASSES, HANGS, CHANGED, limits=HASTY)
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    *_, info = env.step(DONE)
    checks = info["outcome"].checks
    assert [(c.passed, c.error) for c in checks] == [(True, None), (False, "timeout"), (True, None)]
    assert info["outcome"].score == 0.6667
    env.close()


def test_a_memory_bomb_is_an_exception_where_python_raises_one(tmp_path: Path) -> None:
    env = make_env(tmp_path, on_exception="observation")
    env.reset(seed=0)
    messages, *_ = env.step(call("eat_once"))
    assert "MemoryError" in json.loads(messages[0].content)["error"]
    env.step(call("add", name="apple"))
    assert env.step(DONE)[1] == 1.0
    env.close()


@pytest.mark.parametrize("on_exception", ["observation", "terminate"])
def test_memory_eaten_bit_by_bit_never_fails_as_infrastructure(
    tmp_path: Path, on_exception: str
) -> None:
    env = make_env(tmp_path, on_exception=on_exception)
    env.reset(seed=0)
    messages, *_, info = env.step(call("eat"))
    assert "emory" in messages[0].content
    if "outcome" in info:
        assert info["outcome"].termination is Termination.TOOL_EXCEPTION
        assert info["outcome"].score == 0.0
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    assert env.step(DONE)[1] == 1.0
    env.close()


def test_a_check_that_eats_the_memory_fails_alone(tmp_path: Path) -> None:
    env = make_env(tmp_path, EATS, CHANGED)
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    checks = env.step(DONE)[4]["outcome"].checks
    assert [c.passed for c in checks] == [False, True]
    assert "emory" in (checks[0].error or "")
    env.close()


def test_a_killed_worker_is_replaced_by_replay(tmp_path: Path) -> None:
    env = make_env(tmp_path, limits=HASTY)
    env.reset(seed=3)
    undisturbed = [env.step(call("stamp"))[0][0].content for _ in range(3)]
    env.reset(seed=3)
    first = env.step(call("stamp"))[0][0].content
    os.kill(process_of(env), signal.SIGTERM)
    second = env.step(call("stamp"))[0][0].content
    env.step(call("add", name="apple"))
    os.kill(process_of(env), signal.SIGSTOP)  # it lives and does not answer: a check is blamed ...
    assert [first, second] == undisturbed[:2]
    assert env.step(DONE)[1] == 1.0  # ... and acquitted when it is evaluated alone
    env.close()


class Dying:
    """A sandbox whose sessions open an episode and die of every call."""

    name = "dying"
    alive = True

    def __init__(self, memory_killed: bool) -> None:
        self.memory_killed = memory_killed
        self.sessions = 0

    def session(self, program: bytes, limits: Limits | None = None) -> Dying:
        self.sessions += 1
        return self

    def request(self, message: Any, wall_s: float | None = None) -> Any:
        if message["op"] == "open":
            return {}
        raise SessionDied("The process ended.", memory_killed=self.memory_killed)

    def close(self) -> None:
        pass


def test_a_worker_that_keeps_dying_is_an_infrastructure_failure(tmp_path: Path) -> None:
    env = make_env(tmp_path, sandbox=Dying(memory_killed=False))
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="died twice"):
        env.step(call("add", name="apple"))
    assert env.outcome is None


def test_a_call_that_takes_the_process_along_ends_its_episode(tmp_path: Path) -> None:
    env = make_env(tmp_path, sandbox=Dying(memory_killed=True))
    env.reset(seed=0)
    *_, info = env.step(call("add", name="apple"))
    assert info["outcome"].termination is Termination.TOOL_EXCEPTION
    assert info["outcome"].error == "add ran out of memory"


class Broken:
    """A sandbox whose programs end at once."""

    name = "broken"

    def session(self, program: bytes, limits: Limits | None = None) -> PipeSession:
        return ProcessSandbox().session(b"raise SystemExit(3)", limits)


def test_a_worker_that_does_not_start_is_an_infrastructure_failure(tmp_path: Path) -> None:
    env = make_env(tmp_path, sandbox=Broken())
    with pytest.raises(InfrastructureError, match="ended with code 3"):
        env.reset(seed=0)


def test_what_a_tool_prints_raises_or_imports_stays_inside(tmp_path: Path) -> None:
    env = make_env(tmp_path, on_exception="observation")
    env.reset(seed=0)
    assert env.step(call("shout"))[0][0].content == "{'success': True}"
    assert json.loads(env.step(call("quit"))[0][0].content) == {"error": "SystemExit: bye"}
    assert env.step(call("peek"))[0][0].content == "{'found': []}"
    env.close()


MUTATES = "def check_func(final_state):\n    final_state['items'].clear()\n    {}return True"
LEAKS = MUTATES.format("initial_state['items']['apple'] = 1\n    ")
MISSES = "def check_func(final_state):\n    return initial_stat == final_state"
HELPED = """
def names(state):
    return set(state["items"])

def check_func(final_state):
    return "apple" in names(final_state)
"""
UNTOUCHED = "def check_func(final_state):\n    return initial_state['items'] == {'pear': 0}"


def test_checks_do_not_see_each_others_changes(tmp_path: Path) -> None:
    env = make_env(tmp_path, LEAKS, PASSES, UNTOUCHED, HELPED)
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    assert all(c.passed for c in env.verify())
    assert all(c.passed for c in env.step(DONE)[4]["outcome"].checks)
    env.close()


def test_a_state_of_unusual_values_is_copied_for_each_check_too(tmp_path: Path) -> None:
    spoils = "def check_func(s):\n    return s['marks'].pop() == 'apple'"
    env = make_env(tmp_path, spoils, spoils)
    env.reset(seed=0)
    env.step(call("mark"))
    assert all(c.passed for c in env.verify())
    assert env.step(DONE)[1] == 1.0
    env.close()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def check_func(final_state):\n    return 1", "returned int, not a bool"),
        ("def check_func(final_state):\n    return None", "returned NoneType, not a bool"),
        ("def check_func(final_state):\n    return final_state['no']", "KeyError: 'no'"),
        ("def check_func(final_state):\n    raise SystemExit", "SystemExit: "),
        (MISSES, "NameError: name 'initial_stat' is not defined"),
        ("import time\ndef check_func():\n    return True", None),
    ],
)
def test_a_check_counts_only_if_it_returns_true(
    tmp_path: Path, source: str, error: str | None
) -> None:
    env = make_env(tmp_path, source, CHANGED)
    assert env.noop_score(TASK_ID) == 0.0
    check = env.noop_checks(TASK_ID)[0]
    assert check.error == error or (error is None and "TypeError" in (check.error or ""))
    env.close()


def test_reading_the_clock_in_a_check_does_not_move_the_episodes(tmp_path: Path) -> None:
    reads = "import time, uuid\ndef check_func(s):\n    uuid.uuid4()\n    return time.time() > 0"
    env = make_env(tmp_path, reads)
    env.reset(seed=5)
    undisturbed = [env.step(call("stamp"))[0][0].content for _ in range(2)]
    env.reset(seed=5)
    first = env.step(call("stamp"))[0][0].content
    assert all(c.passed for c in env.verify())
    assert [first, env.step(call("stamp"))[0][0].content] == undisturbed
    env.close()


def test_doing_nothing_is_scored_beside_an_open_episode(tmp_path: Path) -> None:
    env = make_env(tmp_path)
    env.reset(seed=0)
    env.step(call("add", name="apple"))
    assert env.noop_score(TASK_ID) == 0.0
    assert env.step(DONE)[1] == 1.0
    env.close()

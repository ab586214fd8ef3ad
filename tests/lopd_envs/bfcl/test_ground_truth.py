"""The benchmark's own answers, played through the environment, get the official pass."""

from __future__ import annotations

import pytest
from lopd_envs.bfcl.corpus import CATEGORIES, MULTI_TURN, RELEVANCE, SINGLE_TURN
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.messages import AssistantMessage
from lopd_gym.tasks import Outcome, Task, Termination

SIZES = {
    "multi_turn_base": 200,
    "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200,
    "multi_turn_long_context": 200,
    "simple_python": 400,
    "simple_java": 100,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "irrelevance": 240,
    "live_irrelevance": 884,
    "live_relevance": 16,
}


def play(env: BFCLEnv, task: Task, messages: list[AssistantMessage]) -> Outcome:
    env.reset(seed=0, options={"task": task.id})
    for message in messages:
        env.step(message)
    assert env.outcome is not None
    return env.outcome


def failures(env: BFCLEnv, tasks: list[Task]) -> set[str]:
    outcomes = {task.id: play(env, task, list(env.oracle(task))) for task in tasks}
    assert {o.termination for o in outcomes.values()} == {Termination.SUBMITTED}
    return {i for i, o in outcomes.items() if not all(check.passed for check in o.checks)}


@pytest.mark.parametrize("category", CATEGORIES)
def test_sizes_of_the_categories(wheel: Wheel, category: str) -> None:
    assert len(BFCLEnv(wheel, category).tasks(category)) == SIZES[category]


@pytest.mark.parametrize("category", MULTI_TURN)
def test_all_multi_turn_answers_pass(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category)
    assert not failures(env, list(env.tasks(category)))


@pytest.mark.parametrize("category", MULTI_TURN)
def test_multi_turn_answers_pass_as_text(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category, protocol="prompting")
    assert not failures(env, list(env.tasks(category))[:50])


@pytest.mark.parametrize("category", SINGLE_TURN)
def test_all_single_turn_answers_pass(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category)
    known = {task.id for task in env.tasks(category) if env.impossible(task)}
    assert failures(env, list(env.tasks(category))) == known


@pytest.mark.parametrize("category", [c for c in SINGLE_TURN if "java" not in c])
def test_single_turn_answers_pass_as_text(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category, protocol="prompting")
    known = {task.id for task in env.tasks(category) if env.impossible(task)}
    assert failures(env, list(env.tasks(category))) == known


@pytest.mark.parametrize("category", CATEGORIES)
def test_doing_nothing_passes_only_where_nothing_is_asked_for(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category)
    for task in list(env.tasks(category))[:20]:
        turns = len(task.data["entry"].turns)
        outcome = play(env, task, [AssistantMessage(text="no")] * turns)
        assert outcome.success == (category in RELEVANCE and category != "live_relevance")
        assert env.asks_for_nothing(task) == outcome.success

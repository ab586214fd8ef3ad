"""Our episodes and verdicts beside those of upstream's runner and scorer, on the same replies."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from lopd_envs.bfcl.calls import Call
from lopd_envs.bfcl.corpus import MULTI_TURN
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.messages import AssistantMessage
from lopd_gym.tasks import Task
from tests.lopd_envs.bfcl.mutations import Turn, mutate
from tests.lopd_envs.bfcl.upstream import Upstream


def play(env: BFCLEnv, task: Task, replies: list[str]) -> tuple[bool, list[str]]:
    """Return the verdict and all tool results of an episode; a silent policy says 'Done.'"""
    env.reset(seed=0, options={"task": task.id})
    results = []
    waiting = iter(replies)
    while env.outcome is None:
        messages, *_ = env.step(AssistantMessage(text=next(waiting, "Done.")))
        results += [m.content for m in messages if m.role == "tool"]
    return env.outcome.success, results


def answer(env: BFCLEnv, task: Task) -> list[Turn]:
    """Return the right calls by turn, one in each step."""
    turns: list[Turn] = [[]]
    for message in env.oracle(task):
        turns[-1] += [[Call(call.name, call.arguments)] for call in message.tool_calls]
        if not message.tool_calls:
            turns.append([])
    return turns[:-1]


def compare(upstream: Upstream, wheel: Wheel, category: str, count: int) -> Counter[bool]:
    env, answering = BFCLEnv(wheel, category, protocol="prompting"), BFCLEnv(wheel, category)
    records = {r["id"]: r for r in upstream.utils.load_dataset_entry(category)}
    truths = upstream.utils.load_ground_truth_entry(category)
    answers = {t["id"]: t["ground_truth"] for t in truths}
    verdicts: Counter[bool] = Counter()
    tasks = list(env.tasks(category))
    for number in range(count):
        task = tasks[number % len(tasks)]
        replies = mutate(answer(answering, task), random.Random(f"{task.id}/{number}"))
        played, expected_results = upstream.play(records[task.id], replies)
        expected = upstream.score(records[task.id], answers[task.id], played)
        found, results = play(env, task, replies)
        assert (found, results) == (expected, expected_results), (task.id, number, replies)
        verdicts[found] += 1
    return verdicts


@pytest.mark.parametrize("category", MULTI_TURN)
def test_mutated_episodes_get_upstreams_verdicts(
    wheel: Wheel, upstream: Upstream, category: str
) -> None:
    verdicts = compare(upstream, wheel, category, 40)
    assert min(verdicts[True], verdicts[False]) >= 3, "expected mutations of both kinds"


@pytest.mark.slow
@pytest.mark.parametrize("category", MULTI_TURN)
def test_many_mutated_episodes_get_upstreams_verdicts(
    wheel: Wheel, upstream: Upstream, category: str
) -> None:
    compare(upstream, wheel, category, 1_000)

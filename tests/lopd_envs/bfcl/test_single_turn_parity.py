"""Verdicts on wrong and odd single-turn answers beside those of upstream's scorer."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest
from lopd_envs.bfcl.calls import write_call
from lopd_envs.bfcl.corpus import RELEVANCE, SINGLE_TURN
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Task
from tests.lopd_envs.bfcl.upstream import Upstream

TEXTS = (
    "",
    "[]",
    "I cannot do that.",
    "no_call",
    "[f(",
    "[f()]",
    "f(a=b)",
    "[1, 2]",
    "{}",
    "[f(a=1+2*3, b=-1, c=(1, 2), d=x[0], e=g(1), h=g(y=2), i=None, j=...)]",
    "[a.b.c(x=true), (lambda: 1)()]",
    "[f(**{'a': 1})]",
    "[f(*[1])]",
    "[f(a={'k': {}, 1: []})]",
    "```python\n[f(a=1)]\n```",
    "`f(a='it''s')`",
    "'[f(a=1)]'",
    "[f(a=lambda: 1)]",
    "[f(a=[i for i in x])]",
    "[f(a=not True)]",
    "[f(a=-'x')]",
    "[f(a=b'x', c=1j)]",
)


def alter(value: Any, rng: random.Random) -> Any:
    """Return another value: near the right one, of another type, or odd."""
    if isinstance(value, str):
        options: tuple[Any, ...] = (
            value.upper(),
            f"{value}.",
            f" {value}",
            value[1:],
            5,
            None,
            "",
            [value],
        )
    elif isinstance(value, bool):
        options = (not value, str(value), int(value))
    elif isinstance(value, int | float):
        options = (value + 1, float(value), str(value), True, [value])
    elif isinstance(value, dict):
        options = ({}, {**value, "extra": 1}, [value], str(value))
    elif value is None:
        options = (0, "None")
    else:
        options = (
            value[::-1],
            [*value, 1],
            tuple(value),
            [],
            [float(v) if type(v) is int else v for v in value],
        )
    return rng.choice(options)


def mutate(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    calls = [ToolCall(c.name, dict(deepcopy(c.arguments))) for c in calls]
    position = rng.randrange(len(calls))
    name, arguments = calls[position].name, dict(calls[position].arguments)
    match rng.choice(
        ("none", "alter", "alter", "alter", "drop", "add", "rename", "more", "less", "swap")
    ):
        case "alter" if arguments:
            key = rng.choice(list(arguments))
            arguments[key] = alter(arguments[key], rng)
        case "drop" if arguments:
            del arguments[rng.choice(list(arguments))]
        case "add":
            arguments["extra"] = 1
        case "rename":
            name = rng.choice((f"{name}_", name.upper(), name.replace(".", "_")))
        case "more":
            calls.append(calls[position])
        case "less":
            return calls[1:]
        case "swap":
            return calls[::-1]
    calls[position] = ToolCall(name, arguments)
    return calls


def ours(env: BFCLEnv, task: Task, message: AssistantMessage) -> bool:
    env.reset(seed=0, options={"task": task.id})
    *_, info = env.step(message)
    return bool(info["outcome"].success)


@pytest.mark.parametrize("category", [c for c in SINGLE_TURN if c not in RELEVANCE])
def test_mutated_tool_calls(wheel: Wheel, upstream: Upstream, category: str) -> None:
    env = BFCLEnv(wheel, category)
    for task, record, truth in rows(env, upstream, category):
        (right,) = env.oracle(task)
        for attempt in range(2):
            calls = mutate(list(right.tool_calls), random.Random(f"{task.id}/{attempt}"))
            decoded = [{c.name: dict(c.arguments)} for c in calls]
            expected = upstream.score_answer(record, truth, decoded, dotted=False)
            found = ours(env, task, AssistantMessage(tool_calls=tuple(calls)))
            assert found == expected, (task.id, calls)


@pytest.mark.parametrize("category", [c for c in SINGLE_TURN if "java" not in c])
def test_mutated_texts(wheel: Wheel, upstream: Upstream, category: str) -> None:
    env, answering = BFCLEnv(wheel, category, protocol="prompting"), BFCLEnv(wheel, category)
    for number, (task, record, truth) in enumerate(rows(env, upstream, category)):
        texts = [TEXTS[number % len(TEXTS)]]
        if truth is not None:
            (right,) = answering.oracle(answering.find(task.id))
            calls = mutate(list(right.tool_calls), random.Random(task.id))
            texts.append(", ".join(write_call(c.name, c.arguments) for c in calls))
        for text in texts:
            expected = upstream.score_answer(record, truth, text, dotted=True)
            assert ours(env, task, AssistantMessage(text=text)) == expected, (task.id, text)


def rows(env: BFCLEnv, upstream: Upstream, category: str) -> list[tuple[Task, Any, Any]]:
    """Return up to 100 tasks with upstream's record and answer."""
    load = upstream.utils.load_dataset_entry
    records = {r["id"]: r for r in load(category, include_language_specific_hint=False)}
    truths: dict[str, Any] = {}
    if category not in RELEVANCE:
        answers = upstream.utils.load_ground_truth_entry(category)
        truths = {a["id"]: a["ground_truth"] for a in answers}
    return [(t, records[t.id], truths.get(t.id)) for t in list(env.tasks(category))[:100]]

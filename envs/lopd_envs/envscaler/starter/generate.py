"""Draw tasks: a few records, one or two goals, one short line of text per goal.

`make_task` is a pure function of (domain, split, index). A text belongs to the training split or to
the others, by its hash, so that no held-out task reads like a training task.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lopd_envs.envscaler.starter.domains import DOMAINS
from lopd_envs.envscaler.starter.words import NAMES
from lopd_envs.envscaler.starter.world import GoalKind, Record, World
from lopd_gym.messages import Message
from lopd_gym.tasks import TRAIN_SPLIT, Task
from lopd_gym.tools import MethodTools

RECORDS = 5
LEVELS: tuple[int, ...] = (2, 3, 1, 4, 2, 3, 2, 4, 1, 2, 3, 2, 1, 4, 3, 2, 2, 1, 3, 4)
"""The difficulty of successive tasks: .20 easy, .35 lookup, .25 decision, .20 two goals."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of a task.

    Attributes:
        kind: The name of its `GoalKind`.
        id: The record it is about.
        by_name: Whether the text names person and thing, so that the id must be looked up.
        number: The number in the text, if any.
        tools: The calls to make beside lookup and house rules.
        expected: The record after it was done as asked.
    """

    kind: str
    id: str
    by_name: bool
    number: int | None
    tools: tuple[str, ...]
    expected: Record


def make_task(domain: str, split: str, index: int) -> Task:
    """Return the task with this number; equal arguments give equal tasks.

    Args:
        domain: A name in `DOMAINS`.
        split: ``train``, or any other name for tasks whose texts never occur in training.
        index: The number of the task within domain and split.
    """
    task_id = f"{domain}/{split}/{index:06d}"
    level = LEVELS[index % len(LEVELS)]
    world = DOMAINS[domain]
    attempt = 0
    while True:
        rng = random.Random(f"{task_id}/{attempt}")
        state, goals, text = _draw(world, level, rng)
        if _for_training(text) == (split == TRAIN_SPLIT):
            break
        attempt += 1
    messages = (Message("system", world.place), Message("user", text))
    return Task(task_id, split, messages, domain, {"state": state, "goals": goals, "level": level})


def _for_training(text: str) -> bool:
    return zlib.crc32(text.encode()) % 2 == 0


def _draw(
    world: type[World], level: int, rng: random.Random
) -> tuple[dict[str, Any], tuple[Goal, ...], str]:
    records = _records(world, rng)
    # An easy task gives the id; a decision needs a lookup, for the id and for the status.
    decisions = {1: (False,), 2: (False,), 3: (True,), 4: (False, rng.random() < 0.5)}[level]
    goals, lines = [], []
    for id, is_decision in zip(rng.sample(sorted(records), len(decisions)), decisions, strict=True):
        kind = rng.choice([k for k in world.goals if k.is_decision == is_decision])
        record = records[id]
        record["status"] = rng.choice(sorted(kind.cases))
        number = rng.randint(*kind.numbers) if kind.number else None
        goals.append(_goal(world, kind, id, record, number, by_name=level > 1))
        what = _by_name(world, record) if level > 1 else _by_id(world, id, record)
        lines.append(rng.choice(kind.texts).format(what=what, number=number))
    return {"records": records}, tuple(goals), "\n".join(lines)


def _records(world: type[World], rng: random.Random) -> dict[str, Record]:
    """Draw records; some share a person and some a thing, but no two share both."""
    people, things = rng.sample(NAMES, RECORDS - 1), rng.sample(world.things, RECORDS - 1)
    pairs = rng.sample([(p, t) for p in people for t in things], RECORDS)
    statuses = _statuses(world.goals)
    return {
        f"{world.letter}{number}": {
            world.person: person,
            world.thing: thing,
            "status": rng.choice(statuses),
            **world.fields,
        }
        for number, (person, thing) in zip(rng.sample(range(10, 100), RECORDS), pairs, strict=True)
    }


def _statuses(kinds: Sequence[GoalKind]) -> list[str]:
    return sorted({status for kind in kinds for status in kind.cases})


def _goal(
    world: type[World], kind: GoalKind, id: str, record: Record, number: int | None, by_name: bool
) -> Goal:
    case = kind.cases[record["status"]]
    expected = {**record, **case.result}
    if any(kind.number in parameters_of(world, tool) for tool in case.tools):
        expected[kind.number] = number
    return Goal(kind.name, id, by_name, number, case.tools, expected)


def parameters_of(world: type[World], tool: str) -> tuple[str, ...]:
    """Return the names of a tool's parameters, in order."""
    return _parameters(world)[tool]


def _parameters(world: type[World]) -> dict[str, tuple[str, ...]]:
    if world not in _PARAMETERS:
        specs = MethodTools(world({"records": {}}, (0, 0))).specs()
        _PARAMETERS[world] = {s.name: tuple(s.parameters["properties"]) for s in specs}
    return _PARAMETERS[world]


_PARAMETERS: dict[type[World], dict[str, tuple[str, ...]]] = {}


def _by_id(world: type[World], id: str, record: Record) -> str:
    return f'{world.noun} {id} of "{record[world.person]}"'


def _by_name(world: type[World], record: Record) -> str:
    return f'the {world.noun} of "{record[world.person]}" for "{record[world.thing]}"'

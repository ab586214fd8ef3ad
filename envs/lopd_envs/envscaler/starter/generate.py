"""Draw tasks: a few records, one or two goals, one short line of text per goal.

`make_task` is a pure function of (domain, split, index). A hash of the text decides whether a task
may be trained on (four in five) or is held out, so that no held-out task reads like a training one.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lopd_envs.envscaler.starter.domains import DOMAINS
from lopd_envs.envscaler.starter.words import NAMES
from lopd_envs.envscaler.starter.world import Record, World
from lopd_gym.messages import Message
from lopd_gym.tasks import TRAIN_SPLIT, Task

PAIRS = ((0, 0), (1, 1), (0, 1), (1, 2), (2, 0))
"""Person and thing of each record. Goals are about the first two, which share nothing; each of the
others shares a person or a thing with them, so that a lookup by half a name would be wrong."""

LEVELS: tuple[int, ...] = (2, 3, 1, 4, 2, 3, 2, 4, 1, 2, 3, 2, 1, 4, 3, 2, 2, 1, 3, 4)
"""The difficulty of successive tasks: .20 easy, .35 lookup, .25 decision, .20 two goals."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of a task.

    Attributes:
        kind: The name of its `GoalKind`.
        id: The record it is about.
        by_name: Whether the text names person and thing, so that the id must be looked up.
        values: The number in the text by the name of its parameter; empty where there is none.
        tools: The calls to make beside lookup and house rules.
        expected: The record after it was done as asked.
    """

    kind: str
    id: str
    by_name: bool
    values: Mapping[str, int]
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
    draws = (_draw(world, level, random.Random(f"{task_id}/{n}")) for n in itertools.count())
    state, goals, text = next(d for d in draws if _for_training(d[2]) == (split == TRAIN_SPLIT))
    messages = (Message("system", world.place), Message("user", text))
    return Task(task_id, split, messages, domain, {"state": state, "goals": goals, "level": level})


def _for_training(text: str) -> bool:
    return zlib.crc32(text.encode()) % 5 != 0


def _draw(
    world: type[World], level: int, rng: random.Random
) -> tuple[dict[str, Any], tuple[Goal, ...], str]:
    records = _records(world, rng)
    # An easy task gives the id; a decision needs a lookup, for the id and for the status.
    decisions = {1: (False,), 2: (False,), 3: (True,), 4: (False, rng.random() < 0.5)}[level]
    goals, lines = [], []
    for id, is_decision in zip(records, decisions, strict=False):
        kind = rng.choice([k for k in world.goals if k.is_decision == is_decision])
        record = records[id]
        record["status"] = rng.choice(sorted(kind.cases))
        case = kind.cases[record["status"]]
        number = rng.randint(*kind.numbers)
        values = {kind.number: number} if kind.number else {}
        expected = {**record, **case.result, **values}
        goals.append(Goal(kind.name, id, level > 1, values, case.tools, expected))
        what = _by_name(world, record) if level > 1 else _by_id(world, id, record)
        lines.append(rng.choice(kind.texts).format(what=what, number=number))
    return {"records": records}, tuple(goals), "\n".join(lines)


def _records(world: type[World], rng: random.Random) -> dict[str, Record]:
    """Draw the records in the order of `PAIRS`."""
    people, things = rng.sample(NAMES, 3), rng.sample(world.things, 3)
    statuses = sorted({status for kind in world.goals for status in kind.cases})
    numbers = rng.sample(range(10, 100), len(PAIRS))
    return {
        f"{world.letter}{number}": {
            world.person: people[person],
            world.thing: things[thing],
            "status": rng.choice(statuses),
            **world.fields,
        }
        for number, (person, thing) in zip(numbers, PAIRS, strict=True)
    }


def _by_id(world: type[World], id: str, record: Record) -> str:
    return f'{world.noun} {id} of "{record[world.person]}"'


def _by_name(world: type[World], record: Record) -> str:
    return f'the {world.noun} of "{record[world.person]}" for "{record[world.thing]}"'

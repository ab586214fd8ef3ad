"""Tasks are reproducible, different, apart from each other, short, and silent about house rules."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from lopd_envs.envscaler.starter import (
    DOMAINS,
    HELD_OUT_DOMAINS,
    TRAIN_DOMAINS,
    make_task,
    solve,
    vocabulary,
)
from lopd_envs.envscaler.starter.words import NAMES

from lopd_gym.tasks import Task
from lopd_gym.tools import MethodTools, compact_json


def texts(domain: str, split: str, count: int) -> list[str]:
    return [make_task(domain, split, index).instruction for index in range(count)]


def prompt(task: Task) -> str:
    """Return all that the messages show to a policy."""
    return " ".join(message.content for message in task.messages)


def test_golden_task() -> None:
    task = make_task("library", "test", 3)
    assert task.id == "library/test/000003"
    assert task.group == "library"
    assert task.messages[0].content == "You work at the library desk."
    assert task.instruction == (
        'Pause the loan of "Lily" for "Kraken".\n'
        'Please return the loan of "Eva" for "Quartz", or bill it if lost.'
    )
    assert make_task("library", "test", 3) == task


@pytest.mark.parametrize("domain", DOMAINS)
def test_texts_are_different_and_splits_apart(domain: str) -> None:
    train = set(texts(domain, "train", 2_000))
    assert len(train) >= 1_900
    held_out = texts(domain, "test", 200)
    assert len(set(held_out)) >= 190
    assert train.isdisjoint(held_out)


@pytest.mark.parametrize("domain", DOMAINS)
def test_difficulty_is_mixed_and_grows_with_the_level(domain: str) -> None:
    levels: Counter[int] = Counter()
    calls: dict[int, set[int]] = {1: set(), 2: set(), 3: set(), 4: set()}
    for index in range(400):
        task = make_task(domain, "train", index)
        level = task.data["level"]
        levels[level] += 1
        calls[level].add(len(solve(task, DOMAINS[domain].true_rules)) - 1)
    assert levels == {1: 80, 2: 140, 3: 100, 4: 80}
    assert calls[1] <= {1, 2, 3}
    assert min(calls[2]) >= 3
    assert min(calls[4]) >= 5
    assert max(calls[4]) <= 8


@pytest.mark.parametrize("domain", DOMAINS)
def test_prompts_say_nothing_of_house_rules(domain: str) -> None:
    world = DOMAINS[domain]
    habits = [habit for rule in world.house_rules for habit in rule]
    secret = {habit.argument[1] for habit in habits if habit.argument}
    secret |= {step for habit in habits for step in habit.before + habit.after + habit.never}
    # The verb of a step, such as "lock", gives it away as well as the tool's name does.
    secret |= {word.split("_")[0] for word in secret}
    for split in ("train", "test"):
        for index in range(300):
            said = set(re.findall(r"\w+", prompt(make_task(domain, split, index)).lower()))
            assert not said & secret


@pytest.mark.parametrize("domain", DOMAINS)
def test_tool_lists_do_not_depend_on_the_rules_that_hold(domain: str) -> None:
    world = DOMAINS[domain]
    empty = {"records": {}}
    lists = {
        compact_json([s.as_openai() for s in MethodTools(world(empty, rules)).specs()])
        for rules in ((0, 0), (0, 1), (1, 0), (1, 1))
    }
    assert len(lists) == 1
    for rule in world.house_rules:
        for habit in rule:
            if habit.argument:
                other = next(h.argument for h in rule if h is not habit)
                assert other is not None
                assert f'"{habit.argument[1]}"' in next(iter(lists))
                assert f'"{other[1]}"' in next(iter(lists))


@pytest.mark.parametrize("domain", DOMAINS)
def test_prompts_are_short_and_easy_to_copy_from(domain: str) -> None:
    world = DOMAINS[domain]
    tools = sum(1 + len(world.parameters(spec.name)) for spec in world.specs())
    for index in range(100):
        task = make_task(domain, "train", index)
        lines = task.instruction.split("\n")
        assert len(lines) == len(task.data["goals"])
        assert tools + len(re.findall(r"\w+|[^\w\s]", prompt(task))) <= 90
        for line in lines:
            assert len(re.findall(r'"\w+"', line)) <= 2
        for record_id in task.data["state"]["records"]:
            assert re.fullmatch(r"[A-Z][1-9][0-9]", record_id)


def test_domains_are_told_apart_by_their_words() -> None:
    tools = [spec.name for world in DOMAINS.values() for spec in world.specs()]
    assert len(tools) == len(set(tools))
    things = [thing for world in DOMAINS.values() for thing in world.things]
    assert len(things) == len(set(things)) == 24 * len(DOMAINS)
    assert len(set(NAMES)) == 48
    assert not set(NAMES) & set(things)
    assert len({world.letter for world in DOMAINS.values()}) == len(DOMAINS)
    for world in DOMAINS.values():
        assert 6 <= len(world.specs()) <= 9
        assert all(1 <= len(world.parameters(s.name)) <= 3 for s in world.specs())


def test_true_rules_vary() -> None:
    assert len(TRAIN_DOMAINS) == 8
    assert len(HELD_OUT_DOMAINS) == 2
    assert len({DOMAINS[name].true_rules for name in TRAIN_DOMAINS}) == 4


def test_vocabulary_covers_tasks_tools_and_solutions() -> None:
    known = set(vocabulary())
    for domain in DOMAINS:
        for index in range(200):
            task = make_task(domain, "train", index)
            said = prompt(task) + compact_json(
                [[c.name, c.arguments] for t in solve(task, (1, 1)) for c in t.tool_calls]
            )
            assert set(re.findall(r"[A-Za-z_]{2,}", said)) <= known

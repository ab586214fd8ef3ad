"""Every task can be solved, and its checks tell right habits from wrong ones."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from lopd_envs.envscaler.starter import (
    DOMAINS,
    FINAL_TEXT,
    TRAIN_DOMAINS,
    World,
    check,
    make_task,
    open_world,
    solve,
)
from lopd_envs.envscaler.starter.rules import Options

from lopd_gym.tasks import Task
from lopd_gym.tools import MethodTools

ALL_OPTIONS: list[Options] = list(itertools.product((0, 1), repeat=2))
TASKS = 500


def play(task: Task, believed: Options, true: Options) -> tuple[World, list[str]]:
    """Play the scripted solution and return the world with all answers."""
    world = open_world(task, true)
    tools = MethodTools(world)
    calls = [call for turn in solve(task, believed) for call in turn.tool_calls]
    return world, [tools.call(call.name, call.arguments).content for call in calls]


@pytest.mark.parametrize("true", ALL_OPTIONS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_oracle_solves_every_task_without_an_error(domain: str, true: Options) -> None:
    for index in range(TASKS):
        task = make_task(domain, "train", index)
        world, answers = play(task, true, true)
        assert all(c.passed for c in check(world, task)), task.id
        assert not any("error" in answer for answer in answers), task.id


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_wrong_option_fails_exactly_its_rule(domain: str) -> None:
    pairs = [(b, t) for b in ALL_OPTIONS for t in ALL_OPTIONS if b != t]
    for index in range(40):
        task = make_task(domain, "test", index)
        for believed, true in pairs:
            world, _ = play(task, believed, true)
            agrees = [True, believed[0] == true[0], believed[1] == true[1]]
            assert [c.passed for c in check(world, task)] == agrees * len(task.data["goals"])


def test_both_ways_to_learn_a_rule_are_open() -> None:
    """Where the rule is to do something, breaking it is answered; omissions at the end are not."""
    task = make_task("orders", "train", 0)
    _, answers = play(task, believed=(0, 0), true=(1, 1))
    assert json.loads(answers[-1]) == {
        "status": "flagged",
        "error": "house rule: lock_order before the change; via is credit",
    }
    _, answers = play(make_task("billing", "train", 0), believed=(0, 0), true=(0, 1))
    assert not any("error" in answer for answer in answers)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_broken_rule_cannot_be_made_good(domain: str) -> None:
    task = make_task(domain, "test", 0)
    world, true = DOMAINS[domain], DOMAINS[domain].true_rules
    for wrong in [o for o in ALL_OPTIONS if o != true]:
        opened = open_world(task)
        tools = MethodTools(opened)
        flagged = False
        for options in (wrong, true):
            for turn in solve(task, options):
                for call in turn.tool_calls:
                    flagged |= "flagged" in tools.call(call.name, call.arguments).content
        assert flagged != all(c.passed for c in check(opened, task)), (world.name, wrong)


@pytest.mark.parametrize("domain", DOMAINS)
def test_doing_nothing_or_only_rule_steps_passes_no_check(domain: str) -> None:
    for index in range(200):
        task = make_task(domain, "test", index)
        world = open_world(task)
        assert not any(c.passed for c in check(world, task))
        tools = MethodTools(world)
        for turn in solve(task, world.true_rules):
            for call in turn.tool_calls:
                if call.name not in world.changes():
                    tools.call(call.name, call.arguments)
        assert not any(c.passed for c in check(world, task))


@pytest.mark.parametrize("domain", DOMAINS)
def test_touching_another_record_fails_the_change_but_not_the_rules(domain: str) -> None:
    task = make_task(domain, "test", 0)
    world, _ = play(task, DOMAINS[domain].true_rules, DOMAINS[domain].true_rules)
    other = next(i for i in world.state["records"] if i != task.data["goals"][0].id)
    calls = [c for t in solve(task, world.true_rules) for c in t.tool_calls if "id" in c.arguments]
    tools = MethodTools(world)
    for call in calls:
        tools.call(call.name, {**call.arguments, "id": other})
    assert other in world.state["log"]
    assert [c.passed for c in check(world, task)] == [False, True, True]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_other_branch_of_a_decision_is_refused(domain: str) -> None:
    for index in range(100):
        task = make_task(domain, "test", index)
        if task.data["level"] != 3:
            continue
        world, goal = open_world(task), task.data["goals"][0]
        kind = next(k for k in world.goals if k.name == goal.kind)
        other = next(case for case in kind.cases.values() if case.tools != goal.tools)
        values = {"id": goal.id, **goal.values}
        values |= dict(habit.argument for habit in world.habits if habit.argument)
        answers = [
            MethodTools(world).call(tool, {p: values[p] for p in world.parameters(tool)}).content
            for tool in other.tools
        ]
        assert any("must be" in answer for answer in answers)


def test_random_calls_score_near_zero() -> None:
    rng = random.Random(0)
    total, played = 0.0, 0
    for index, domain in itertools.product(range(25), TRAIN_DOMAINS):
        task = make_task(domain, "test", index)
        world = open_world(task)
        tools = MethodTools(world)
        for _ in range(12):
            spec = rng.choice(tools.specs())
            schemas = spec.parameters["properties"]
            tools.call(spec.name, {p: _random(p, s, task, rng) for p, s in schemas.items()})
        checks = check(world, task)
        total += sum(c.passed for c in checks) / len(checks)
        played += 1
    assert total / played < 0.05


def _random(name: str, schema: dict[str, Any], task: Task, rng: random.Random) -> object:
    """Draw a well-typed argument: existing ids, names that occur, any number, any constant."""
    records = task.data["state"]["records"]
    if name == "id":
        return rng.choice(sorted(records))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "integer":
        return rng.randint(1, 30)
    return rng.choice([record[name] for record in records.values()])


@pytest.mark.parametrize("domain", DOMAINS)
def test_bad_calls_are_answered_and_change_nothing(domain: str) -> None:
    world = open_world(make_task(domain, "train", 0))
    before = json.dumps(world.state)
    tools = MethodTools(world)
    for spec in tools.specs():
        schemas = spec.parameters["properties"]
        unknown = {p: _unknown(schema) for p, schema in schemas.items()}
        bad = ({}, {"id": 7}, {"id": None, "extra": [1]}, {**unknown, "extra": 1}, unknown)
        for arguments in bad:
            result = tools.call(spec.name, arguments)
            assert "error" in json.loads(result.content)
            assert result.raised is None
    for name in ("do", "find", "__init__", "state"):
        assert tools.call(name, {}).refused
    assert json.dumps(world.state) == before


def _unknown(schema: dict[str, Any]) -> object:
    """Return an argument of the right type that stands for nothing in the world."""
    if "enum" in schema:
        return schema["enum"][0]
    return 3 if schema["type"] == "integer" else "nobody"


@pytest.mark.parametrize("domain", DOMAINS)
def test_state_stays_json_and_worlds_share_nothing(domain: str) -> None:
    task = make_task(domain, "train", 3)
    before = json.dumps(task.data["state"])
    world, _ = play(task, (1, 1), (0, 0))
    assert json.loads(json.dumps(world.state)) == json.loads(json.dumps(world.state, default=str))
    assert world.state["log"]
    assert json.dumps(task.data["state"]) == before


def test_solutions_end_with_the_closing_text() -> None:
    turns = solve(make_task("library", "train", 0), (1, 0))
    assert turns[-1].text == FINAL_TEXT == "Task Completed"
    assert all(len(turn.tool_calls) == 1 for turn in turns[:-1])

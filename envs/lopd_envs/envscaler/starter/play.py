"""Open a task's world, solve it by script, and check what was reached."""

from __future__ import annotations

from typing import Any

from lopd_envs.envscaler.starter.domains import DOMAINS
from lopd_envs.envscaler.starter.generate import Goal
from lopd_envs.envscaler.starter.rules import Options
from lopd_envs.envscaler.starter.world import World
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Check, Task

FINAL_TEXT = "Task Completed"


def open_world(task: Task, rules: Options | None = None) -> World:
    """Return a fresh world for a task.

    Args:
        task: A starter task.
        rules: Options for the two house rules; by default the domain's true ones.
    """
    world = DOMAINS[task.group]
    return world(task.data["state"], world.true_rules if rules is None else rules)


def solve(task: Task, rules: Options) -> list[AssistantMessage]:
    """Return the turns of a worker who believes in the given house rules.

    With the options that hold in the world, every check passes; a wrong option fails the checks of
    that house rule and no other.
    """
    calls = [call for goal in task.data["goals"] for call in _calls(task.group, goal, rules)]
    turns = [AssistantMessage(tool_calls=(call,)) for call in calls]
    return [*turns, AssistantMessage(text=FINAL_TEXT)]


def _calls(domain: str, goal: Goal, rules: Options) -> list[ToolCall]:
    world = DOMAINS[domain]
    habits = world.habits_of(rules)
    before = [step for habit in habits for step in habit.before]
    after = [step for habit in habits for step in habit.after]
    lookup = [world.lookup] if goal.by_name else []
    values: dict[str, Any] = {"id": goal.id, **goal.values}
    values |= {field: goal.expected[field] for field in (world.person, world.thing)}
    values |= dict(habit.argument for habit in habits if habit.argument)
    return [
        ToolCall(tool, {name: values[name] for name in world.parameters(tool)})
        for tool in [*lookup, *goal.tools[:-1], *before, goal.tools[-1], *after]
    ]


def check(world: World, task: Task) -> list[Check]:
    """Check the state of a task's world: three checks per goal.

    The change was made as asked and no other record was touched; the first house rule was kept;
    the second was kept. House rules count only where the change was made, so that doing nothing
    passes no check.
    """
    goals: tuple[Goal, ...] = task.data["goals"]
    others_touched = not {goal.id for goal in goals}.issuperset(world.state["log"])
    checks = []
    for goal in goals:
        label = f"{goal.kind} {goal.id}"
        done = world.state["records"][goal.id] == goal.expected
        checks.append(Check(f"{label}: done as asked, nothing else", done and not others_touched))
        for number, habit in enumerate(world.habits):
            kept = done and world.kept(goal.id, number)
            checks.append(Check(f"{label}: {habit.words}", kept))
    return checks

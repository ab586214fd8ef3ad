"""Policies without a model: they play the same agent loop, as reference points and in tests.

A script sees the task and its tools and yields assistant messages. What it plays has no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lopd_gym.env import ToolEnv
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, Observation, ToolCall, ToolSpec
from lopd_gym.policy.base import Recording, Turn, empty_recording
from lopd_gym.tasks import Task

Script = Callable[[Task, tuple[ToolSpec, ...], np.random.Generator], Iterator[AssistantMessage]]

DONE = AssistantMessage(text="Task Completed")


class ScriptedPolicy:
    """A `Policy` that plays a script; when the script is over, it submits."""

    version = 0

    def __init__(self, script: Script) -> None:
        self._script = script
        self._running: dict[int, Iterator[AssistantMessage]] = {}
        self._waiting: set[int] = set()

    def begin(self, key: int, task: Task, tools: tuple[ToolSpec, ...], seed: int) -> None:
        """Open a conversation."""
        self._running[key] = self._script(task, tools, np.random.default_rng(seed))
        self._waiting.add(key)

    def observe(self, key: int, messages: Observation) -> None:
        """Start the next turn; scripts do not look at what came back."""
        self._waiting.add(key)

    def advance(self) -> list[Turn]:
        """Return the next message of every conversation in a turn."""
        turns = [Turn(key, next(self._running[key], DONE)) for key in sorted(self._waiting)]
        self._waiting.clear()
        return turns

    def context_tokens(self, key: int) -> int:
        """Scripts use no tokens."""
        return 0

    def end(self, key: int) -> Recording:
        """Close a conversation; its recording is empty."""
        del self._running[key]
        self._waiting.discard(key)
        return empty_recording()


def nothing(
    task: Task, tools: tuple[ToolSpec, ...], rng: np.random.Generator
) -> Iterator[AssistantMessage]:
    """Submit at once: the floor of every score."""
    yield DONE


def oracle(env: ToolEnv) -> Script:
    """Play the environment's own solutions."""

    def script(
        task: Task, tools: tuple[ToolSpec, ...], rng: np.random.Generator
    ) -> Iterator[AssistantMessage]:
        solution = env.oracle(task)
        if solution is None:
            raise UsageError(f"'{env.label}' knows no solution of task '{task.id}'.")
        yield from solution

    return script


def random_calls(turns: int = 6) -> Script:
    """Call random tools with random, well-typed arguments, then submit."""

    def script(
        task: Task, tools: tuple[ToolSpec, ...], rng: np.random.Generator
    ) -> Iterator[AssistantMessage]:
        for _ in range(turns):
            spec = tools[int(rng.integers(len(tools)))]
            properties: dict[str, Any] = spec.parameters.get("properties", {})
            arguments = {name: _random_value(schema, rng) for name, schema in properties.items()}
            yield AssistantMessage(tool_calls=(ToolCall(spec.name, arguments),))

    return script


def _random_value(schema: dict[str, Any], rng: np.random.Generator) -> Any:
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = kind[0]
    number = int(rng.integers(100))
    values: dict[str, Any] = {
        "integer": number,
        "number": number / 10,
        "boolean": number % 2 == 0,
        "array": [],
        "object": {},
        "null": None,
    }
    return values.get(kind, f"value {number}")

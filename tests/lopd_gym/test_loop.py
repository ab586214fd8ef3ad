"""The agent loop: order, limits, failures, determinism."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.episode import Episode, Sampling, append_episodes, read_episodes
from lopd_gym.errors import DataError
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.messages import AssistantMessage, Message, Observation, ToolCall, ToolSpec
from lopd_gym.policy.base import Recording, Turn
from lopd_gym.policy.scripted import ScriptedPolicy, nothing, oracle, random_calls
from lopd_gym.tasks import Check, Task, Termination
from lopd_gym.tools import MethodTools, Toolset, tool


class Counter(ToolEnv):
    """Add up to a target. The task 'broken' cannot be opened; 'broken-step' breaks later."""

    name = "counter"

    def tasks(self, split: str) -> Sequence[Task]:
        ids = ["two", "three", "broken", "broken-step", "slow"]
        opening = (Message("system", "Count."), Message("user", "Reach the target."))
        return [Task(i, split, opening, data={"target": 3 if i == "three" else 2}) for i in ids]

    def open(self, task: Task, seed: int) -> Toolset:
        if task.id == "broken":
            raise RuntimeError("no server")
        self.value = 0
        return MethodTools(self)

    @tool
    def add(self, amount: int) -> int:
        """Add to the counter.

        Args:
            amount: How much to add.
        """
        if self.task and self.task.id == "slow":
            time.sleep(0.02)
        self.value += amount
        return self.value

    def verify(self) -> Sequence[Check]:
        assert self.task is not None
        if self.task.id == "broken-step":
            raise ConnectionError("lost")
        return [Check("target reached", self.value == self.task.data["target"])]

    def oracle(self, task: Task) -> Sequence[AssistantMessage]:
        return [add(task.data["target"])]


class SlowCounter(Counter):
    """The same, stepped in threads."""

    blocking: ClassVar[bool] = True


def add(amount: object) -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall("add", {"amount": amount}),))


def play(
    script: object, ids: Sequence[str], kind: type[ToolEnv] = Counter, **limits: int
) -> list[Episode]:
    policy = ScriptedPolicy(script)  # type: ignore[arg-type]
    with AgentLoop(kind, policy, Sampling(), LoopLimits(**limits)) as loop:  # type: ignore[arg-type]
        return loop.play([Job(i, n) for n, i in enumerate(ids)])


@pytest.mark.parametrize("kind", [Counter, SlowCounter])
@pytest.mark.parametrize("concurrency", [1, 2, 64])
def test_episodes_come_in_the_order_of_jobs(kind: type[ToolEnv], concurrency: int) -> None:
    ids = ["slow", "two", "three", "slow", "two", "three"]
    episodes = play(oracle(kind()), ids, kind, concurrency=concurrency)
    assert [e.task_id for e in episodes] == ids
    assert all(e.outcome.success and e.outcome.score == 1.0 for e in episodes)
    assert episodes[2].actions == (("add", {"amount": 3}, "3"),)
    assert [m["role"] for m in episodes[1].transcript] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_broken_environment_costs_its_episode_only() -> None:
    episodes = play(oracle(Counter()), ["two", "broken", "broken-step", "three"], concurrency=2)
    assert [e.failed for e in episodes] == [False, True, True, False]
    for failed in (episodes[1], episodes[2]):
        assert failed.outcome.score is None
        assert failed.outcome.termination is Termination.INFRASTRUCTURE
    assert "no server" in (episodes[1].outcome.error or "")
    assert episodes[3].outcome.success


def test_doing_nothing_and_random_score_zero() -> None:
    assert [e.outcome.score for e in play(nothing, ["two", "three"])] == [0.0, 0.0]
    assert all(not e.outcome.success for e in play(random_calls(), ["two"] * 5))


class Babbler:
    """A policy that never submits; every turn costs 10 tokens."""

    version = 3

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}
        self.ready: list[int] = []

    def begin(self, key: int, task: Task, tools: tuple[ToolSpec, ...], seed: int) -> None:
        self.tokens[key] = 10
        self.ready.append(key)

    def observe(self, key: int, messages: Observation) -> None:
        self.ready.append(key)

    def advance(self) -> list[Turn]:
        turns = [Turn(key, add(0), 10) for key in self.ready]
        for key in self.ready:
            self.tokens[key] += 10
        self.ready = []
        return turns

    def context_tokens(self, key: int) -> int:
        return self.tokens[key]

    def end(self, key: int) -> Recording:
        self.ready = [other for other in self.ready if other != key]
        ids = np.arange(self.tokens.pop(key), dtype=np.int32)
        mask = ids >= 10
        turns = np.where(mask, ids // 10 - 1, -1).astype(np.int16)
        return Recording(ids, mask, np.zeros(len(ids), np.float32), turns, 5)


def test_budgets_end_episodes_and_are_told_apart() -> None:
    def with_turns() -> ToolEnv:
        return Counter(rules=EpisodeRules(max_turns=4))

    limits = LoopLimits(max_tokens=10_000)
    with AgentLoop(with_turns, Babbler(), Sampling(), limits) as loop:
        (by_turns,) = loop.play([Job("two", 0)])
    assert by_turns.outcome.termination is Termination.STEP_LIMIT
    assert by_turns.turns == 4
    with AgentLoop(Counter, Babbler(), Sampling(), LoopLimits(max_tokens=55)) as loop:
        (by_tokens,) = loop.play([Job("two", 0)])
    assert by_tokens.outcome.termination is Termination.TOKEN_LIMIT
    assert len(by_tokens.token_ids) == 60
    assert by_tokens.policy_version == 3
    with AgentLoop(Counter, Babbler(), Sampling(), LoopLimits(max_seconds=1e-9)) as loop:
        (by_seconds,) = loop.play([Job("two", 0)])
    assert by_seconds.outcome.termination is Termination.TIMEOUT


def test_episodes_survive_a_file_and_a_torn_last_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with AgentLoop(Counter, Babbler(), Sampling(), LoopLimits(max_tokens=55)) as loop:
        episodes = loop.play([Job("two", 0), Job("broken", 1)])
    path = tmp_path / "episodes.jsonl"
    append_episodes(path, episodes)
    again = list(read_episodes(path))
    assert [e.to_json() for e in again] == [e.to_json() for e in episodes]
    assert again[0].token_ids.dtype == np.int32
    assert again[0].loss_mask.dtype == np.bool_
    whole = path.read_text()
    path.write_text(whole[:-30])
    assert [e.task_id for e in read_episodes(path)] == ["two"]
    path.write_text("{not json}\n" + whole)
    with pytest.raises(DataError, match="line 1"):
        list(read_episodes(path))


def test_an_episode_that_utf_8_cannot_hold_survives_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with AgentLoop(Counter, Babbler(), Sampling(), LoopLimits(max_tokens=55)) as loop:
        (episode,) = loop.play([Job("two", 0)])
    said = ({"role": "tool", "content": "half of a pair: \ud83d, and \u00e9"},)
    path = tmp_path / "episodes.jsonl"
    append_episodes(path, [replace(episode, transcript=said)])
    assert next(read_episodes(path)).transcript == said
    whole = path.read_bytes()
    append_episodes(path, [replace(episode, instruction="\u00e9" * 9)])
    torn = path.read_bytes()
    path.write_bytes(torn[: torn.index(b"\xc3", len(whole)) + 1])  # within a character
    assert len(list(read_episodes(path))) == 1


class Measured(Counter):
    """Reports how far it counted."""

    def measures(self) -> dict[str, float]:
        return {"value": float(self.value)}


def test_measures_are_kept_and_summed_up(tmp_path) -> None:  # type: ignore[no-untyped-def]
    env = Measured()
    with AgentLoop(Measured, ScriptedPolicy(oracle(env)), Sampling()) as loop:
        episodes = loop.play([Job("two", 0), Job("three", 0), Job("broken", 0)])
    assert [dict(e.outcome.measures) for e in episodes] == [{"value": 2.0}, {"value": 3.0}, {}]
    assert env.figures(episodes) == {"train": {"value": 2.5}}
    assert Counter().figures(episodes[2:]) == {}
    append_episodes(tmp_path / "episodes.jsonl", episodes)
    kept = list(read_episodes(tmp_path / "episodes.jsonl"))
    assert [e.outcome for e in kept] == [e.outcome for e in episodes]


def test_a_policy_that_breaks_costs_its_episode_only() -> None:
    class Breaking(ScriptedPolicy):
        def advance(self) -> list[Turn]:
            turns = super().advance()
            broken = {1: OSError("gone")}
            return [Turn(t.key, t.message, error=broken.get(t.key)) for t in turns]

    with AgentLoop(Counter, Breaking(oracle(Counter())), Sampling()) as loop:
        played = loop.play([Job("two", n) for n in range(3)])
    assert [e.outcome.score for e in played] == [1.0, None, 1.0]
    assert played[1].outcome.error == "OSError: gone"
    assert played[1].outcome.termination is Termination.INFRASTRUCTURE

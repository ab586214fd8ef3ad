"""Recorded episodes of the real benchmark replay exactly, and doing nothing scores as published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lopd_envs.envscaler import make_envscaler
from lopd_envs.envscaler.splits import SPLITS

from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.messages import AssistantMessage, ToolCall


@pytest.fixture(scope="module")
def folder(data_folder: Path) -> Path:
    return data_folder / "envscaler"


@pytest.fixture(scope="module")
def envs(folder: Path) -> Iterator[dict[str, ToolEnv]]:
    """One environment for each split, long enough for every recorded episode."""
    rules = EpisodeRules(max_turns=100, several_calls="first", max_observation_chars=1_000_000)
    made = {split: make_envscaler(split, folder, rules, sandbox="process") for split in SPLITS}
    yield made
    for env in made.values():
        env.close()


def env_of(envs: dict[str, ToolEnv], task_id: str) -> ToolEnv:
    found = [e for s, e in envs.items() if any(t.id == task_id for t in e.tasks(s))]
    assert len(found) == 1, f"{task_id} is in {len(found)} splits"
    return found[0]


def play(env: ToolEnv, episode: dict[str, Any], seed: int = 0) -> tuple[list[str], Any]:
    env.reset(seed=seed, options={"task": episode["task_id"]})
    seen = []
    for action in episode["actions"]:
        call = ToolCall(action["name"], action["arguments"])
        seen.append(env.step(AssistantMessage(tool_calls=(call,)))[0][0].content)
    *_, info = env.step(AssistantMessage(text="Task Completed"))
    return seen, info["outcome"]


def test_every_golden_episode_replays_exactly(envs: dict[str, ToolEnv], folder: Path) -> None:
    episodes = json.loads((folder / "golden_episodes.json").read_text())
    assert len(episodes) == 16
    for episode in episodes:
        seen, outcome = play(env_of(envs, episode["task_id"]), episode)
        expected = episode["observations"] or [None] * len(seen)
        for found, known in zip(seen, expected, strict=True):
            assert known is None or found == known
        assert [c.passed for c in outcome.checks] == episode["check_results"]
        assert outcome.score == episode["reward"]


def test_the_score_of_doing_nothing_is_the_published_one(
    envs: dict[str, ToolEnv], folder: Path
) -> None:
    stats = json.loads((folder / "task_stats.json").read_text())
    assert len(stats) == 72
    for row in stats:
        env = env_of(envs, row["task_id"])
        env.reset(seed=0, options={"task": row["task_id"]})
        *_, info = env.step(AssistantMessage(text="Task Completed"))
        assert info["outcome"].score == row["noop_reward"], row["task_id"]
        assert len(info["outcome"].checks) == row["n_checks"]


def test_a_seed_fixes_every_byte(envs: dict[str, ToolEnv], folder: Path) -> None:
    episodes = json.loads((folder / "golden_episodes.json").read_text())
    random = [e for e in episodes if not e["observations_deterministic"]]
    assert random
    differs = False
    for episode in random:
        env = env_of(envs, episode["task_id"])
        first, again, other = (play(env, episode, seed)[0] for seed in (1, 1, 2))
        assert first == again
        differs |= first != other
    assert differs


@pytest.mark.parametrize("name", ["__init__", "init_config", "__class__", "_private", "nope"])
def test_only_names_of_the_schema_can_be_called(
    envs: dict[str, ToolEnv], folder: Path, name: str
) -> None:
    episode = json.loads((folder / "golden_episodes.json").read_text())[0]
    attack = {"name": name, "arguments": {"init_config": {}}}
    changed = {**episode, "actions": [attack, *episode["actions"]]}
    seen, outcome = play(env_of(envs, episode["task_id"]), changed)
    assert "error" in seen[0].lower()
    assert outcome.score == episode["reward"]

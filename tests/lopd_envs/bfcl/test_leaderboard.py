"""The sums of the leaderboard, beside upstream's own table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from lopd_envs.bfcl.__main__ import read_tallies
from lopd_envs.bfcl.corpus import CATEGORIES, MULTI_TURN
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.leaderboard import Tally, groups
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.episode import GREEDY, append_episodes
from lopd_gym.errors import UsageError
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from tests.lopd_envs.bfcl.test_ground_truth import SIZES
from tests.lopd_envs.bfcl.upstream import Upstream

COLUMNS = {
    "non-live AST": "Non-Live AST Acc",
    "live AST": "Live Acc",
    "irrelevance": "Irrelevance Detection",
    "relevance (not counted)": "Relevance Detection",
    "multi-turn": "Multi Turn Acc",
}


def test_the_sums_are_those_of_upstreams_table(upstream: Upstream, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tallies = {n: Tally(int(rng.integers(size + 1)), size) for n, size in SIZES.items()}
    row = {n: {"accuracy": t.accuracy, "total_count": t.tasks} for n, t in tallies.items()}
    upstream.leaderboard.generate_leaderboard_csv({"m": row}, tmp_path)
    with (tmp_path / "data_overall.csv").open() as lines:
        (expected,) = csv.DictReader(lines)
    found = groups("BFCL_v4", tallies)
    for name, column in COLUMNS.items():
        assert f"{found[name]:.2%}" == expected[column], name


def test_the_sums_of_the_third_version() -> None:
    passed = dict.fromkeys(CATEGORIES, 5) | {"simple_java": 8, "irrelevance": 10, "live_simple": 20}
    tasks = dict.fromkeys(CATEGORIES, 10) | {"live_simple": 50, "live_relevance": 20}
    found = groups("BFCL_v3", {n: Tally(passed[n], tasks[n]) for n in CATEGORIES})
    non_live = ((0.5 + 0.8 + 0.5) / 3 + 0.5 + 0.5 + 0.5 + 1.0) / 5
    live = 45 / 110
    assert found["non-live"] == pytest.approx(non_live)
    assert found["live"] == pytest.approx(live)
    assert found["overall"] == pytest.approx((non_live + live + 0.5) / 3)


@pytest.mark.parametrize("prefix", ["BFCL_v3", "BFCL_v4"])
def test_nothing_is_said_of_incomplete_groups(prefix: str) -> None:
    found = groups(prefix, {name: Tally(1, 2) for name in MULTI_TURN})
    assert {name for name, value in found.items() if value is not None} == {"multi-turn"}
    assert groups(prefix, {name: Tally(1, 2) for name in MULTI_TURN[1:]})["multi-turn"] is None


def test_episodes_are_counted_once(wheel: Wheel, tmp_path: Path) -> None:
    env = BFCLEnv(wheel, "simple_java")
    jobs = [Job(task.id, 0) for task in env.tasks("simple_java")]
    with AgentLoop(
        lambda: BFCLEnv(wheel, "simple_java"), ScriptedPolicy(oracle(env)), GREEDY
    ) as loop:
        append_episodes(tmp_path / "oracle.jsonl", loop.play(jobs))
    assert read_tallies(wheel, [tmp_path / "oracle.jsonl"]) == {"simple_java": Tally(98, 100)}
    with pytest.raises(UsageError, match="again"):
        read_tallies(wheel, [tmp_path / "oracle.jsonl"] * 2)

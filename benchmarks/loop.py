"""Turns per second of the agent loop: a scripted policy, the starter suite, recording on.

python -m benchmarks.loop
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from lopd_envs.envscaler.starter.env import StarterEnv

from benchmarks.report import report
from lopd_gym.episode import GREEDY, append_episodes
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.policy.scripted import ScriptedPolicy, oracle

EPISODES = 2_000
TARGET = 5_000


def main() -> None:
    tasks = StarterEnv().tasks("train")
    jobs = [Job(tasks[i].id, i) for i in range(EPISODES)]
    policy = ScriptedPolicy(oracle(StarterEnv()))
    with (
        tempfile.TemporaryDirectory() as folder,
        AgentLoop(StarterEnv, policy, GREEDY, LoopLimits(concurrency=64)) as loop,
    ):
        started = time.perf_counter()
        episodes = loop.play(jobs)
        append_episodes(Path(folder) / "episodes.jsonl", episodes)
        seconds = time.perf_counter() - started
    turns = sum(e.turns for e in episodes)
    in_environment = sum(e.timings.environment_s for e in episodes)
    assert all(e.outcome.success for e in episodes)
    report(
        "agent loop",
        {
            "turns per second": (turns / seconds, TARGET),
            "episodes": (EPISODES, None),
            "share of time in the environment": (in_environment / seconds, None),
        },
    )


if __name__ == "__main__":
    main()

"""EnvScaler steps per second through the worker process: one environment, then several at once.

    python -m benchmarks.envscaler_steps FOLDER [SANDBOX ...]

FOLDER holds the EnvScaler release or a part of it; SANDBOX is a backend (default: process and the
strongest that works here). Each episode opens a task, makes 15 random,
well-typed calls and submits; every step is a round trip to the sandboxed process.
"""

from __future__ import annotations

import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from lopd_envs.envscaler import make_envscaler
from lopd_envs.envscaler.corpus import load_corpus

from benchmarks.report import report
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.isolation import strongest
from lopd_gym.messages import AssistantMessage
from lopd_gym.policy.scripted import random_calls

CALLS = 15
EPISODES = 200
PARALLEL = 8
TARGET = 2_000
RULES = EpisodeRules(on_exception="observation", max_turns=CALLS + 1)


def main() -> None:
    folder = Path(sys.argv[1])
    started = time.perf_counter()
    load_corpus(folder)
    report("envscaler data", {"seconds to load": (time.perf_counter() - started, None)})
    for sandbox in sys.argv[2:] or dict.fromkeys(("process", strongest())):
        measure(folder, sandbox)


def measure(folder: Path, sandbox: str) -> None:
    """Play and print, through one backend."""

    def make() -> ToolEnv:
        return make_envscaler("train", folder, RULES, sandbox=sandbox)

    env = make()
    started = time.perf_counter()
    env.reset(seed=0)
    first_s = time.perf_counter() - started
    play(env, 1)
    started = time.perf_counter()
    step_s = play(env, EPISODES)
    whole_s = time.perf_counter() - started
    several_s = play_several([make() for _ in range(PARALLEL)])
    steps = EPISODES * CALLS
    report(
        f"envscaler through the worker, sandbox {sandbox}",
        {
            "steps per second, one environment": (steps / step_s, TARGET),
            "same, opening and verifying included": (steps / whole_s, None),
            "episodes per second, one environment": (EPISODES / whole_s, None),
            f"steps per second, {PARALLEL} threads, all included": (steps / several_s, None),
            "milliseconds to open the first task": (first_s * 1_000, None),
        },
    )
    env.close()


def play_several(envs: list[ToolEnv]) -> float:
    """Play the same number of episodes spread over environments; returns seconds."""
    for env in envs:
        play(env, 1)
    started = time.perf_counter()
    with ThreadPoolExecutor(len(envs)) as threads:
        list(threads.map(play, envs, itertools.repeat(EPISODES // len(envs))))
    seconds = time.perf_counter() - started
    for env in envs:
        env.close()
    return seconds


def play(env: ToolEnv, episodes: int) -> float:
    """Play random episodes; returns the seconds that calls took."""
    tasks, seconds = env.tasks("train"), 0.0
    for number in range(episodes):
        task = tasks[number % len(tasks)]
        _, info = env.reset(seed=number, options={"task": task.id})
        rng = np.random.default_rng(number)
        turns = list(random_calls(CALLS)(task, info["tools"], rng))
        started = time.perf_counter()
        for turn in turns:
            env.step(turn)
        seconds += time.perf_counter() - started
        env.step(AssistantMessage(text="Task Completed"))
    return seconds


if __name__ == "__main__":
    main()

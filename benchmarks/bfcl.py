"""BFCL multi-turn episodes per second on the benchmark's own answers, beside upstream's runner.

    python -m benchmarks.bfcl

Needs the wheel (`lopd_envs/bfcl/wheel.py` says how to install it). Both sides play the right calls
of all 800 entries, step by step, and score the episode. Upstream: its executor on the calls during
the episode, then its checker, without its model handlers and files, which would only cost it time.
The right answers are the benchmark's own and do no harm, so upstream may evaluate them.
"""

from __future__ import annotations

import importlib
import time
from concurrent.futures import ThreadPoolExecutor

from lopd_envs.bfcl.calls import write_call
from lopd_envs.bfcl.corpus import MULTI_TURN, read_lines
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel, load_wheel

from benchmarks.report import report
from lopd_gym.messages import AssistantMessage
from lopd_gym.tasks import Task

THREADS = 8

Work = list[tuple[Task, list[AssistantMessage]]]


def main() -> None:
    started = time.perf_counter()
    wheel = load_wheel()
    load_s = time.perf_counter() - started
    work = {category: answers(wheel, category) for category in MULTI_TURN}
    count = sum(map(len, work.values()))
    ours_s = sum(play(BFCLEnv(wheel, category), work[category]) for category in work)
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        for category, jobs in work.items():
            envs = [BFCLEnv(wheel, category) for _ in range(THREADS)]
            list(threads.map(play, envs, [jobs[i::THREADS] for i in range(THREADS)]))
    threads_s = time.perf_counter() - started
    upstream_s = sum(play_upstream(wheel, category, jobs) for category, jobs in work.items())
    report(
        "BFCL multi-turn, right answers",
        {
            "episodes per second, one environment": (count / ours_s, None),
            f"episodes per second, {THREADS} threads": (count / threads_s, None),
            "episodes per second, upstream's executor and checker": (count / upstream_s, None),
            "seconds to load the wheel": (load_s, None),
        },
    )


def answers(wheel: Wheel, category: str) -> Work:
    """Return every task with the messages that solve it, one call in each."""
    env, work = BFCLEnv(wheel, category), []
    for task in env.tasks(category):
        messages: list[AssistantMessage] = []
        for message in env.oracle(task):
            # Upstream's limit of 20 steps is met by making the calls of a long turn together.
            split = 0 < len(message.tool_calls) <= 20
            calls = [(c,) for c in message.tool_calls] if split else [message.tool_calls]
            messages += [AssistantMessage(message.text, call) for call in calls]
        work.append((task, messages))
    return work


def play(env: BFCLEnv, work: Work) -> float:
    """Play episodes in an environment; returns seconds."""
    started = time.perf_counter()
    for task, messages in work:
        env.reset(seed=0, options={"task": task.id})
        for message in messages:
            *_, info = env.step(message)
        if not info["outcome"].success:
            raise SystemExit(f"{task.id} did not pass.")
    return time.perf_counter() - started


def play_upstream(wheel: Wheel, category: str, work: Work) -> float:
    """Execute and check the same calls with upstream's functions; returns seconds."""
    package = "bfcl_eval.eval_checker.multi_turn_eval"
    execute = importlib.import_module(f"{package}.multi_turn_utils").execute_multi_turn_func_call
    check = importlib.import_module(f"{package}.multi_turn_checker").multi_turn_checker
    file = f"{wheel.release.prefix}_{category}.json"
    rows = read_lines(wheel.folder / "data" / "possible_answer" / file)
    truth = {row["id"]: row["ground_truth"] for row in rows}
    jobs = [(task.data["entry"], as_text(messages)) for task, messages in work]
    started = time.perf_counter()
    for entry, turns in jobs:
        state = (entry.raw["initial_config"], entry.raw["involved_classes"], "model", entry.id)
        for turn in turns:
            for step in turn:
                execute(step, *state, long_context="long_context" in category)
        if not check(turns, truth[entry.id], entry.raw, category, "model")["valid"]:
            raise SystemExit(f"{entry.id} did not pass upstream.")
    return time.perf_counter() - started


def as_text(messages: list[AssistantMessage]) -> list[list[list[str]]]:
    """Return the calls as upstream's text, by turn and step."""
    turns: list[list[list[str]]] = [[]]
    for message in messages:
        if message.tool_calls:
            turns[-1].append([write_call(c.name, c.arguments) for c in message.tool_calls])
        else:
            turns.append([])
    return turns[:-1]


if __name__ == "__main__":
    main()

"""ACEBench episodes per second when the known solutions are played, beside upstream's own code.

    python -m benchmarks.acebench FOLDER

FOLDER is upstream's ``data_all``. The same calls are played by this environment, by its simulated
apps and scores alone, and by upstream's classes and the checkers of the ``evalscope`` port, where
that package is installed (``pip install --no-deps evalscope==1.14.1``).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lopd_envs.acebench import AceBenchEnv, make_acebench
from lopd_envs.acebench.corpus import AGENT, Row, load_corpus
from lopd_envs.acebench.oracle import plan
from lopd_envs.acebench.scoring.agent import official_faults, process_score
from lopd_envs.acebench.tools import SceneTools

from benchmarks.report import report
from lopd_gym.messages import ToolCall
from tests.lopd_envs.acebench.port import PortScene, port
from tests.lopd_envs.acebench.test_scenes import SCORED

REPEATS = 5
Plans = Sequence[tuple[Row, Sequence[ToolCall]]]


def main() -> None:
    folder = Path(sys.argv[1])
    started = time.perf_counter()
    corpus = load_corpus(folder, "en")
    load_s = time.perf_counter() - started
    plans = [(row, plan(row, "en")) for category in AGENT for row in corpus.rows[category]]
    agents = make_acebench("agent", folder, user="scripted")
    single = make_acebench("normal", folder)
    figures: dict[str, tuple[float, float | None]] = {
        "agent episodes per second, environment": (rate(lambda: play(agents)), None),
        "same calls, apps and scores alone": (rate(lambda: ours(plans)), None),
    }
    if importlib.util.find_spec("evalscope") is not None:
        figures["same calls, upstream's classes and the port's checkers"] = (
            rate(lambda: upstream(plans)),
            None,
        )
    figures["normal replies per second, environment"] = (rate(lambda: play(single)), None)
    figures["seconds to load one language"] = (load_s, None)
    report("acebench, known solutions played", figures)


def rate(work: Callable[[], int]) -> float:
    """Return episodes per second, the first round left out."""
    work()
    started = time.perf_counter()
    episodes = sum(work() for _ in range(REPEATS))
    return episodes / (time.perf_counter() - started)


def play(env: AceBenchEnv) -> int:
    tasks = env.tasks(env.split)
    for task in tasks:
        env.reset(seed=0, options={"task": task.id})
        for turn in env.oracle(task):
            env.step(turn)
    return len(tasks)


def ours(plans: Plans) -> int:
    for row, calls in plans:
        tools = SceneTools(row, "en")
        for call in calls:
            tools.call(call.name, call.arguments)
        official_faults(tools.states(), row.truth)
        process_score([], row.milestones)
    return len(plans)


def upstream(plans: Plans) -> int:
    checker = port("checker")
    for row, calls in plans:
        scene = PortScene("en", row.fields["involved_classes"], row.fields["initial_config"])
        for call in calls:
            scene.call(call.name, dict(call.arguments))
        checker.check_agent_end_state(scene.state(SCORED), row.truth)
        checker.milestone_accuracy([], row.milestones)
    return len(plans)


if __name__ == "__main__":
    main()

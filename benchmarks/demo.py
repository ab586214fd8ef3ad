"""The embedded default over several seeds, with controls: does LOPD learn, and from what?

    python -m benchmarks.demo [--seeds 5] [--jobs 1]

For each seed, `lopd-gym run` with default settings, and a control: the same with a frozen composer
that was never trained. Then, for the first seed, what the gain rests on: the teacher with its own
latents, with latents of other domains' experiences, and with that random composer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lopd_envs.envscaler import make_envscaler
from lopd_learners.lopd import LOPD
from rich.console import Console
from rich.table import Table

from lopd_gym.bank import Bank, get_embedder
from lopd_gym.episode import GREEDY, Sampling
from lopd_gym.learner import LearnerContext
from lopd_gym.run.build import learner_type, load_backbone
from lopd_gym.run.checkpoint import Checkpoints
from lopd_gym.run.evaluation import Evaluation, evaluate, evaluation_tasks
from lopd_gym.run.folder import RunFolder, read_json
from lopd_gym.run.progress import SilentReporter

RANDOM_COMPOSER = (
    "learner.composer=frozen",
    "learner.composer_init=random",
    "learner.cold_start_steps=0",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kinds = {"lopd": (), "random composer": RANDOM_COMPOSER}
        runs = [(kind, seed) for kind in kinds for seed in range(given.seeds)]
        with ThreadPoolExecutor(given.jobs) as pool:
            summaries = pool.map(lambda run: train(folder, *run, kinds[run[0]]), runs)
            titles = [f"{kind}, seed {seed}" for kind, seed in runs]
            print_runs(dict(zip(titles, summaries, strict=True)))
        print_teachers(folder)


def train(parent: Path, kind: str, seed: int, changes: Sequence[str]) -> dict[str, Any]:
    """Run the embedded default once and return its summary."""
    folder = parent / f"{kind}-{seed}"
    command = [sys.executable, "-m", "lopd_gym.cli.main", "run", "--env", "envscaler"]
    command += ["--learner", "lopd", "--seed", str(seed), "--out", str(folder)]
    for change in changes:
        command += ["--set", change]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary: dict[str, Any] = read_json(folder / "summary.json")
    return summary


def print_runs(summaries: dict[str, dict[str, Any]]) -> None:
    """Print what each run gained, paired over tasks, with 95 % intervals."""
    table = Table("run", "base", "student", "gain, T 0.7", "gain, greedy", "minutes", "MiB")
    for title, summary in summaries.items():
        success = {(r["policy"], r["mode"]): r["success"]["mean"] for r in summary["rows"]}
        gains = (summary["gain"][mode] for mode in ("sampled", "greedy"))
        table.add_row(
            title,
            f"{success['base', 'sampled']:.2f} / {success['base', 'greedy']:.2f}",
            f"{success['student', 'sampled']:.2f} / {success['student', 'greedy']:.2f}",
            *(f"{g['mean']:+.2f} [{g['low']:+.2f}, {g['high']:+.2f}]" for g in gains),
            f"{sum(summary['minutes'].values()):.1f}",
            f"{summary['peak_memory_mib']:.0f}",
        )
    Console(width=110).print(table)
    print(json.dumps({"benchmark": "demo", "runs": summaries}))


def print_teachers(folder: Path) -> None:
    """Evaluate the teachers of seed 0, before and after training, and of the random composer."""
    table = Table("teacher", "success, T 0.7", "success, greedy")
    trained, random = folder / "lopd-0", folder / "random composer-0"
    rows = (
        ("own domain's latents, before training", trained, "cold_composer", False),
        ("own domain's latents, after training", trained, "composer", False),
        ("other domains' latents, after training", trained, "composer", True),
        ("latents of a random composer", random, "composer", False),
    )
    for title, run, composer, other in rows:
        cells = [play_teacher(run, composer, other, mode) for mode in (Sampling(), GREEDY)]
        values = [e.success() for e in cells]
        table.add_row(title, *(f"{v.mean:.2f} [{v.low:.2f}, {v.high:.2f}]" for v in values))
    Console(width=110).print(table)


def play_teacher(run: Path, composer: str, other_group: bool, sampling: Sampling) -> Evaluation:
    """Play held-out tasks as the teacher of a finished run, with one of its two composers."""
    folder, settings = RunFolder.existing(run)
    backbone = load_backbone(settings)
    bank = Bank.open(folder.bank, get_embedder(settings.embedder))
    kind, config = learner_type(settings.learner)
    learner = kind(config, LearnerContext(backbone, bank, settings.seed, run))
    assert isinstance(learner, LOPD)
    checkpoints = Checkpoints(run / "checkpoints")
    state = checkpoints.load(checkpoints.steps()[-1])["learner"]
    learner.load_state_dict({**state, "composer": state[composer]})
    split = settings.evaluation.split
    ids = evaluation_tasks(make_envscaler(split), split, settings.evaluation.tasks)
    policy = learner.teacher(
        sampling,
        other_group=other_group,
        max_new_tokens=settings.max_new_tokens,
        max_context_tokens=settings.limits.max_tokens,
    )
    name = f"teacher-{composer}-{other_group}-{sampling.temperature}"
    return evaluate(name, policy, sampling, ids, settings, folder.episodes(name), SilentReporter())


if __name__ == "__main__":
    main()

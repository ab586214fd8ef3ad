"""A comparison of three learners by hand, beside two runs that scripts played."""

from __future__ import annotations

import math
from pathlib import Path

from lopd_gym.compare.result import Behaviour, Comparison, CurvePoint, LearnerResult, Pair
from lopd_gym.policy.scripted import random_calls
from lopd_gym.run.folder import write_json
from lopd_gym.stats import Interval
from tests.lopd_gym.report.runs import finished_run

LABELS = ("lopd", "grpo", "rft:<b>rate</b>=[red]")
MODES = ("sampled", "greedy")


def comparison(folder: Path) -> Path:
    """Write a comparison whose third learner's runs are gone."""
    finished_run(folder / "lopd-seed-0")
    finished_run(folder / "grpo-seed-0", "grpo", student=random_calls(1))
    found = Comparison(
        env="envscaler:starter",
        split="test",
        data_hash="2f2b40fcd5142276",
        model="tiny",
        tasks=64,
        seeds=(0, 1, 2),
        budget=240,
        base={mode: Interval(0.3, 0.2, 0.42) for mode in MODES},
        nothing=Interval(0.0, 0.0, 0.06),
        learners=tuple(learner(folder, number) for number in range(3)),
        pairs=tuple(pair(label, mode) for mode in MODES for label in LABELS[1:]),
        notes=("One seed <i>only</i>.",),
    )
    write_json(folder / "comparison.json", found.to_json())
    return folder


def learner(folder: Path, number: int) -> LearnerResult:
    mean = 0.9 - 0.1 * number
    points = [CurvePoint(n, mean * n / 240, mean * n / 250, mean * n / 230) for n in (0, 96, 240)]
    return LearnerResult(
        label=LABELS[number],
        runs=tuple(f"gone/{LABELS[number].split(':')[0]}-seed-{seed}" for seed in range(3)),
        success={mode: Interval(mean, mean - 0.1, mean + 0.1) for mode in MODES},
        score={mode: Interval(mean, mean - 0.1, mean + 0.1) for mode in MODES},
        by_seed={mode: (mean - 0.05, mean, mean + 0.05) for mode in MODES},
        curve={mode: tuple(points) for mode in MODES},
        at_share=(0.3, 0.4, mean),
        rollouts_to_reference=None if number else 240,
        rollouts=240,
        tokens=12_345.6,
        minutes=1.25,
        memory_mib=1_000.0,
        behaviour=Behaviour(4.5, 3.5, 0.0, 40.25, 0.01),
    )


def pair(label: str, mode: str) -> Pair:
    wide = Interval(-0.1, -math.inf, math.inf) if mode == "greedy" else Interval(-0.1, -0.2, -0.01)
    return Pair(
        **{"label": label, "mode": mode, "difference": wide, "p": 0.03, "p_holm": 0.06},
        **{"p_mcnemar": 0.2, "won": 3, "lost": 9, "tied": 52, "detectable": 0.17},
        verdict="no difference to lopd shown",
    )

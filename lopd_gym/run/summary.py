"""The final numbers of a run, as data."""

from __future__ import annotations

import resource
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lopd_gym.run.evaluation import Evaluation
from lopd_gym.run.folder import read_lines
from lopd_gym.stats import Interval

if TYPE_CHECKING:
    from lopd_gym.run.training import TrainingRun

POLICIES = {"nothing": "do nothing", "base": "base", "student": "student", "oracle": "oracle"}
MODES = ("sampled", "greedy")
SCRIPTED = "scripted"
"""Stands for a mode where no model plays."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy's result in one mode of playing: one of `MODES`, or `SCRIPTED`."""

    policy: str
    mode: str
    tasks: int
    failed: int
    success: Interval
    score: Interval


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to.

    ``gain`` is the paired difference in success, student minus base, for each mode; ``curve``
    lists (rollouts, mode, success) of the evaluations during training. ``tokens`` counts those
    that were sampled to fill the bank and in training; ``isolation`` is the environment's.
    """

    env: str
    split: str
    data_hash: str
    learner: str
    model: str
    seed: int
    rows: tuple[Row, ...]
    gain: dict[str, Interval]
    curve: tuple[tuple[int, str, float], ...]
    rollouts: dict[str, int]
    tokens: int
    minutes: dict[str, float]
    peak_memory_mib: float
    student: str
    isolation: str = ""

    @classmethod
    def build(cls, run: TrainingRun) -> Summary:
        """Collect the numbers of a run whose phases are all done."""
        settings, found = run.settings, run.evaluations
        modes = [m for m in MODES if f"base-{m}" in found]
        gain = {m: found[f"student-{m}"].gain_over(found[f"base-{m}"]) for m in modes}
        bank = run.budget.bank
        training = run.trained_steps * settings.episodes_per_step
        return cls(
            env=run.env.label,
            split=settings.evaluation.split,
            data_hash=run.env.data_hash(),
            learner=settings.learner["name"],
            model=settings.model.source,
            seed=settings.seed,
            rows=tuple(_rows(found, modes)),
            gain=gain,
            curve=tuple(_curve(run, modes, bank)),
            rollouts={"bank": bank, "training": training, "total": bank + training},
            tokens=run.bank_tokens + _trained_tokens(run),
            minutes=dict(run.minutes),
            peak_memory_mib=peak_memory_mib(),
            student=str(run.folder.student),
            isolation=run.env.isolation,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def _rows(found: dict[str, Evaluation], modes: list[str]) -> list[Row]:
    rows = []
    for name, title in POLICIES.items():
        rows += [row(title, m, found[f"{name}-{m}"]) for m in modes if f"{name}-{m}" in found]
        if name in found:
            rows.append(row(title, SCRIPTED, found[name]))
    return rows


def row(policy: str, mode: str, evaluation: Evaluation) -> Row:
    """Summarise one evaluation."""
    return Row(
        policy=policy,
        mode=mode,
        tasks=len(evaluation.episodes),
        failed=evaluation.failed,
        success=evaluation.success(),
        score=evaluation.score(),
    )


def _curve(run: TrainingRun, modes: list[str], bank: int) -> list[tuple[int, str, float]]:
    """Success over rollouts: the base, the evaluations during training, the final student."""
    settings, points = run.settings, []
    for mode in modes:
        points.append((0, mode, run.evaluations[f"base-{mode}"].success().mean))
        for name, evaluation in run.evaluations.items():
            if name.startswith("step-") and name.endswith(mode):
                step = int(name.split("-")[1])
                rollouts = bank + step * settings.episodes_per_step
                points.append((rollouts, mode, evaluation.success().mean))
        total = bank + run.trained_steps * settings.episodes_per_step
        points.append((total, mode, run.evaluations[f"student-{mode}"].success().mean))
    return points


def _trained_tokens(run: TrainingRun) -> int:
    rows = read_lines(run.folder.metrics)
    return sum(round(row["response_tokens"] * row["played"]) for row in rows)


def peak_memory_mib() -> float:
    """Return the largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)

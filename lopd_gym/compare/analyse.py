"""From finished runs to a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lopd_gym.compare.collect import FinishedRun, by_learner, check_comparable
from lopd_gym.compare.result import (
    SHARES,
    Behaviour,
    Comparison,
    CurvePoint,
    LearnerResult,
    Pair,
)
from lopd_gym.compare.two_way import Estimate, holm, two_way
from lopd_gym.errors import UsageError
from lopd_gym.stats import Interval, mcnemar_exact, wilson_interval

LEVEL = 0.05
_SUCCESS, _SCORE = 0, 1

Table = NDArray[np.float64]
"""Values of seeds x tasks."""


def compare_runs(runs: Sequence[FinishedRun]) -> Comparison:
    """Compare finished runs; the learner of the first one is the reference.

    Raises:
        UsageError: They cannot be compared, or there is only one learner.
    """
    check_comparable(runs)
    groups = by_learner(runs)
    if len(groups) < 2:
        raise UsageError(f"A comparison needs two learners, found only '{next(iter(groups))}'.")
    modes = sorted(runs[0].summary["gain"], reverse=True)
    tasks = _shared_tasks(runs, modes)
    reference = next(iter(groups))
    aim = float(_table(groups[reference], "student-sampled", tasks, _SUCCESS).mean())
    first, seeds = runs[0], tuple(run.settings.seed for run in groups[reference])
    return Comparison(
        env=str(first.summary["env"]),
        split=first.settings.evaluation.split,
        data_hash=str(first.summary["data_hash"]),
        model=first.settings.model.source,
        tasks=len(tasks),
        seeds=seeds,
        budget=first.settings.rollouts,
        base={m: _rate(first.results[f"base-{m}"], tasks) for m in modes},
        nothing=_rate(first.results["nothing"], tasks),
        learners=tuple(_learner(label, mine, modes, tasks, aim) for label, mine in groups.items()),
        pairs=tuple(pair for m in modes for pair in _pairs(groups, m, tasks)),
        notes=tuple(_notes(runs, len(seeds), len(tasks))),
    )


def _shared_tasks(runs: Sequence[FinishedRun], modes: Sequence[str]) -> list[str]:
    """Tasks that failed in no evaluation of any run, in the order of the first."""
    names = [f"student-{m}" for m in modes]
    return [
        task
        for task in runs[0].results[names[0]]
        if all(task in run.results[name] for run in runs for name in names)
    ]


def _table(runs: Sequence[FinishedRun], name: str, tasks: Sequence[str], what: int) -> Table:
    return np.array([[run.results[name][task][what] for task in tasks] for run in runs])


def _rate(results: Mapping[str, tuple[float, float]], tasks: Sequence[str]) -> Interval:
    won = [results[task][_SUCCESS] for task in tasks if task in results]
    return wilson_interval(int(sum(won)), len(won))


def _learner(
    label: str, runs: Sequence[FinishedRun], modes: Sequence[str], tasks: Sequence[str], aim: float
) -> LearnerResult:
    success = {m: _table(runs, f"student-{m}", tasks, _SUCCESS) for m in modes}
    score = {m: _table(runs, f"student-{m}", tasks, _SCORE) for m in modes}
    curve = {m: _curve(runs, m) for m in modes}
    sampled, budget = curve["sampled"], runs[0].settings.rollouts
    reached = [point.rollouts for point in sampled if point.mean >= aim]
    names = Behaviour.__dataclass_fields__
    return LearnerResult(
        label=label,
        runs=tuple(str(run.folder) for run in runs),
        success={m: _bounded(two_way(table)) for m, table in success.items()},
        score={m: _bounded(two_way(table)) for m, table in score.items()},
        by_seed={m: tuple(table.mean(1).tolist()) for m, table in success.items()},
        curve=curve,
        at_share=tuple(_after(sampled, share * budget) for share in SHARES),
        rollouts_to_reference=min(reached, default=None),
        rollouts=int(runs[0].summary["rollouts"]["total"]),
        tokens=_mean([run.summary["tokens"] for run in runs]),
        minutes=_mean([_minutes(run) for run in runs]),
        memory_mib=max(run.summary["peak_memory_mib"] for run in runs),
        behaviour=Behaviour(**{n: _mean([run.behaviour[n] for run in runs]) for n in names}),
    )


def _minutes(run: FinishedRun) -> float:
    """Wall time of what learning takes: evaluations are left out."""
    spent: dict[str, float] = run.summary["minutes"]
    return sum(spent.get(phase, 0.0) for phase in ("bank", "warm-up", "training"))


def _bounded(estimate: Estimate) -> Interval:
    """Keep the interval of a rate within [0, 1]."""
    found = estimate.interval
    return Interval(found.mean, max(0.0, found.low), min(1.0, found.high))


def _curve(runs: Sequence[FinishedRun], mode: str) -> tuple[CurvePoint, ...]:
    at: dict[int, list[float]] = {}
    for run in runs:
        for rollouts, its_mode, success in run.summary["curve"]:
            if its_mode == mode:
                at.setdefault(rollouts, []).append(success)
    return tuple(CurvePoint(n, _mean(x), min(x), max(x)) for n, x in sorted(at.items()))


def _after(curve: Sequence[CurvePoint], rollouts: float) -> float:
    """Success at the last evaluation within a number of rollouts."""
    return [point.mean for point in curve if point.rollouts <= rollouts][-1]


def _pairs(
    groups: Mapping[str, Sequence[FinishedRun]], mode: str, tasks: Sequence[str]
) -> list[Pair]:
    tables = {
        label: _table(runs, f"student-{mode}", tasks, _SUCCESS) for label, runs in groups.items()
    }
    reference, *others = tables
    estimates = [two_way(tables[label] - tables[reference]) for label in others]
    adjusted = holm([estimate.p for estimate in estimates])
    return [
        _pair(reference, label, mode, tables[label] - tables[reference], estimate, p)
        for label, estimate, p in zip(others, estimates, adjusted, strict=True)
    ]


def _pair(
    reference: str, label: str, mode: str, gaps: Table, estimate: Estimate, p_holm: float
) -> Pair:
    by_task = gaps.sum(0)
    won, lost = int((by_task > 0).sum()), int((by_task < 0).sum())
    if p_holm >= LEVEL:
        verdict = f"no difference to {reference} shown"
    else:
        word = "better" if estimate.mean > 0 else "worse"
        verdict = f"{word} than {reference} by {abs(estimate.mean):.2f}"
    return Pair(
        label=label,
        mode=mode,
        difference=estimate.interval,
        p=estimate.p,
        p_holm=p_holm,
        p_mcnemar=mcnemar_exact(by_task < 0, by_task > 0),
        won=won,
        lost=lost,
        tied=gaps.shape[1] - won - lost,
        detectable=estimate.detectable,
        verdict=verdict,
    )


def _notes(runs: Sequence[FinishedRun], seeds: int, tasks: int) -> list[str]:
    notes = []
    if seeds == 1:
        notes.append(
            "One seed: intervals cover other tasks, but not another training run. Use --seeds 3 "
            "or more."
        )
    elif seeds == 2:
        notes.append("Two seeds say next to nothing about other training runs: use 3 or more.")
    dropped = runs[0].settings.evaluation.tasks - tasks
    if dropped > 0:
        notes.append(f"{dropped} tasks are left out: they failed in an evaluation or do not exist.")
    return notes


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))

"""The page of a comparison: what `lopd_gym.compare` found, and plays in which learners differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from lopd_gym.compare.result import SHARES, Comparison, read_comparison
from lopd_gym.report.chart import Series, interval_bar, line_chart
from lopd_gym.report.episode_view import EpisodeView, episode_view
from lopd_gym.report.html import page
from lopd_gym.report.phases import PhaseResult, read_chosen, read_phase

COMPARISON_FILE = "comparison.json"
REPORT_FILE = "report.html"
_PHASE = "student-sampled"
_TASKS = 6
_EPISODES = 30


@dataclass(frozen=True, slots=True)
class Differing:
    """One task, and how each learner's student of the first seed played it."""

    task_id: str
    plays: Sequence[EpisodeView]


def comparison_page(folder: Path) -> str:
    """Return the page of the comparison in a folder.

    Raises:
        DataError: Its ``comparison.json`` is damaged.
    """
    found = read_comparison(folder / COMPARISON_FILE)
    modes = list(found.base)
    runs = {x.label: [_existing(folder, run) for run in x.runs] for x in found.learners}
    first = {label: paths[0] for label, paths in runs.items() if paths and paths[0] is not None}
    return page(
        "comparison.html",
        title=f"{', '.join(x.label for x in found.learners)} in {found.env}",
        found=found,
        shares=[f"at {share:.0%}" for share in SHARES],
        modes=modes,
        scores={mode: _scores(found, mode) for mode in modes},
        pairs={mode: _pairs(found, mode) for mode in modes},
        curves={mode: _curve(found, mode) for mode in modes},
        colours={x.label: number for number, x in enumerate(found.learners)},
        differing=_differing(first),
        pages={label: _pages(folder, paths) for label, paths in runs.items()},
    )


def _scores(found: Comparison, mode: str) -> list[tuple[str, Markup]]:
    """Return (label, bar) of doing nothing, the base and every learner."""
    rows = [("do nothing", found.nothing, 7), ("base", found.base[mode], 7)]
    rows += [(x.label, x.success[mode], number) for number, x in enumerate(found.learners)]
    return [(label, interval_bar(value, (0, 1), colour)) for label, value, colour in rows]


def _pairs(found: Comparison, mode: str) -> list[tuple[int, Markup]]:
    """Return (place in the comparison's pairs, bar) of the pairs of a mode, on one scale."""
    mine = [(n, pair) for n, pair in enumerate(found.pairs) if pair.mode == mode]
    ends = [abs(x) for _, pair in mine for x in (pair.difference.low, pair.difference.high)]
    reach = min(1.0, max([0.05, *filter(math.isfinite, ends)]))
    labels = [x.label for x in found.learners]
    return [
        (n, interval_bar(pair.difference, (-reach, reach), labels.index(pair.label)))
        for n, pair in mine
    ]


def _curve(found: Comparison, mode: str) -> Markup:
    """Draw each learner's mean over seeds, and the range of its seeds."""
    series = [
        Series(
            label=x.label,
            points=[(p.rollouts, p.mean) for p in x.curve[mode]],
            colour=number,
            band=[(p.low, p.high) for p in x.curve[mode]] if len(x.runs) > 1 else (),
        )
        for number, x in enumerate(found.learners)
        if x.curve.get(mode)
    ]
    return line_chart(
        series,
        title=f"held-out success over rollouts, {mode}",
        x_label="rollouts",
        y_label=f"success, {mode}",
        y_range=(0, 1),
        level=found.base[mode].mean,
    )


def _differing(runs: dict[str, Path]) -> list[Differing]:
    """Find tasks on which some students succeed and others do not, evened-out splits first."""
    phases = {label: _phase(run) for label, run in runs.items()}
    plays = {
        label: {e.task_id: e for e in phase.played} for label, phase in phases.items() if phase
    }
    if len(plays) < 2:
        return []
    solved = {
        task: sum(mine[task].success for mine in plays.values())
        for task in next(iter(plays.values()))
        if all(task in mine for mine in plays.values())
    }
    split = [task for task, count in solved.items() if 0 < count < len(plays)]
    split.sort(key=lambda task: abs(solved[task] - len(plays) / 2))
    tasks = split[: max(1, min(_TASKS, _EPISODES // len(plays)))]
    if not tasks:
        return []
    episodes = {
        label: read_chosen(runs[label], _PHASE, [mine[task].number for task in tasks])
        for label, mine in plays.items()
    }
    return [
        Differing(
            task,
            [
                episode_view(episodes[label][mine[task].number], label, mine[task].number, [])
                for label, mine in plays.items()
            ],
        )
        for task in tasks
    ]


def _phase(run: Path) -> PhaseResult | None:
    path = run / "episodes" / f"{_PHASE}.jsonl"
    return read_phase(path) if path.exists() else None


def _existing(folder: Path, run: str) -> Path | None:
    """Find a run's folder, also where the comparison was moved together with its runs."""
    places = (Path(run), folder / Path(run).name)
    return next((path for path in places if (path / "settings.json").exists()), None)


def _pages(folder: Path, runs: Sequence[Path | None]) -> list[tuple[str, str]]:
    """Return (name, address) of each run, the address empty where it has no report beside ours."""
    found = []
    for run in runs:
        beside = run is not None and run.resolve().parent == folder.resolve()
        if run is not None and beside and (run / REPORT_FILE).exists():
            found.append((run.name, f"./{quote(run.name)}/{REPORT_FILE}"))
        else:
            found.append((run.name if run else "not found", ""))
    return found

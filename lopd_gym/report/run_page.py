"""The page of a run, finished or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lopd_gym.errors import LopdGymError
from lopd_gym.report.bank_use import bank_use
from lopd_gym.report.chart import Series, TaskRow, interval_bar, line_chart, task_map
from lopd_gym.report.episode_view import EpisodeView, episode_view
from lopd_gym.report.html import page
from lopd_gym.report.phases import PhaseResult, read_chosen, read_phases
from lopd_gym.report.selection import choose, final_phase
from lopd_gym.run.folder import RunFolder, read_json, read_lines
from lopd_gym.stats import Interval

if TYPE_CHECKING:
    from lopd_gym.report.tokens import TaughtStep

_MODES = ("sampled", "greedy")
_CHECKS = 20
_GROUPS = 60
_MAP_TASKS = 300


@dataclass(frozen=True, slots=True)
class RunData:
    """What a run's folder holds; ``summary`` is None while it is not finished."""

    path: Path
    settings: Any
    versions: Mapping[str, str]
    summary: Mapping[str, Any] | None
    phases: Mapping[str, PhaseResult]
    metrics: Sequence[Mapping[str, float]]

    @classmethod
    def read(cls, path: Path) -> RunData:
        """Read a run's folder.

        Raises:
            UsageError: It holds no run, or no episode yet.
        """
        folder, settings = RunFolder.existing(path)
        return cls(
            path=path,
            settings=settings,
            versions=read_json(folder.versions) if folder.versions.exists() else {},
            summary=read_json(folder.summary) if folder.summary.exists() else None,
            phases=read_phases(path),
            metrics=read_lines(folder.metrics),
        )


def run_page(path: Path, taught: TaughtStep | None = None) -> str:
    """Return the page of the run in a folder.

    Args:
        path: The run's folder.
        taught: Episodes whose tokens are coloured by what the teacher thinks of them.

    Raises:
        UsageError: The folder holds no run, or no episode yet.
    """
    run = RunData.read(path)
    final, base = final_phase(run.phases), run.phases.get("base-sampled")
    try:
        bank, bank_trouble = bank_use(path), ""
    except LopdGymError as err:
        bank, bank_trouble = None, str(err)
    episodes = _views(path, run.phases)
    return page(
        "run.html",
        title=f"{run.settings.learner['name']} in {_environment(run)}",
        run=run,
        environment=_environment(run),
        headline=headline(run),
        results=_results(run.phases),
        curve=_curve(run),
        metrics=_metric_charts(run.metrics),
        tasks=_task_map(run.phases),
        checks=_checks(base, final),
        groups=_groups(base, final),
        final=final,
        base=base,
        bank=bank,
        bank_trouble=bank_trouble,
        taught=taught,
        episodes=episodes,
        tags=list(dict.fromkeys(tag for view in episodes for tag in view.tags)),
        total=sum(len(phase.episodes) for phase in run.phases.values()),
    )


def headline(run: RunData) -> str:
    """Say in a sentence what the run came to."""
    if run.summary is None:
        return f"Not finished: {len(run.metrics)} training steps are done."
    gain = Interval(**run.summary["gain"]["sampled"])
    ends = {
        row["policy"]: row["success"]["mean"]
        for row in run.summary["rows"]
        if row["mode"] == "sampled"
    }
    if gain.low <= 0 <= gain.high:
        verdict = "No difference shown"
    else:
        verdict = "Success rose" if gain.mean > 0 else "Success fell"
    return (
        f"{verdict}: {ends['base']:.2f} before training, {ends['student']:.2f} after it, on "
        f"held-out tasks (sampled; paired difference {gain:+.2f})."
    )


def _environment(run: RunData) -> str:
    return str(run.summary["env"] if run.summary else run.settings.env["name"])


def _results(phases: Mapping[str, PhaseResult]) -> list[tuple[str, str, PhaseResult, Markup]]:
    """Return (policy, mode, its episodes, their success as a bar) of all evaluations."""
    found = []
    for policy, colour in (("nothing", 7), ("base", 1), ("student", 0), ("oracle", 2)):
        for name, mode in ((policy, ""), *((f"{policy}-{m}", m) for m in _MODES)):
            if name in phases and phases[name].success is not None:
                bar = interval_bar(phases[name].success or Interval(0, 0, 0), (0, 1), colour)
                found.append((policy, mode, phases[name], bar))
    return found


def _curve(run: RunData) -> Markup:
    """Draw held-out success over rollouts, with the 95 % interval of each evaluation."""
    rollouts = {int(row["step"]): row["rollouts"] for row in run.metrics}
    end = max(rollouts.values(), default=0)
    series = []
    for colour, mode in enumerate(_MODES):
        points: list[tuple[float, Interval]] = []
        for name, phase in run.phases.items():
            kind, _, rest = name.partition("-")
            success = phase.success
            if not rest.endswith(mode) or success is None:
                continue
            if kind == "step":
                points.append((rollouts.get(int(rest.split("-")[0]), 0), success))
            elif kind in ("base", "student"):
                points.append((0 if kind == "base" else end, success))
        line = [(x, success.mean) for x, success in points]
        band = [(success.low, success.high) for _, success in points]
        series.append(Series(f"student, {mode}", line, colour, mode == "greedy", band))
    bank = len(run.phases["bank"].episodes) if "bank" in run.phases else 0
    return line_chart(
        [line for line in series if line.points],
        title="held-out success over rollouts",
        x_label="rollouts",
        y_label="held-out success",
        y_range=(0, 1),
        shaded=(0, bank) if bank else None,
    )


def _metric_charts(
    rows: Sequence[Mapping[str, float]],
) -> tuple[list[tuple[str, Markup]], list[tuple[str, float]]]:
    """Draw every number of the training steps over rollouts; those that never change are listed."""
    charts, constants = [], []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [(row["rollouts"], row[name]) for row in rows if name in row]
        if name in ("step", "rollouts"):
            continue
        if len({value for _, value in values}) == 1:
            constants.append((name, values[0][1]))
        elif chart := line_chart([Series(name, values)], title=f"{name} over rollouts", small=True):
            charts.append((name, chart))
    return charts, constants


def _task_map(phases: Mapping[str, PhaseResult]) -> tuple[Markup, int]:
    """Draw which tasks each sampled evaluation solved, those solved most often first."""
    shown = [p for name, p in phases.items() if name.endswith("-sampled")]
    solved = {
        p.name: {e.task_id: None if e.score is None else e.success for e in p.episodes}
        for p in shown
    }
    tasks = list(dict.fromkeys(task for found in solved.values() for task in found))
    shared = [t for t in tasks if all(t in found for found in solved.values())][:_MAP_TASKS]
    if len(shown) < 2 or not shared:
        return Markup(), 0
    shared.sort(key=lambda task: -sum(bool(found[task]) for found in solved.values()))
    rows = [TaskRow(_short(p.name), [solved[p.name][t] for t in shared]) for p in shown]
    return task_map(rows, "which tasks each evaluation solved"), len(shared)


def _short(phase: str) -> str:
    """Return ``step 7`` for ``step-000007-sampled``."""
    kind, _, number = phase.removesuffix("-sampled").partition("-")
    return f"{kind} {int(number)}" if number.isdigit() else kind


def _checks(
    base: PhaseResult | None, final: PhaseResult
) -> tuple[list[tuple[str, float, float]], int]:
    """Return (kind, share of the base's episodes, of the final ones) of what failed most often.

    The second value counts the kinds that are left out.
    """
    before = base.failing_checks if base else final.failing_checks
    after = final.failing_checks
    kinds = sorted(before.keys() | after.keys(), key=lambda k: (-before[k] - after[k], k))
    sizes = max(1, len((base or final).played)), max(1, len(final.played))
    rows = [(k, before[k] / sizes[0], after[k] / sizes[1]) for k in kinds[:_CHECKS]]
    return rows, max(0, len(kinds) - _CHECKS)


def _groups(
    base: PhaseResult | None, final: PhaseResult
) -> tuple[list[tuple[str, int, float | None, float]], int]:
    """Return (group, tasks, success of the base, of the final policy), and how many are not."""

    def rates(phase: PhaseResult) -> dict[str, tuple[int, float]]:
        ordered = sorted(phase.played, key=lambda e: e.group)
        groups = ((g, [e.success for e in es]) for g, es in groupby(ordered, lambda e: e.group))
        return {group: (len(won), sum(won) / len(won)) for group, won in groups}

    before, after = rates(base) if base else {}, rates(final)
    rows = [
        (group, count, before[group][1] if group in before else None, rate)
        for group, (count, rate) in after.items()
    ]
    return rows[:_GROUPS], max(0, len(rows) - _GROUPS)


def _views(path: Path, phases: Mapping[str, PhaseResult]) -> list[EpisodeView]:
    """Read the chosen episodes, going through each phase's file once."""
    chosen = choose(phases)
    found = {
        phase: read_chosen(path, phase, [c.number for c in chosen if c.phase == phase])
        for phase in {c.phase for c in chosen}
    }
    return [episode_view(found[c.phase][c.number], c.phase, c.number, c.tags) for c in chosen]

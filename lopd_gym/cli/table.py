"""Tables of results on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from lopd_gym.run.summary import SCRIPTED, Row, Summary
from lopd_gym.stats import Interval


def print_summary(summary: Summary, console: Console) -> None:
    """Print the final table of a run, then what it cost and where the student is."""
    title = f"{summary.env}, split {summary.split} (data {summary.data_hash[:12] or 'unhashed'})"
    print_rows(list(summary.rows), title, console)
    for mode, gain in summary.gain.items():
        verdict = "" if gain.low > 0 or gain.high < 0 else "  (no difference shown)"
        console.print(f"student - base, {mode}, paired over tasks: {signed(gain)}{verdict}")
    spent = summary.rollouts
    console.print(
        f"rollouts: {spent['total']} ({spent['bank']} for the bank, {spent['training']} training)"
    )
    minutes = ", ".join(f"{phase} {m:.1f}" for phase, m in summary.minutes.items())
    console.print(f"minutes: {sum(summary.minutes.values()):.1f} in all ({minutes})")
    console.print(f"peak memory: {summary.peak_memory_mib:.0f} MiB")
    if summary.isolation:
        console.print(f"isolation of code that is not ours: {summary.isolation}")
    console.print(f"student: {summary.student}")


def print_rows(rows: list[Row], title: str, console: Console) -> None:
    """Print one line for each policy and mode, with 95 % intervals."""
    table = Table(title=title, title_justify="left")
    table.add_column("policy", overflow="fold")
    for column in ("success", "score", "tasks", "failed"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        success, score = interval(row.success), f"{row.score.mean:.3f}"
        name = row.policy if row.mode == SCRIPTED else f"{row.policy}, {row.mode}"
        table.add_row(name, success, score, str(row.tasks), str(row.failed))
    console.print(table)


def print_figures(figures: Mapping[str, Mapping[str, float]], title: str, console: Console) -> None:
    """Print an environment's own figures, where it has any: one line for each row."""
    if not figures:
        return
    columns = list(dict.fromkeys(name for values in figures.values() for name in values))
    table = Table("", *columns, title=title, title_justify="left")
    for name, values in figures.items():
        table.add_row(name, *(_figure(values.get(column)) for column in columns))
    console.print(table)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def interval(value: Interval) -> str:
    """Format an interval as ``0.52 [0.46, 0.58]``."""
    return f"{value:.2f}"


def signed(value: Interval) -> str:
    """Format a difference as ``+0.32 [+0.25, +0.39]``."""
    return f"{value:+.2f}"

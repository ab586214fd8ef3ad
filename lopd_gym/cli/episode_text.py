"""Phases and episodes on the terminal; nothing in them is read as markup or control codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lopd_gym.cli.table import interval
from lopd_gym.episode import Episode
from lopd_gym.report.phases import PhaseResult
from lopd_gym.report.text import call_text, visible
from lopd_gym.stats import Interval
from lopd_gym.tasks import Outcome

_STYLES = {"system": "dim", "user": "bold cyan", "assistant": "bold green", "tool": "yellow"}
_CHECKS_SHOWN = 10


def print_phases(phases: Mapping[str, PhaseResult], chosen: PhaseResult, console: Console) -> None:
    """Print a line for each phase, then what failed most often in the chosen one."""
    table = Table(title="episodes by phase", title_justify="left")
    table.add_column("phase", no_wrap=True)
    for column in ("episodes", "success", "score", "turns", "calls"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("endings")
    for phase in phases.values():
        table.add_row(
            Text(phase.name),
            str(len(phase.episodes)),
            _rate(phase.success),
            _rate(phase.score),
            f"{phase.means['turns']:.1f}",
            f"{phase.means['calls']:.1f}",
            ", ".join(f"{ending} {n}" for ending, n in phase.endings.most_common()),
        )
    console.print(table)
    checks = chosen.failing_checks
    if not checks:
        console.print(f"{chosen.name}: no check failed", markup=False)
        return
    title = Text(f"{chosen.name}: checks that failed most often")
    failing = Table(title=title, title_justify="left")
    failing.add_column("episodes", justify="right")
    failing.add_column("check (names with digits as #)")
    for kind, count in checks.most_common(_CHECKS_SHOWN):
        failing.add_row(f"{count} of {len(chosen.played)}", Text(visible(kind)))
    console.print(failing)
    if len(checks) > _CHECKS_SHOWN:
        console.print(f"and {len(checks) - _CHECKS_SHOWN} other kinds of check")


def print_episode(episode: Episode, phase: str, number: int, console: Console) -> None:
    """Print one episode turn by turn, then its checks."""
    head = f"{phase}, episode {number}: {episode.task_id} (seed {episode.seed})"
    console.print(Text(visible(head), style="bold"))
    for message in episode.transcript:
        print_message(message, console)
    counts = f"{episode.turns} turns, {len(episode.actions)} calls"
    print_outcome(episode.outcome, counts, console)


def print_outcome(outcome: Outcome, counts: str, console: Console) -> None:
    """Print how an episode ended, then its checks."""
    score = "no score" if outcome.score is None else f"score {outcome.score:.3f}"
    word = "failed (infrastructure)" if outcome.failed else "success" if outcome.success else "miss"
    style = "bold green" if outcome.success else "bold red"
    ending = f"{word}: {score}, ended by {outcome.termination.value}"
    console.print(Text(f"{ending}, {counts}", style))
    for check in outcome.checks:
        mark, colour = ("✓", "green") if check.passed else ("✗", "red")
        error = f" ({check.error})" if check.error else ""
        console.print(Text.assemble((f"  {mark} ", colour), visible(check.name + error)))
    if outcome.error:
        console.print(Text(visible(outcome.error), style="red"))


def print_message(message: Mapping[str, Any], console: Console) -> None:
    """Print one message of a transcript."""
    role = str(message["role"])
    console.print(Text(role, style=_STYLES.get(role, "bold")))
    body = Text()
    if message.get("reasoning"):
        body.append(visible(message["reasoning"]) + "\n", style="dim italic")
    if message.get("content"):
        body.append(visible(message["content"]) + "\n")
    for call in message.get("tool_calls", ()):
        body.append("→ " + visible(call_text(call)) + "\n", style="magenta")
    if message.get("parse_error"):
        body.append("unreadable: " + visible(message["parse_error"]) + "\n", style="red")
    body.rstrip()
    console.print(Padding(body, (0, 0, 0, 2), expand=False))


def _rate(value: Interval | None) -> str:
    return "-" if value is None else interval(value)

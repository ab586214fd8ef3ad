"""``lopd-gym sandbox``: which isolation works here, making what it needs, clearing leftovers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lopd_gym.run.progress import Phase
    from lopd_gym.sandbox import Sandbox

app = typer.Typer(help="Check, prepare and clear sandboxes.", no_args_is_help=True)

Name = Annotated[
    str | None, typer.Argument(help="One sandbox only; default: all.", show_default=False)
]

_TIMED = 20


@app.command("doctor")
def doctor_command(name: Name = None) -> None:
    """Say what works here, attack it, measure it, and name the fix for what is missing."""
    from rich.table import Table

    from lopd_gym.cli.console import console as make_console
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.containment import ATTACKS
    from lopd_gym.isolation import strongest
    from lopd_gym.sandbox import Isolation

    console = make_console()
    reporter = ConsoleReporter(console)
    table = Table("sandbox", "isolation", "attacks contained", "first", "warm p50", "detail")
    held = True
    for known, kind in _backends(name):
        probe = kind.probe()
        if probe.isolation is None:
            table.add_row(known, "not available", "", "", "", probe.detail)
            continue
        started = time.perf_counter()
        sandbox = kind()
        first_ms, warm_ms = _latency_ms(sandbox, started)
        attacks = "not tried"
        faults: list[str] = []
        if probe.isolation > Isolation.NONE:
            with reporter.phase(f"attacking {known}", len(ATTACKS)) as phase:
                attacks, faults = _attack(sandbox, phase)
            held &= not faults
        times = f"{first_ms:.0f} ms", f"{warm_ms:.0f} ms"
        detail = "; ".join(faults) or probe.detail
        table.add_row(known, probe.isolation.label, attacks, *times, detail)
    console.print(table)
    if not held:
        raise typer.Exit(1)
    if name is None:
        console.print(f"chosen where none is named: {strongest()}")


@app.command("build")
def build_command(name: Name = None) -> None:
    """Make what sandboxes run on: a root or an image with this Python."""
    for known, made in _ask(name, "build"):
        typer.echo(f"{known}: {made}")


@app.command("clean")
def clean_command(name: Name = None) -> None:
    """Remove what killed processes left behind; nothing that is in use."""
    for known, removed in _ask(name, "clean"):
        typer.echo(f"{known}: removed {', '.join(removed) or 'nothing'}")


def _backends(name: str | None) -> list[tuple[str, Any]]:
    from lopd_gym.registry import SANDBOXES, load, names

    return [(known, load(SANDBOXES, known)) for known in ([name] if name else names(SANDBOXES))]


def _ask(name: str | None, what: str) -> Iterator[tuple[str, Any]]:
    """Call a class method of each backend that has it; one that is not there only says so."""
    from lopd_gym.errors import InfrastructureError

    for known, kind in _backends(name):
        if not hasattr(kind, what):
            continue
        try:
            answer = getattr(kind, what)()
        except InfrastructureError as err:
            if name is not None:
                raise
            typer.echo(f"{known}: not available. {err}")
        else:
            yield known, answer


def _latency_ms(sandbox: Sandbox, started: float) -> tuple[float, float]:
    """Return how long after ``started`` the first program ended, and the median of later ones."""
    from statistics import median

    from lopd_gym.sandbox import PYTHON

    def run_ms(since: float) -> float:
        lease.run({}, [PYTHON, "-I", "-c", "print(1)"])
        return 1e3 * (time.perf_counter() - since)

    with sandbox.lease() as lease:
        first_ms = run_ms(started)
        return first_ms, median(run_ms(time.perf_counter()) for _ in range(_TIMED))


def _attack(sandbox: Sandbox, phase: Phase) -> tuple[str, list[str]]:
    """Return how many attacks were contained, and what was not; no attack where a wall is down."""
    from lopd_gym.containment import ATTACKS, broken_walls, survives

    broken = broken_walls(sandbox)
    if broken:
        return "not tried", broken
    lost = []
    for attack in ATTACKS:
        if not survives(sandbox, attack):
            lost.append(attack.name)
        phase.advance(note=attack.name)
    return f"{len(ATTACKS) - len(lost)} of {len(ATTACKS)}", lost

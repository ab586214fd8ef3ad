"""``lopd-gym envs check``: is an environment solvable, is doing nothing no solution?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import DataOption, SetOption, env_section
from lopd_gym.errors import LopdGymError, UsageError

if TYPE_CHECKING:
    from lopd_gym.check import SplitCheck


def check_command(
    name: Annotated[str, typer.Argument(help="Environment.")],
    data: DataOption = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Only this split; default: all.")
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, help="How many first tasks of each split.")
    ] = 20,
    changes: SetOption = None,
) -> None:
    """Check that known solutions succeed, that doing nothing fails, and Gymnasium's contract."""
    from lopd_gym.cli.progress import ConsoleReporter

    section = changed_section(name, data, changes)
    console = make_console()
    label, checks, skipped = _play(section, split, tasks, ConsoleReporter(console))
    _print(label, checks, console)
    for sentence in skipped:
        console.print(sentence, markup=False)
    if not any(check.known for check in checks):
        console.print(f"{label} knows no solutions: nothing shows that its tasks can be solved.")
    faults = [check.fault for check in checks if check.fault]
    if faults:
        raise LopdGymError(faults[0])


def changed_section(name: str, data: Any, changes: list[str] | None) -> dict[str, Any]:
    """Return an environment's section of the settings with what ``--set env.x=y`` changes."""
    from lopd_gym.run.settings import apply_overrides

    values: dict[str, Any] = {"env": env_section(name, data)}
    apply_overrides(values, changes or [])
    if values.keys() != {"env"}:
        raise UsageError("Expected --set env.NAME=VALUE: only the environment can be changed here.")
    section: dict[str, Any] = values["env"]
    return section


def _play(
    section: Mapping[str, Any], split: str | None, count: int, reporter: Any
) -> tuple[str, list[SplitCheck], list[str]]:
    """Return the label, what came of each split, and why some could not be opened."""
    from lopd_gym.check import check_contract, check_split
    from lopd_gym.run.build import checked_env, env_maker
    from lopd_gym.tasks import TRAIN_SPLIT

    env = checked_env(section, split or TRAIN_SPLIT)
    fault = check_contract(env, env.tasks(env.split)[0])
    if fault is not None:
        raise LopdGymError(fault)
    checks, skipped = [], []
    splits = (split,) if split else env.splits()
    with reporter.phase("play the splits", len(splits)) as phase:
        for each in splits:
            try:
                first = checked_env(section, each).tasks(each)[:count]
            except UsageError as err:
                skipped.append(f"split {each} was not played: {err}")
            else:
                checks.append(check_split(env_maker(section, each), first))
            phase.advance(note=each)
    return env.label, checks, skipped


def _print(label: str, checks: Sequence[SplitCheck], console: Console) -> None:
    table = Table(title=label, title_justify="left")
    table.add_column("split", overflow="fold")
    columns = ("tasks", "solutions pass", "doing nothing passes", "where it is right", "impossible")
    for column in columns:
        table.add_column(column, justify="right")
    for check in checks:
        solved = f"{len(check.solved)} of {len(check.known)}" if check.known else "none known"
        table.add_row(
            check.split,
            str(len(check.tasks)),
            solved,
            str(len(check.idle)),
            str(len(check.for_nothing)),
            str(len(check.impossible)),
        )
    console.print(table)

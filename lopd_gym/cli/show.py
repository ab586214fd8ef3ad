"""``lopd-gym show``: a run or a comparison in the terminal, and its episodes turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopd_gym.cli.console import console as make_console
from lopd_gym.errors import UsageError


def show_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or a comparison.", metavar="RUN")],
    phase: Annotated[
        str | None, typer.Option("--phase", help="Whose episodes (default: student-sampled).")
    ] = None,
    episode: Annotated[
        int | None, typer.Option("--episode", min=0, help="Show this episode turn by turn.")
    ] = None,
    worst: Annotated[bool, typer.Option("--worst", help="Show the lowest-scored episode.")] = False,
) -> None:
    """Show how a run went, or one of its episodes."""
    from lopd_gym.cli.compare_table import print_comparison
    from lopd_gym.cli.episode_text import print_episode, print_phases
    from lopd_gym.compare.result import read_comparison
    from lopd_gym.report.phases import main_phase, read_chosen, read_phases
    from lopd_gym.run.folder import RunFolder

    if worst and episode is not None:
        raise UsageError("--worst chooses the episode itself: leave --episode out.")
    console = make_console()
    if (folder / "comparison.json").exists():
        if worst or phase is not None or episode is not None:
            raise UsageError(f"{folder} is a comparison: name one of the runs in it instead.")
        print_comparison(read_comparison(folder / "comparison.json"), console)
        return
    _, settings = RunFolder.existing(folder)
    phases = read_phases(folder)
    chosen = main_phase(phases, phase)
    if worst:
        episode = chosen.worst().number
    if episode is None:
        console.print(f"{folder}: {settings.label}, seed {settings.seed}", markup=False)
        print_phases(phases, chosen, console)
        console.print(f"one episode: lopd-gym show {folder} --worst, or --episode N", markup=False)
    else:
        found = read_chosen(folder, chosen.name, [episode])[episode]
        print_episode(found, chosen.name, episode, console)

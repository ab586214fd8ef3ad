"""``lopd-gym envs new``: a package with an environment that works, to be changed into one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopd_gym.cli.console import console as make_console


def new_command(
    name: Annotated[str, typer.Argument(help="Its name, such as travel-desk.")],
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder of the package; default: ./NAME.")
    ] = None,
) -> None:
    """Write a package with a small working environment, its tests and its registration."""
    from lopd_gym.scaffold import NewEnvironment, write_package

    folder = to or Path(name)
    files = write_package(NewEnvironment(name), folder)
    console = make_console()
    for file in files:
        console.print(str(folder / file), markup=False, soft_wrap=True)
    console.print("\nWhat to do next:", markup=False)
    for command in (
        f"pip install --editable {folder}",
        f"lopd-gym envs check {name}",
        f"lopd-gym envs play {name}",
        f"lopd-gym run --env {name} --learner lopd",
    ):
        console.print(f"  {command}", markup=False, soft_wrap=True)

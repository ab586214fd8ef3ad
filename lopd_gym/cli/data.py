"""``lopd-gym data``: which benchmark data there is, fetching it, checking it."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="List, fetch and verify benchmark data.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Data set.", show_default=False)]


@app.command("list")
def list_command() -> None:
    """List the registered data sets and where their files lie."""
    from rich.console import Console
    from rich.table import Table

    from lopd_gym.data import find
    from lopd_gym.registry import DATASETS, names

    table = Table("data set", "what it is", "licence", "here", "folder")
    for name in names(DATASETS):
        data = find(name)
        here = "by hand" if data.by_hand else "yes" if data.present else "no"
        table.add_row(
            name, data.summary, data.license, here, "" if data.by_hand else str(data.folder)
        )
    Console().print(table)


@app.command("pull")
def pull_command(name: Name) -> None:
    """Fetch a data set, in the pinned version, and verify it."""
    from lopd_gym.data import find

    data = find(name)
    folder = data.pull(lambda file: typer.echo(f"fetching {file.filename} of {file.origin}"))
    typer.echo(f"{name} is complete and verified in {folder}")


@app.command("verify")
def verify_command(name: Name) -> None:
    """Hash the files of a data set again and compare them with the pinned hashes."""
    from lopd_gym.data import find

    data = find(name)
    data.verify()
    typer.echo(f"{name}: all {len(data.files)} files in {data.folder} are as pinned")

"""``lopd-gym learners``: which learners there are, and what one needs and can be told."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from lopd_gym.cli.console import console as make_console

app = typer.Typer(help="List and show learners.", no_args_is_help=True)


@app.command("list")
def list_command() -> None:
    """List the registered learners."""
    from lopd_gym.registry import LEARNERS, load, names

    table = Table("learner", "what it is", "paper")
    for name in names(LEARNERS):
        learner = load(LEARNERS, name)
        table.add_row(name, learner.summary, learner.paper)
    make_console().print(table)


@app.command("show")
def show_command(name: Annotated[str, typer.Argument(help="Learner.")]) -> None:
    """Show a learner's options with the values of its presets."""
    from lopd_gym.registry import LEARNERS, load

    learner = load(LEARNERS, name)
    console = make_console()
    console.print(f"[bold]{name}[/bold]: {learner.summary}\n{learner.paper}")
    table = Table("option", *learner.presets)
    configs = [learner.config_type(**changes) for changes in learner.presets.values()]
    for option in learner.config_type.model_fields:
        table.add_row(option, *(str(getattr(config, option)) for config in configs))
    console.print(table)
    console.print("Change one with: lopd-gym run ... --set learner.OPTION=VALUE")

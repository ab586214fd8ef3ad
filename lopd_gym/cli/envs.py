"""``lopd-gym envs``: see which environments there are and what they are like, write one, play."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.envs_check import check_command
from lopd_gym.cli.envs_new import new_command
from lopd_gym.cli.envs_play import play_command
from lopd_gym.cli.options import DataOption, env_section

app = typer.Typer(help="List, show, check, write and play environments.", no_args_is_help=True)
app.command("check")(check_command)
app.command("new")(new_command)
app.command("play")(play_command)


@app.command("list")
def list_command() -> None:
    """List the registered environments."""
    from lopd_gym.registry import ENVS, load, names

    table = Table("environment", "what it is")
    for name in names(ENVS):
        summary = (load(ENVS, name).__doc__ or "").strip().split("\n")[0]
        table.add_row(name, summary)
    make_console().print(table)


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Environment.")],
    data: DataOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Split of the example.")] = None,
) -> None:
    """Show an environment's splits, and one task with its tools as the policy sees them."""
    from lopd_gym.run.build import checked_env
    from lopd_gym.tasks import TRAIN_SPLIT

    console = make_console()
    split = split or TRAIN_SPLIT
    env = checked_env(env_section(name, data), split)
    console.print(f"[bold]{env.label}[/bold]  data {env.data_hash()[:12] or 'unhashed'}")
    for known in env.splits():
        console.print(f"split {known}: {len(env.tasks(known))} tasks")
    task = env.tasks(split)[0]
    _, info = env.reset(seed=0, options={"task": task.id})
    console.print(f"\n[bold]Example: {task.id}[/bold]")
    for message in task.messages:
        console.print(f"{message.role}: {message.content}", markup=False)
    console.print("\n[bold]Tools[/bold]")
    for spec in info["tools"]:
        parameters = ", ".join(spec.parameters.get("properties", {}))
        first_line = spec.description.split("\n")[0]
        console.print(f"{spec.name}({parameters}): {first_line}", markup=False)
    console.print("\n[bold]Rules[/bold]")
    for field, value in env.rules.model_dump().items():
        console.print(f"{field} = {value}")
    env.close()

"""``lopd-gym learners``: which learners there are, and what one needs and can be told."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lopd_gym.cli.console import console as make_console

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lopd_gym.learner import Learner, Needs

app = typer.Typer(help="List and show learners.", no_args_is_help=True)


@app.command("list")
def list_command() -> None:
    """List the registered learners."""
    from lopd_gym.registry import LEARNERS, load, names

    table = Table("learner", "what it is", "what it needs", "paper")
    for name in names(LEARNERS):
        learner = load(LEARNERS, name)
        needs = in_words(learner.needs(_first_config(learner)))
        table.add_row(*map(Text, (name, learner.summary, needs, learner.paper)))
    make_console().print(table)


@app.command("show")
def show_command(name: Annotated[str, typer.Argument(help="Learner.")]) -> None:
    """Show what a learner needs, and its options with their values in its presets."""
    from lopd_gym.registry import LEARNERS, load

    learner = load(LEARNERS, name)
    console = make_console()
    console.print(Text(name, "bold") + Text(f": {learner.summary}\n{learner.paper}"))
    console.print(Text(f"needs: {in_words(learner.needs(_first_config(learner)))}"))
    console.print(_options(learner))
    console.print(
        "Change one with: lopd-gym run ... --set learner.OPTION=VALUE", markup=False, soft_wrap=True
    )


def in_words(needs: Needs) -> str:
    """Say what a learner asks of a run."""
    count = needs.episodes_per_task
    words = ["1 episode of a task" if count == 1 else f"{count} episodes of a task in each step"]
    if needs.bank:
        words.append(f"a bank of the base's own successes, from {needs.bank_rollouts} rollouts")
    if needs.growing_bank:
        words.append("successes of training enter the bank too")
    if needs.solved_tasks:
        words.append("trains only on tasks that the bank solves")
    return "; ".join(words)


def meanings(config_type: type[BaseModel]) -> dict[str, str]:
    """Return what each option means, from the docstrings of a config and those it builds on."""
    import docstring_parser

    found: dict[str, str] = {}
    for kind in reversed(config_type.__mro__):
        doc = docstring_parser.parse(inspect.cleandoc(kind.__doc__ or ""))
        for option in doc.params:
            text = " ".join((option.description or "").replace("``", "").split())
            found[option.arg_name] = re.sub(r"\bNone\b", "null", text)  # as --set takes it
    return {name: found.get(name, "") for name in config_type.model_fields}


def _options(learner: type[Learner]) -> Table:
    """A row for each option: its value in the first preset, and in others where it differs."""
    configs = {n: learner.config_type(**changes) for n, changes in learner.presets.items()}
    first, *others = configs
    table = Table("option", f"value ({first})", "what it means")
    for option, meaning in meanings(learner.config_type).items():
        value = getattr(configs[first], option)
        lines = [_shown(value)]
        for preset in others:
            other = getattr(configs[preset], option)
            if other != value:
                lines.append(f"{preset}: {_shown(other)}")
        table.add_row(Text(option), Text("\n".join(lines)), Text(meaning))
    return table


def _shown(value: Any) -> str:
    """Write a value as ``--set`` takes it: as JSON, text without quotes where it is plain."""
    plain = isinstance(value, str) and value.isprintable()
    return value if plain else json.dumps(value, ensure_ascii=False)


def _first_config(learner: type[Learner]) -> Any:
    return learner.config_type(**next(iter(learner.presets.values()), {}))

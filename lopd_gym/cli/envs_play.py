"""``lopd-gym envs play``: a person plays an episode in the place of the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.envs_check import changed_section
from lopd_gym.cli.options import DataOption, SetOption

if TYPE_CHECKING:
    from lopd_gym.messages import AssistantMessage, Observation, ToolSpec

_HELP = """A line that begins with a tool's name calls it: set_temperature {"room": "study"}.
The name alone asks for its arguments one by one. Any other line is sent as text.
? shows the tools, Ctrl-D leaves."""


def play_command(
    name: Annotated[str, typer.Argument(help="Environment.")],
    data: DataOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Split of the task.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Its id; default: any.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the episode.")] = None,
    changes: SetOption = None,
) -> None:
    """Play an episode yourself, in the place of the model."""
    from lopd_gym.cli.episode_text import print_outcome
    from lopd_gym.run.build import checked_env
    from lopd_gym.tasks import TRAIN_SPLIT

    env = checked_env(changed_section(name, data, changes), split or TRAIN_SPLIT)
    console = make_console()
    try:
        messages, info = env.reset(seed=seed, options={"task": task} if task else None)
        tools: Sequence[ToolSpec] = info["tools"]
        console.print(f"{env.label}: {info['task'].id}", style="bold", markup=False)
        _print_messages(messages, console)
        _print_tools(tools, console)
        console.print(_HELP, style="dim", markup=False)
        turns = 0
        while env.outcome is None:
            reply = _ask(tools, console)
            if reply is None:
                console.print("\nYou left: nothing was scored.")
                return
            messages, *_ = env.step(reply)
            turns += 1
            _print_messages(messages, console)
        print_outcome(env.outcome, f"{turns} turns", console)
    finally:
        env.close()


def _ask(tools: Sequence[ToolSpec], console: Console) -> AssistantMessage | None:
    """Return the person's next turn; None where the input has ended."""
    from lopd_gym.messages import AssistantMessage, ToolCall

    by_name = {spec.name: spec for spec in tools}
    try:
        while True:
            line = console.input("> ", markup=False).strip()
            name, _, rest = line.partition(" ")
            rest = rest.strip()
            if line == "?":
                _print_tools(tools, console)
            elif name in by_name and (not rest or rest.startswith("{")):
                arguments = _read(rest, console) if rest else _ask_each(by_name[name], console)
                if arguments is not None:
                    return AssistantMessage(tool_calls=(ToolCall(name, arguments),))
            elif line:
                return AssistantMessage(text=line)
    except EOFError:
        return None


def _read(text: str, console: Console) -> dict[str, Any] | None:
    try:
        arguments: dict[str, Any] = json.loads(text)
    except ValueError as err:
        console.print(f"These arguments are no JSON: {err}.", style="red", markup=False)
        return None
    return arguments


def _ask_each(spec: ToolSpec, console: Console) -> dict[str, Any]:
    """Ask for every parameter; an empty line leaves it out."""
    arguments: dict[str, Any] = {}
    for name, schema in spec.parameters.get("properties", {}).items():
        needed = "" if name in spec.parameters.get("required", ()) else ", may be left out"
        line = console.input(f"  {name} ({_kind(schema)}{needed}): ", markup=False).strip()
        if line:
            arguments[name] = _value(line, schema)
    return arguments


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(choice) for choice in schema["enum"])
    return str(schema.get("type", "any"))


def _value(line: str, schema: dict[str, Any]) -> Any:
    """Read a line as JSON, unless a text is wanted; what is no JSON stays text."""
    if schema.get("type") == "string":
        return line
    try:
        return json.loads(line)
    except ValueError:
        return line


def _print_messages(messages: Observation, console: Console) -> None:
    from lopd_gym.cli.episode_text import print_message

    for message in messages:
        print_message({"role": message.role, "content": message.content}, console)


def _print_tools(tools: Sequence[ToolSpec], console: Console) -> None:
    console.print("tools", style="bold")
    for spec in tools:
        parameters = ", ".join(spec.parameters.get("properties", {}))
        summary = spec.description.split("\n")[0]
        console.print(f"  {spec.name}({parameters}): {summary}", markup=False)

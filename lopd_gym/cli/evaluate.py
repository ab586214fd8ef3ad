"""``lopd-gym eval``: play a split with a model, a script, or both sides of an exported student."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import (
    DataOption,
    EnvOption,
    FormatOption,
    SetOption,
    UrlOption,
    env_section,
    play_settings,
)
from lopd_gym.errors import UsageError

if TYPE_CHECKING:
    from lopd_gym.run.settings import RunSettings

SCRIPTS = ("nothing", "random", "oracle")


def evaluate_command(
    env: EnvOption,
    model: Annotated[
        str,
        typer.Option(
            "--model", help="tiny (shipped), a folder, a .gguf file, a hub id or openai:NAME."
        ),
    ] = "tiny",
    base_url: UrlOption = None,
    data: DataOption = None,
    split: Annotated[str, typer.Option("--split", help="Split to play.")] = "test",
    tasks: Annotated[int, typer.Option("--tasks", help="How many of its first tasks.")] = 256,
    script: Annotated[
        str | None, typer.Option("--script", help="Play nothing, random or oracle, no model.")
    ] = None,
    greedy: Annotated[bool, typer.Option(help="Also play greedily.")] = True,
    chat_format: FormatOption = None,
    changes: SetOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep the episodes in this folder.")
    ] = None,
) -> None:
    """Evaluate a model on a split: success and mean score with 95 % intervals."""
    import tempfile

    settings = play_settings(
        env_section(env, data),
        model,
        chat_format,
        changes,
        base_url,
        evaluation={"split": split, "tasks": tasks, "greedy": greedy},
    )
    if out is not None:
        _keep_settings(out, {**settings.model_dump(mode="json"), "script": script})
    with tempfile.TemporaryDirectory() as temporary:
        _evaluate(settings, script, out or Path(temporary), make_console())


def _keep_settings(folder: Path, asked: dict[str, Any]) -> None:
    """Write what is played beside the episodes; refuse a folder that holds something else."""
    from lopd_gym.run.folder import read_json, write_json
    from lopd_gym.run.settings import differences

    path = folder / "evaluation.json"
    if path.exists():
        different = differences(asked, read_json(path))
        if different:
            raise UsageError(
                f"{folder} holds another evaluation ({', '.join(different[:5])} differ): name "
                "another folder with --out."
            )
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, asked)
    except OSError as err:
        raise UsageError(f"Cannot write the folder {folder}: {err.strerror}.") from err


def _evaluate(settings: RunSettings, script: str | None, folder: Path, console: Console) -> None:
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.cli.table import print_figures, print_rows
    from lopd_gym.episode import GREEDY
    from lopd_gym.run.build import checked_env, player
    from lopd_gym.run.evaluation import evaluate, evaluation_modes, evaluation_tasks
    from lopd_gym.run.summary import SCRIPTED, row

    env = checked_env(settings.env, settings.evaluation.split)
    ids = evaluation_tasks(env, settings.evaluation.split, settings.evaluation.tasks)
    reporter = ConsoleReporter(console)
    rows, played_by = [], {}
    if script is not None:
        policy = _scripted(script, env)
        path = folder / f"{script}.jsonl"
        played = evaluate(script, policy, GREEDY, ids, settings, path, reporter)
        rows.append(row(script, SCRIPTED, played))
        played_by[script] = played
    else:
        make_policy = player(settings)
        for mode, sampling in evaluation_modes(settings).items():
            model = make_policy(sampling)
            path = folder / f"{mode}.jsonl"
            played = evaluate(mode, model, sampling, ids, settings, path, reporter)
            rows.append(row(settings.model.source, mode, played))
            played_by[mode] = played
    title = f"{env.label}, split {settings.evaluation.split} (data {env.data_hash()[:12]})"
    if env.isolation:
        title += f", isolation {env.isolation}"
    print_rows(rows, title, console)
    for name, played in played_by.items():
        print_figures(env.figures(played.episodes), f"{env.label}, {name}", console)


def _scripted(name: str, env: Any) -> Any:
    from lopd_gym.errors import unknown_name
    from lopd_gym.policy.scripted import ScriptedPolicy, nothing, oracle, random_calls

    scripts = {"nothing": nothing, "random": random_calls(), "oracle": oracle(env)}
    if name not in scripts:
        raise unknown_name("script", name, SCRIPTS)
    return ScriptedPolicy(scripts[name])

"""``lopd-gym run``: train a student and leave an ordinary model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lopd_gym.cli.assemble import named_settings, resolve, with_defaults
from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import (
    DataOption,
    FormatOption,
    SetOption,
    set_threads,
)
from lopd_gym.errors import LopdGymError, UsageError


def run_command(
    env: Annotated[str | None, typer.Option("--env", help="Environment to learn in.")] = None,
    learner: Annotated[str | None, typer.Option("--learner", help="Learner to use.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="tiny (shipped, default), a folder, a .gguf file or a hub id."
        ),
    ] = None,
    data: DataOption = None,
    rollouts: Annotated[
        int | None, typer.Option("--rollouts", help="Training episodes, the bank's included.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the run (default: 0).")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="Preset of the learner: tiny or paper.")
    ] = None,
    chat_format: FormatOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML or JSON file of settings.")
    ] = None,
    changes: SetOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of this run (default: under runs/).")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Continue the run in this folder.")
    ] = None,
) -> None:
    """Train a learner in an environment, from baseline to exported student."""
    from lopd_gym.run.build import check_run
    from lopd_gym.run.folder import RunFolder
    from lopd_gym.run.settings import RunSettings, read_settings_file, validate

    named = named_settings(env, learner, model, data, rollouts, seed, preset, chat_format)
    from_file = read_settings_file(config) if config is not None else {}
    console = make_console()
    if resume is not None:
        folder, settings = RunFolder.existing(resume)
        _refuse_other_settings(settings, from_file, named, changes or [])
    else:
        if config is None and (env is None or learner is None):
            raise UsageError("run needs --env and --learner (or --config, or --resume DIR).")
        resolved = resolve(with_defaults(from_file, named), changes or [])
        settings = validate(RunSettings, resolved, "the run")
        check_run(settings)
        folder = RunFolder.create(settings, Path("runs"), out)
    _play(settings, folder, console)


def _play(settings: Any, folder: Any, console: Console) -> None:
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.cli.table import print_summary
    from lopd_gym.report.write import write_report
    from lopd_gym.run.curve import draw_curve
    from lopd_gym.run.settings import TINY
    from lopd_gym.run.training import TrainingRun

    set_threads(settings.model.source)
    console.print(f"run folder: {folder.path}", markup=False)
    try:
        with folder.locked():
            run = TrainingRun(settings, folder, ConsoleReporter(console))
            tiny, starter = settings.model.source == TINY, run.env.label.endswith(":starter")
            if tiny or starter:
                console.print(_embedded_default_note(tiny, run.env.name if starter else None))
            summary = run.go()
    except KeyboardInterrupt:
        raise LopdGymError(
            f"Interrupted; everything finished so far is kept. Continue with: "
            f"lopd-gym run --resume {folder.path}"
        ) from None
    draw_curve(summary, folder.path / "curve.png")
    report = write_report(folder.path)
    print_summary(summary, console)
    console.print(f"report: {report}", markup=False, soft_wrap=True)


def _embedded_default_note(tiny: bool, starter: str | None) -> str:
    parts = []
    if tiny:
        parts.append("the tiny policy that ships with lopd-gym (name a real one with --model)")
    if starter is not None:
        parts.append(
            f"the starter suite (for the full benchmark: lopd-gym data pull {starter}, or --data)"
        )
    return f"embedded default: {' and '.join(parts)}"


def _refuse_other_settings(
    settings: Any, from_file: dict[str, Any], named: dict[str, Any], changes: list[str]
) -> None:
    """Raise `UsageError` when a resume asks for settings that differ from the saved ones."""
    from lopd_gym.run.settings import RunSettings, differences, merge, validate

    saved = settings.model_dump(mode="json")
    asked = settings.model_dump(mode="json")
    merge(asked, from_file)
    merge(asked, named)
    asked = validate(RunSettings, resolve(asked, changes), "the run").model_dump(mode="json")
    different = differences(asked, saved)
    if different:
        raise UsageError(
            f"--resume continues a run with its own settings, but these differ: "
            f"{', '.join(different[:5])}; leave the options out, or start a new run."
        )

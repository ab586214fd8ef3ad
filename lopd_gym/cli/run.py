"""``lopd-gym run``: train a student and leave an ordinary model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import (
    DataOption,
    FormatOption,
    SetOption,
    env_section,
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
    from lopd_gym.run.build import checked_env
    from lopd_gym.run.folder import RunFolder
    from lopd_gym.run.settings import RunSettings, read_settings_file, validate

    named = _named(env, learner, model, data, rollouts, seed, preset, chat_format)
    from_file = read_settings_file(config) if config is not None else {}
    console = make_console()
    if resume is not None:
        folder, settings = RunFolder.existing(resume)
        _refuse_other_settings(settings, from_file, named, changes or [])
    else:
        if config is None and (env is None or learner is None):
            raise UsageError("run needs --env and --learner (or --config, or --resume DIR).")
        resolved = resolve(_values(from_file, named), changes or [])
        settings = validate(RunSettings, resolved, "the run")
        checked_env(settings.env, settings.evaluation.split).close()
        folder = RunFolder.create(settings, Path("runs"), out)
    _play(settings, folder, console)


def _play(settings: Any, folder: Any, console: Console) -> None:
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.cli.table import print_summary
    from lopd_gym.run.curve import draw_curve
    from lopd_gym.run.settings import TINY
    from lopd_gym.run.training import TrainingRun

    set_threads(settings.model.source)
    console.print(f"run folder: {folder.path}", markup=False)
    try:
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
    print_summary(summary, console)


def _embedded_default_note(tiny: bool, starter: str | None) -> str:
    parts = []
    if tiny:
        parts.append("the tiny policy that ships with lopd-gym (name a real one with --model)")
    if starter is not None:
        parts.append(
            f"the starter suite (for the full benchmark: lopd-gym data pull {starter}, or --data)"
        )
    return f"embedded default: {' and '.join(parts)}"


def _named(
    env: str | None,
    learner: str | None,
    model: str | None,
    data: Path | None,
    rollouts: int | None,
    seed: int | None,
    preset: str | None,
    chat_format: str | None,
) -> dict[str, Any]:
    """Return the settings that options of their own were given for."""
    named: dict[str, Any] = {}
    if env is not None:
        named["env"] = env_section(env, data)
    if learner is not None:
        named["learner"] = {"name": learner}
    if preset is not None:
        named.setdefault("learner", {})["preset"] = preset
    if model is not None:
        named["model"] = {"source": model}
    if chat_format is not None:
        named.setdefault("model", {})["chat_format"] = chat_format
    if rollouts is not None:
        named["rollouts"] = rollouts
    if seed is not None:
        named["seed"] = seed
    return named


def _values(from_file: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Merge defaults, the settings file and the named options, weakest first."""
    from lopd_gym.run.settings import TINY, TINY_DEFAULTS, merge

    asked: dict[str, Any] = {"model": {"source": TINY}}
    merge(asked, from_file)
    merge(asked, named)
    model = asked["model"]
    values: dict[str, Any] = {}
    if isinstance(model, dict) and model.get("source") == TINY:
        merge(values, TINY_DEFAULTS)
    merge(values, asked)
    return values


def resolve(values: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """Apply overrides and resolve the learner's preset, so that nothing is left implicit."""
    from lopd_gym.run.build import learner_section
    from lopd_gym.run.settings import TINY, apply_overrides

    apply_overrides(values, changes)
    section = values.get("learner")
    if not isinstance(section, dict) or "name" not in section:
        raise UsageError("No learner is named: pass --learner NAME.")
    if not isinstance(values.get("env"), dict) or "name" not in values["env"]:
        raise UsageError("No environment is named: pass --env NAME.")
    model = values.get("model")
    default = TINY if isinstance(model, dict) and model.get("source") == TINY else "paper"
    options = {k: v for k, v in section.items() if k not in ("name", "preset")}
    values["learner"] = learner_section(section["name"], section.get("preset", default), options)
    return values


def _refuse_other_settings(
    settings: Any, from_file: dict[str, Any], named: dict[str, Any], changes: list[str]
) -> None:
    """Raise `UsageError` when a resume asks for settings that differ from the saved ones."""
    from lopd_gym.run.settings import RunSettings, merge, validate

    saved = settings.model_dump(mode="json")
    asked = settings.model_dump(mode="json")
    merge(asked, from_file)
    merge(asked, named)
    asked = validate(RunSettings, resolve(asked, changes), "the run").model_dump(mode="json")
    different = sorted(_differences(asked, saved, ""))
    if different:
        raise UsageError(
            f"--resume continues a run with its own settings, but these differ: "
            f"{', '.join(different[:5])}; leave the options out, or start a new run."
        )


def _differences(asked: Any, saved: Any, path: str) -> list[str]:
    if isinstance(asked, dict) and isinstance(saved, dict):
        names = asked.keys() | saved.keys()
        parts = [_differences(asked.get(n), saved.get(n), f"{path}.{n}".lstrip(".")) for n in names]
        return [d for part in parts for d in part]
    return [] if asked == saved else [path]

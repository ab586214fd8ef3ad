"""``lopd-gym compare``: learners head to head."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lopd_gym.cli.assemble import named_settings, resolve, with_defaults
from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import DataOption, FormatOption, SetOption
from lopd_gym.errors import LopdGymError, UsageError

if TYPE_CHECKING:
    from lopd_gym.compare.plan import CompareSettings
    from lopd_gym.compare.result import Comparison


LearnersOption = Annotated[
    str | None,
    typer.Option("--learners", help="Learners, comma-separated; the first is the reference."),
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        help="A learner with other options, as an ablation. May be repeated.",
        metavar="LEARNER:A=B,C=D",
    ),
]
RolloutsOption = Annotated[
    int | None, typer.Option("--rollouts", help="Training episodes of each, bank included.")
]


def compare_command(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Finished run folders, instead of new runs.")
    ] = None,
    env: Annotated[str | None, typer.Option("--env", help="Environment to learn in.")] = None,
    learners: LearnersOption = None,
    also: AlsoOption = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Runs of each (3).")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="tiny (default), a folder, a .gguf or a hub id.")
    ] = None,
    data: DataOption = None,
    rollouts: RolloutsOption = None,
    chat_format: FormatOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML or JSON file of a run's settings.")
    ] = None,
    changes: SetOption = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at the same time.")] = 1,
    gpus: Annotated[
        str | None, typer.Option("--gpus", help="GPUs that runs take turns on, e.g. 0,1.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder (default: in runs/).")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Continue the comparison in this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Train learners on the same tasks, seeds and budget, and compare them pairwise."""
    from lopd_gym.compare.plan import Plan
    from lopd_gym.run.settings import read_settings_file

    console = Console(stderr=True) if as_json else make_console()
    asked = any(x is not None for x in (env, learners, also, seeds, rollouts, config, changes))
    if folders:
        if asked or resume is not None:
            raise UsageError("Name finished run folders, or what to run, but not both.")
        _report(list(folders), out, as_json)
        return
    if resume is not None:
        if asked:
            raise UsageError("--resume continues a comparison as it was begun: name nothing else.")
        plan = Plan.existing(resume)
    else:
        named = named_settings(env, None, model, data, rollouts, None, None, chat_format)
        from_file = read_settings_file(config) if config is not None else {}
        values = with_defaults(from_file, named)
        names = [*_split(learners), *(also or [])]
        settings = _settings(values, names, seeds or 3, changes or [])
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        plan = Plan.create(settings, out or Path("runs") / f"{stamp}-compare")
    done = _play(plan, jobs, _split(gpus), console)
    _report(done, plan.folder, as_json)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _settings(
    values: dict[str, Any], names: list[str], seeds: int, changes: list[str]
) -> CompareSettings:
    """Resolve every learner; whatever is wrong with one is said before anything runs."""
    from lopd_gym.compare.plan import CompareSettings
    from lopd_gym.run.build import check_run
    from lopd_gym.run.settings import RunSettings, validate

    if len(names) < 2:
        raise UsageError("compare needs --env and at least two --learners, e.g. lopd,grpo.")
    sections, run = [], {}
    for name in names:
        learner, _, options = name.partition(":")
        mine = copy.deepcopy(values)
        mine["learner"] = {**mine.get("learner", {}), "name": learner}
        own = [f"learner.{option}" for option in _split(options)]
        settings = validate(RunSettings, resolve(mine, changes + own), "a run")
        check_run(settings)
        run = settings.model_dump(mode="json")
        sections.append(run.pop("learner"))
        del run["seed"]
    return CompareSettings(learners=tuple(sections), seeds=tuple(range(seeds)), run=run)


def _play(plan: Any, jobs: int, gpus: list[str], console: Console) -> list[Path]:
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.compare.runner import Runner

    console.print(f"comparison folder: {plan.folder}", markup=False)
    try:
        return Runner(plan, jobs, gpus, ConsoleReporter(console)).go()
    except KeyboardInterrupt:
        raise LopdGymError(
            f"Interrupted; everything finished so far is kept. Continue with: "
            f"lopd-gym compare --resume {plan.folder}"
        ) from None


def _report(runs: list[Path], folder: Path | None, as_json: bool) -> None:
    """Compare finished runs, keep the numbers, and show them."""
    from lopd_gym.cli.compare_table import print_comparison, write_csv
    from lopd_gym.compare.analyse import compare_runs
    from lopd_gym.compare.collect import read_run
    from lopd_gym.report.write import write_report
    from lopd_gym.run.folder import write_json

    report: Path | None = None
    comparison: Comparison = compare_runs([read_run(path) for path in runs])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "comparison.json", comparison.to_json())
        write_csv(comparison, folder / "comparison.csv")
        report = write_report(folder)
    if as_json:
        print(json.dumps(comparison.to_json(), indent=1))
    else:
        console = make_console()
        print_comparison(comparison, console)
        if report is not None:
            console.print(f"report: {report}", markup=False, soft_wrap=True)

"""``lopd-gym export``: copy a run's student to where it is wanted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from lopd_gym.errors import UsageError


def export_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")],
    to: Annotated[Path, typer.Option("--to", help="New folder for the model.")],
) -> None:
    """Copy the student of a run (finished or not) to a new folder."""
    from lopd_gym.run.build import load_backbone
    from lopd_gym.run.checkpoint import Checkpoints
    from lopd_gym.run.folder import RunFolder

    folder, settings = RunFolder.existing(run)
    if to.exists():
        raise UsageError(f"{to} exists already: name a new folder.")
    if folder.student.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder.student, to)
    else:
        checkpoints = Checkpoints(run / "checkpoints")
        steps = checkpoints.steps()
        if not steps:
            raise UsageError(f"{run} has no student and no checkpoint yet: let it train first.")
        backbone = load_backbone(settings)
        backbone.load_student_state(checkpoints.load(steps[-1])["student"])
        backbone.export_student(to)
    typer.echo(f"student of {run}: {to}")

"""``lopd-gym report``: a run or a comparison as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lopd_gym.cli.options import set_threads
from lopd_gym.errors import UsageError

if TYPE_CHECKING:
    from lopd_gym.report.tokens import TaughtStep

REPORT_FILE = "report.html"


def report_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or a comparison.", metavar="DIR")],
    tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            min=0,
            max=16,
            help="Colour the tokens of so many episodes by what the teacher thinks of them; "
            "loads the model.",
        ),
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"File to write (default: DIR/{REPORT_FILE}).")
    ] = None,
) -> None:
    """Write one self-contained HTML file about a run, finished or not, or a comparison."""
    from lopd_gym.report.comparison_page import COMPARISON_FILE, comparison_page
    from lopd_gym.report.run_page import run_page

    if (folder / COMPARISON_FILE).exists():
        if tokens:
            raise UsageError(f"{folder} is a comparison: --tokens wants one of the runs in it.")
        text = comparison_page(folder)
    else:
        text = run_page(folder, _taught(folder, tokens) if tokens else None)
    target = out or folder / REPORT_FILE
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)
    typer.echo(f"report: {target}")


def _taught(folder: Path, count: int) -> TaughtStep:
    from lopd_gym.report.tokens import taught_step
    from lopd_gym.run.folder import RunFolder

    _, settings = RunFolder.existing(folder)
    set_threads(settings.model.source)
    return taught_step(folder, count)

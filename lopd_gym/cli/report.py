"""``lopd-gym report``: a run or a comparison as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

REPORT_FILE = "report.html"


def report_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or a comparison.", metavar="DIR")],
    out: Annotated[
        Path | None, typer.Option("--out", help=f"File to write (default: DIR/{REPORT_FILE}).")
    ] = None,
) -> None:
    """Write one self-contained HTML file about a run, finished or not, or a comparison."""
    from lopd_gym.report.run_page import run_page

    text = run_page(folder)
    target = out or folder / REPORT_FILE
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)
    typer.echo(f"report: {target}")

"""``lopd-gym report``: a run or a comparison as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import set_threads


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
        Path | None, typer.Option("--out", help="File to write (default: DIR/report.html).")
    ] = None,
) -> None:
    """Write one self-contained HTML file about a run, finished or not, or a comparison."""
    from lopd_gym.report.write import write_report
    from lopd_gym.run.folder import RunFolder

    if tokens and (folder / "settings.json").exists():
        set_threads(RunFolder.existing(folder)[1].model.source)
    console = make_console()
    with console.status("writing the report"):
        target = write_report(folder, out, tokens)
    console.print(f"report: {target}", markup=False, soft_wrap=True)

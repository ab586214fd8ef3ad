"""Write the page of a run or a comparison into its folder."""

from __future__ import annotations

from pathlib import Path

from lopd_gym.errors import LopdGymError, UsageError
from lopd_gym.report.comparison_page import COMPARISON_FILE, REPORT_FILE, comparison_page
from lopd_gym.report.run_page import run_page


def write_report(folder: Path, out: Path | None = None, tokens: int = 0) -> Path:
    """Write a page, whole or not at all, and return its file.

    Args:
        folder: Of a run, finished or not, or of a comparison.
        out: The file to write; by default ``report.html`` in the folder.
        tokens: How many episodes of a run have their tokens coloured; more than 0 loads the model.

    Raises:
        UsageError: The folder holds neither, or there are no tokens to colour.
        LopdGymError: The file cannot be written.
    """
    if (folder / COMPARISON_FILE).exists():
        if tokens:
            raise UsageError(f"{folder} is a comparison: --tokens wants one of the runs in it.")
        text = comparison_page(folder)
    else:
        text = _run_page(folder, tokens)
    target = out or folder / REPORT_FILE
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError as err:
        temporary.unlink(missing_ok=True)
        raise LopdGymError(f"Cannot write {target}: {err.strerror}.") from err
    return target


def _run_page(folder: Path, tokens: int) -> str:
    if not tokens:
        return run_page(folder)
    from lopd_gym.report.tokens import taught_step  # brings torch, which other pages do without

    return run_page(folder, taught_step(folder, tokens))

"""The console that commands print on."""

from __future__ import annotations

from rich.console import Console

_WIDTH_OF_A_FILE = 110


def console() -> Console:
    """Return a console; where output is no terminal, lines are wide enough for the tables."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_WIDTH_OF_A_FILE)

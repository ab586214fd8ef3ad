"""How a run tells what it is doing; the command line shows it, tests and scripts stay silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Phase(Protocol):
    """One phase in progress."""

    def advance(self, done: int = 1, note: str = "") -> None:
        """Say that more is done; ``note`` replaces the short text beside the bar."""
        ...


class Reporter(Protocol):
    """Shows the phases of a run."""

    def phase(self, name: str, total: int) -> AbstractContextManager[Phase]:
        """Enter a phase of ``total`` units of work."""
        ...

    def say(self, text: str) -> None:
        """Show one line."""
        ...


class SilentPhase:
    """Shows nothing."""

    def advance(self, done: int = 1, note: str = "") -> None:
        """Do nothing."""


class SilentReporter:
    """Shows nothing."""

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        """Enter a phase silently."""
        yield SilentPhase()

    def say(self, text: str) -> None:
        """Do nothing."""

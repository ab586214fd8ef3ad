"""Progress on the terminal: bars where there is one, plain lines where output is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from lopd_gym.run.progress import Phase

_SECONDS_BETWEEN_LINES = 15.0


class _Bar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, done: int = 1, note: str = "") -> None:
        self._progress.update(self._task, advance=done, note=note)


class _Lines:
    def __init__(self, console: Console, name: str, total: int) -> None:
        self._console, self._name, self._total = console, name, total
        self._done, self._last = 0, time.perf_counter()

    def advance(self, done: int = 1, note: str = "") -> None:
        self._done += done
        now = time.perf_counter()
        if now - self._last > _SECONDS_BETWEEN_LINES:
            self._last = now
            self._console.print(f"{self._name}: {self._done}/{self._total} {note}".rstrip())


class ConsoleReporter:
    """Shows phases on a rich console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Phase]:
        """Show one phase; on a terminal as a bar that stays when it is done."""
        started = time.perf_counter()
        if not self._console.is_terminal:
            lines = _Lines(self._console, name, total)
            yield lines
            self._console.print(f"{name}: done in {time.perf_counter() - started:.1f} s")
            return
        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console) as progress:
            yield _Bar(progress, progress.add_task(name, total=total, note=""))

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(text)

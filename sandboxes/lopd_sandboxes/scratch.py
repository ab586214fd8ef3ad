"""Working folders of sandboxed processes, removed even where the host was killed.

A folder is locked for as long as its owner lives, and the operating system frees the lock of a
dead owner. So a later process can tell which folders were left behind, whatever their names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "lopd-sandbox-"
_UNLOCKED_S = 60.0
"""A folder is created an instant before it is locked, so young ones are never swept."""


class ScratchFolder:
    """A fresh private folder with an empty working folder ``work`` in it."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock: int | None = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.work = self.path / "work"
        self.work.mkdir()

    def remove(self) -> None:
        """Remove the folder; may be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@cache
def sweep() -> None:
    """Remove the folders of processes that were killed; done once in each process."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_unlocked(path)


def _remove_if_unlocked(path: Path) -> None:
    if time.time() - path.stat().st_mtime < _UNLOCKED_S:
        return
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)

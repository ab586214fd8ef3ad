"""The folder of a run: what lies where, and how it gets there whole.

Every file is either appended to line by line, or written to a temporary name and renamed, so a
killed process leaves nothing half-written behind.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lopd_gym.errors import DataError, UsageError
from lopd_gym.run.settings import RunSettings, validate

_PACKAGES = ("lopd-gym", "torch", "transformers", "peft", "gymnasium", "hnswlib", "numpy")


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, settings: RunSettings, parent: Path, path: Path | None = None) -> RunFolder:
        """Make a new folder, ``parent/<time>-<env>-<learner>`` unless a path is given."""
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        target = path or parent / f"{stamp}-{settings.label}-{settings.seed}"
        if (target / "settings.json").exists():
            raise UsageError(f"{target} already holds a run: continue it with --resume {target}.")
        try:
            target.mkdir(parents=True, exist_ok=True)
            folder = cls(target)
            write_json(folder.versions, _versions())
            write_json(folder.settings, settings.model_dump(mode="json"))
        except OSError as err:
            raise UsageError(f"Cannot write the run folder {target}: {err.strerror}.") from err
        return folder

    @classmethod
    def existing(cls, path: Path) -> tuple[RunFolder, RunSettings]:
        """Open the folder of an earlier run and read its settings."""
        folder = cls(path)
        if not folder.settings.exists():
            raise UsageError(f"{path} is not a run folder: it holds no settings.json.")
        return folder, validate(RunSettings, read_json(folder.settings), str(folder.settings))

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Keep other processes out of the folder; the system frees it when this one ends.

        Raises:
            UsageError: Another process works in it, and ``wait`` is not asked for.
        """
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as err:
                raise UsageError(
                    f"Another process works in {self.path}: wait for it, or stop it first."
                ) from err
            yield

    @property
    def settings(self) -> Path:
        """The resolved settings."""
        return self.path / "settings.json"

    @property
    def versions(self) -> Path:
        """Versions of the packages that the run started with."""
        return self.path / "versions.json"

    @property
    def metrics(self) -> Path:
        """One JSON line for each training step."""
        return self.path / "metrics.jsonl"

    @property
    def bank(self) -> Path:
        """The experience bank."""
        return self.path / "bank"

    @property
    def student(self) -> Path:
        """The final student, an ordinary Hugging Face folder."""
        return self.path / "student"

    @property
    def summary(self) -> Path:
        """The final numbers."""
        return self.path / "summary.json"

    def episodes(self, phase: str) -> Path:
        """The episodes of a phase, one JSON line each."""
        return self.path / "episodes" / f"{phase}.jsonl"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as out:
        json.dump(value, out, indent=1, ensure_ascii=False)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Read a JSON file; raises `DataError` when it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as err:
        raise DataError(f"{path} is not valid JSON: {err}.") from err


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line."""
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(value, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[Any]:
    """Read JSON lines; a torn last line (a killed process) is skipped.

    Raises:
        DataError: Any other line is not JSON.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines[:-1] if line]
    except ValueError as err:
        raise DataError(f"{path} holds a line that is not JSON: {err}.") from err


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found

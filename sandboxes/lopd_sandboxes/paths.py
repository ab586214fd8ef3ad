"""Names of a program's files."""

from __future__ import annotations

from pathlib import PurePosixPath


def inside(name: str) -> str:
    """Return a file's path in the working folder; raises ValueError if it lies outside of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"Expected a path inside the working folder, found '{name}'.")
    return str(path)

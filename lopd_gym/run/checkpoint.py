"""Checkpoints of a training run: written whole or not at all, the newest two are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from lopd_gym.errors import DataError

_KEEP = 2


class Checkpoints:
    """The checkpoints of one run, numbered by the training steps that are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Save tensors and plain values as the checkpoint of ``step``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".step-{step:06d}.tmp"
        with temporary.open("wb") as out:
            try:
                torch.save(state, out)
            except RuntimeError as err:  # what torch makes of a Ctrl-C or a full disk
                if isinstance(err.__context__, KeyboardInterrupt | OSError):
                    raise err.__context__ from err
                raise
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self._path(step))
        for old in self.steps()[:-_KEEP]:
            self._path(old).unlink()

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, in order."""
        return sorted(int(p.stem.split("-")[1]) for p in self._folder.glob("step-*.pt"))

    def load(self, step: int) -> dict[str, Any]:
        """Load a checkpoint; only tensors and plain values are accepted.

        Raises:
            DataError: The file is damaged.
        """
        path = self._path(step)
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as err:  # torch raises many kinds for a damaged file
            raise DataError(
                f"The checkpoint {path} is damaged ({err}): delete it to use the one before."
            ) from err
        return state

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}.pt"

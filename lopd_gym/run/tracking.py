"""Trackers: what a run measures, also sent to where people watch their runs.

``metrics.jsonl`` is always written and is the truth; a tracker only shows it. Each tracker's
package is an extra of this one, and is imported when a run asks for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

from lopd_gym.errors import LopdGymError, UsageError
from lopd_gym.run.folder import RunFolder
from lopd_gym.run.settings import RunSettings

_PROJECT = "lopd-gym"


class Tracker(Protocol):
    """Where numbers go. A resumed run opens its tracker anew and logs its last step again."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Show numbers as they are after a training step."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class _Nowhere:
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _TensorBoard:
    """Event files in the run's folder, for ``tensorboard --logdir``."""

    def __init__(self, settings: RunSettings, folder: RunFolder, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder.path / "tensorboard"), purge_step=done + 1)
        if not done:
            self._writer.add_text("settings", f"```\n{settings.model_dump_json(indent=1)}\n```")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Trackio:
    """A local trackio project, for ``trackio show``."""

    def __init__(self, settings: RunSettings, folder: RunFolder, done: int) -> None:
        import trackio

        config = settings.model_dump(mode="json")
        name = _identity(folder)
        self._run: Any = trackio.init(_PROJECT, name=name, config=config, resume="allow")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _WandB:
    """A Weights & Biases run; WANDB_MODE=offline keeps it in the run's folder."""

    def __init__(self, settings: RunSettings, folder: RunFolder, done: int) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=_PROJECT,
            id=_identity(folder),
            name=folder.path.name,
            config=settings.model_dump(mode="json"),
            dir=str(folder.path),
            resume="allow",
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


_TRACKERS: dict[str, Callable[[RunSettings, RunFolder, int], Tracker]] = {
    "tensorboard": _TensorBoard,
    "trackio": _Trackio,
    "wandb": _WandB,
}


def check_tracker(settings: RunSettings) -> None:
    """Make sure that the tracker's package is there.

    Raises:
        UsageError: It is not; the message names the extra.
    """
    name = settings.tracker
    if name in _TRACKERS and find_spec(name) is None:
        raise UsageError(
            f"tracker={name} needs a package that is not installed: pip install 'lopd-gym[{name}]'."
        )


@contextmanager
def open_tracker(settings: RunSettings, folder: RunFolder, done: int) -> Iterator[Tracker]:
    """Open the tracker that the settings name, for a run that has ``done`` steps behind it.

    Raises:
        UsageError: Its package is not installed.
        LopdGymError: It cannot start.
    """
    check_tracker(settings)
    make = _TRACKERS.get(settings.tracker)
    try:
        tracker: Tracker = _Nowhere() if make is None else make(settings, folder, done)
    except Exception as err:  # whatever these packages raise, for instance without a network
        raise LopdGymError(
            f"The tracker '{settings.tracker}' cannot start ({err}): mend it, or set tracker=none."
        ) from err
    try:
        yield tracker
    finally:
        tracker.close()


def _identity(folder: RunFolder) -> str:
    """Name a run the same way whenever it is resumed, and unlike any other run."""
    written = folder.settings.stat().st_mtime_ns
    digest = hashlib.sha256(f"{folder.path.name} {written}".encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', folder.path.name)}-{digest[:8]}"

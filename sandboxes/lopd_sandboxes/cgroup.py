"""A control group for one program: the kernel's exact limits on memory and processes.

Both layouts are known: version 1, where each controller has a tree, and version 2 with one tree.
Either needs a folder that this user may create groups in, which root has, and an ordinary user
where the service manager delegated one.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from lopd_gym.sandbox import Limits

_MOUNT = Path("/sys/fs/cgroup")
_PREFIX = "lopd-gym-"
_CONTROLLERS = ("memory", "pids")
_REMOVE_S = 2.0
_numbers = itertools.count()


class ControlGroup:
    """A group with a limit on memory (swap included) and on processes and threads."""

    def __init__(self, parents: tuple[Path, ...], limits: Limits, own_processes: int) -> None:
        """Create it under ``parents``; ``own_processes`` are the sandbox's own, not limited."""
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        self._folders = [parent / name for parent in parents]
        for folder in self._folders:
            folder.mkdir()
        memory, processes = limits.memory_mib << 20, limits.processes + own_processes
        self._write("memory.max", memory)
        self._write("memory.swap.max", 0)
        self._write("memory.limit_in_bytes", memory)
        self._write("memory.memsw.limit_in_bytes", memory)
        self._write("pids.max", processes)

    @property
    def entrances(self) -> list[str]:
        """The files that a process writes its id to in order to enter."""
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of the group for its memory."""
        for folder in self._folders:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError):
                    found = re.search(r"^oom_kill (\d+)$", (folder / name).read_text(), re.M)
                    return found is not None and int(found[1]) > 0
        return False

    def remove(self) -> None:
        """Remove the group once its last process is gone, which takes the kernel an instant."""
        deadline = time.monotonic() + _REMOVE_S
        for folder in self._folders:
            while folder.exists() and time.monotonic() < deadline:
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.002)

    def _write(self, name: str, value: int) -> None:
        for folder in self._folders:
            if (folder / name).exists():
                (folder / name).write_text(str(value))


@cache
def usable_parents() -> tuple[Path, ...] | None:
    """Return the folders in which this process may create groups, or None where it may not."""
    found = _version_2() or _version_1()
    if found is None:
        return None
    for parent in found:
        _sweep(parent)
    try:
        ControlGroup(found, Limits(), 0).remove()
    except OSError:
        return None
    return found


def _version_1() -> tuple[Path, ...] | None:
    parents = []
    for controller in _CONTROLLERS:
        top = _MOUNT / controller
        own = top / _own_path(controller)
        parents.append(own if own.is_dir() else top)
    return tuple(parents) if all(_is_open(parent) for parent in parents) else None


def _version_2() -> tuple[Path, ...] | None:
    """Find the nearest group above this process's that passes both controllers on."""
    if not (_MOUNT / "cgroup.controllers").exists():
        return None
    own = _MOUNT / _own_path("")
    for folder in (own, *own.parents):
        with suppress(OSError):
            passed_on = (folder / "cgroup.subtree_control").read_text().split()
            if set(_CONTROLLERS) <= set(passed_on) and _is_open(folder):
                return (folder,)
        if folder == _MOUNT:
            break
    return None


def _own_path(controller: str) -> str:
    """Return the path of this process's group in a controller's tree; "" for version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def _is_open(folder: Path) -> bool:
    """Whether groups can be created here, and processes moved between them."""
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _sweep(parent: Path) -> None:
    """Remove the empty groups of processes that were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = int(folder.name.removeprefix(_PREFIX).partition("-")[0])
        if not Path(f"/proc/{owner}").exists():
            with suppress(OSError):
                folder.rmdir()

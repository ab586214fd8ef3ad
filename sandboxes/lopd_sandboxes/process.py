"""`ProcessSandbox`: a limited child process. It needs nothing installed.

What it does: a process group of its own, an empty working folder, an environment that inherits
nothing but what starting Python needs, closed file descriptors, limits on address space, CPU
time, file size and processes, wall-time limits that the host enforces by killing the group, and
on Linux a child that dies with its host.

What it does not do: it is no security boundary against code that attacks on purpose. The child
runs as the same user, sees the same files and the network, may leave its process group, and the
limit on processes does not bind the superuser; outside Linux the kernel may ignore the limit on
memory. It contains accidents: endless loops, memory bombs, crashes, leaked state and secrets.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import IO

from lopd_gym.sandbox import PYTHON, Isolation, Limits, Probe, RunResult
from lopd_sandboxes import launch
from lopd_sandboxes.paths import inside
from lopd_sandboxes.scratch import ScratchFolder
from lopd_sandboxes.session import PipeSession
from lopd_sandboxes.start import communicate, start

_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Without these some builds of Python do not start."""

_PYTHON = (sys.executable, "-s", "-S", "-P")
"""As ``python -I -S``, except that the clean environment is read: it fixes the hash seed, and with
it the order of sets."""


class ProcessSandbox:
    """Runs programs in limited child processes; see the module for what that does not cover."""

    name = "process"
    isolation = Isolation.NONE

    @classmethod
    def probe(cls) -> Probe:
        """Return that it works: a system that runs Python can start processes."""
        return Probe(Isolation.NONE, "limits accidents only; used where it is named, never chosen")

    def lease(self) -> AbstractContextManager[ProcessSandbox]:
        """Return this sandbox itself: its programs share nothing."""
        return nullcontext(self)

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a program to its end in a fresh working folder that holds ``files``.

        Raises:
            InfrastructureError: No process can be started.
        """
        limits = limits or Limits()
        folder = ScratchFolder()
        try:
            _write_files(folder.work, files)
            process = _start(argv, folder.work, limits, subprocess.PIPE)
            return communicate(process, stdin, limits)
        finally:
            folder.remove()

    def session(self, program: bytes, limits: Limits | None = None) -> PipeSession:
        """Start a Python program that stays: it reads requests on fd 0, answers on fd 1.

        Raises:
            InfrastructureError: No process can be started.
        """
        limits = limits or Limits()
        folder = ScratchFolder()
        try:
            path = folder.path / "program.py"
            path.write_bytes(program)
            stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the session closes it
            process = _start([*_PYTHON, str(path)], folder.work, limits, stderr)
        except BaseException:
            folder.remove()
            raise
        return PipeSession(process, limits, stderr, folder.remove)


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _start(
    argv: Sequence[str], folder: Path, limits: Limits, stderr: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    settings = json.dumps({"host": os.getpid(), "limits": _rlimits(limits)})
    program = [sys.executable, *argv[1:]] if argv[0] == PYTHON else argv
    command = [sys.executable, "-I", "-S", str(launch.__file__), settings, *program]
    return start(command, _environment(folder), stderr, cwd=folder)


def _environment(folder: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _rlimits(limits: Limits) -> dict[str, int]:
    values = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_mib << 20,
        "RLIMIT_AS": limits.memory_mib << 20,
    }
    if limits.cpu_s is not None:
        values["RLIMIT_CPU"] = math.ceil(limits.cpu_s)
    if sys.platform.startswith("linux") and os.getuid() != 0:
        values["RLIMIT_NPROC"] = tasks_of_user() + limits.processes
    return values


def tasks_of_user() -> int:
    """Count the processes and threads of this user: the kernel's limit holds for all of them."""
    count, user = 0, os.getuid()
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == user:
                count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count

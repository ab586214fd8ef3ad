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
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import PYTHON, Limits, RunResult
from lopd_sandboxes import launch
from lopd_sandboxes.output import Output
from lopd_sandboxes.scratch import ScratchFolder
from lopd_sandboxes.session import PipeSession, kill_group, ran_out_of_memory

_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Without these some builds of Python do not start."""

_PYTHON = (sys.executable, "-s", "-S", "-P")
"""As ``python -I -S``, except that the clean environment is read: it fixes the hash seed, and with
it the order of sets."""


class ProcessSandbox:
    """Runs programs in limited child processes; see the module for what that does not cover."""

    name = "process"

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
            return _communicate(process, stdin, limits)
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
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise ValueError(f"Expected a path inside the working folder, found '{name}'.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _start(
    argv: Sequence[str], folder: Path, limits: Limits, stderr: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    settings = json.dumps({"host": os.getpid(), "limits": _rlimits(limits)})
    program = [sys.executable, *argv[1:]] if argv[0] == PYTHON else argv
    command = [sys.executable, "-I", "-S", str(launch.__file__), settings, *program]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
            bufsize=0,
        )

    try:
        return _starter().submit(start).result()
    except OSError as err:
        raise InfrastructureError(f"No sandboxed process can be started: {err}.") from err


_starters: dict[int, ThreadPoolExecutor] = {}


def _starter() -> ThreadPoolExecutor:
    """Return the one thread that starts all children of this process.

    Linux kills a child that asked for it when the *thread* that started it ends, so it must be one
    that lives as long as the process. A forked process has none of its parent's threads.
    """
    return _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, "sandbox"))


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
        values["RLIMIT_NPROC"] = _tasks_of_user() + limits.processes
    return values


def _tasks_of_user() -> int:
    """Count the processes and threads of this user: the kernel's limit holds for all of them."""
    count, user = 0, os.getuid()
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == user:
                count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def _communicate(process: subprocess.Popen[bytes], stdin: bytes, limits: Limits) -> RunResult:
    """Feed a program, collect what it says, and end it and its group."""
    started = time.monotonic()
    output = Output(process, stdin, limits.output_bytes)
    try:
        timed_out = not output.collect(started + limits.wall_s)
        if not timed_out:
            left_s = max(0.0, started + limits.wall_s - time.monotonic())
            try:
                process.wait(left_s)
            except subprocess.TimeoutExpired:
                timed_out = True
    finally:
        kill_group(process)
        output.close()
    stderr = bytes(output.texts["stderr"])
    timed_out = timed_out or process.returncode == -signal.SIGXCPU
    code = None if timed_out else process.returncode
    memory = not timed_out and ran_out_of_memory(code, stderr.decode(errors="replace"))
    return RunResult(
        exit_code=code,
        stdout=bytes(output.texts["stdout"]),
        stderr=stderr,
        timed_out=timed_out,
        memory_killed=memory,
        truncated=output.truncated,
        wall_s=time.monotonic() - started,
    )

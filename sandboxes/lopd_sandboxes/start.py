"""Start a program's process, and see it through to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Limits, RunResult
from lopd_sandboxes.ending import Ending
from lopd_sandboxes.output import Output
from lopd_sandboxes.session import kill_group


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    stderr: int | IO[bytes],
    *,
    cwd: Path | None = None,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, with pipes for its stdin and stdout.

    Raises:
        InfrastructureError: No process can be started.
    """

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=cwd,
            env=environment,
            pass_fds=descriptors,
            start_new_session=True,
            bufsize=0,
        )

    try:
        return _starter().submit(started).result()
    except OSError as err:
        raise InfrastructureError(f"No sandboxed process can be started: {err}.") from err


_starters: dict[int, ThreadPoolExecutor] = {}


def _starter() -> ThreadPoolExecutor:
    """Return the one thread that starts all children of this process.

    Linux kills a child that asked for it when the *thread* that started it ends, so it must be one
    that lives as long as the process. A forked process has none of its parent's threads.
    """
    return _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, "sandbox"))


def start_reaper(program: str, argument: str) -> subprocess.Popen[bytes]:
    """Start a Python file that waits for its stdin to end, as it does when this process is gone."""
    return subprocess.Popen(
        [sys.executable, "-P", program, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def communicate(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    limits: Limits,
    exit_code: Callable[[int], int] = int,
    oom_killed: Callable[[], bool] | None = None,
) -> RunResult:
    """Feed a program, collect what it says, and end it and its group.

    ``exit_code`` turns the process's code into the program's (minus the signal where one ended
    it); ``oom_killed`` asks the kernel whether it killed for memory, where that can be known.
    """
    started = time.monotonic()
    output = Output(process, stdin, limits.output_bytes)
    try:
        timed_out = not output.collect(started + limits.wall_s)
        if not timed_out and not output.flooded:
            left_s = max(0.0, started + limits.wall_s - time.monotonic())
            try:
                process.wait(left_s)
            except subprocess.TimeoutExpired:
                timed_out = True
    finally:
        kill_group(process)
        output.close()
    ending = Ending(
        exit_code(process.returncode),
        bytes(output.texts["stdout"]),
        bytes(output.texts["stderr"]),
        timed_out,
        output.flooded,
        output.truncated,
        time.monotonic() - started,
    )
    return ending.judged(limits, oom_killed)

"""Plays the command line in processes of its own that can be killed, and start at once.

They are forked from a server that has imported everything, so a start costs no seconds. When to
kill is told by what is recorded, not by a clock: a busy machine then changes nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lopd_gym.compare.runner import Runner
    from lopd_gym.run.folder import RunFolder

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "matplotlib.pyplot",
        "transformers.models.qwen3.modeling_qwen3",
        "lopd_gym.cli.main",
        "lopd_gym.compare.runner",
        "lopd_gym.run.training",
        "lopd_envs.envscaler",
        "lopd_learners.lopd",
        "lopd_learners.grpo",
        "lopd_learners.rft",
    ]
)

TINY_RUN = (
    *("run", "--env", "envscaler", "--learner", "lopd"),
    *("--set", "rollouts=112"),
    *("--set", "learner.bank_rollouts=64"),
    *("--set", "episodes_per_step=8"),
    *("--set", "evaluation.tasks=16"),
    *("--set", "evaluation.curve_tasks=8"),
    *("--set", "evaluation.every=2"),
    *("--set", "limits.concurrency=16"),
    *("--set", "learner.cold_start_steps=2"),
)
"""Six training steps after a bank with a few experiences, and two points of the curve."""


def start(output: Path, *arguments: str) -> ForkServerProcess:
    """Start ``lopd-gym`` with these arguments; stdout and stderr go to the file ``output``."""
    process = _SERVER.Process(target=_main, args=(str(output), arguments))
    process.start()
    return process


def start_comparison(output: Path, *arguments: str) -> ForkServerProcess:
    """Start ``lopd-gym compare`` at the head of a process group.

    Its first run is started as it is for users, the others are forked.
    """
    process = _SERVER.Process(target=_compare, args=(str(output), arguments))
    process.start()
    return process


def start_or_resume(folder: Path, *arguments: str) -> ForkServerProcess:
    """Start a run in a folder, or go on with the one that is there."""
    output = folder.with_suffix(".log")
    if (folder / "settings.json").exists():
        return start(output, "run", "--resume", str(folder))
    return start(output, *(arguments or TINY_RUN), "--out", str(folder))


def finish(process: ForkServerProcess, output: Path) -> None:
    """Wait for the end, which must be a good one."""
    process.join()
    assert process.exitcode == 0, output.read_text()


def wait_for_growth(path: Path, process: ForkServerProcess) -> None:
    """Wait until a file has changed, or the process is over."""
    before = path.stat().st_size if path.exists() else 0
    while process.is_alive() and (not path.exists() or path.stat().st_size == before):
        time.sleep(0.01)


def recorded(folder: Path) -> int:
    """Bytes of episodes and metrics that a run, or the runs of a comparison, have written."""
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def wait_until_recorded(folder: Path, size: float, process: ForkServerProcess) -> None:
    """Wait until a folder holds this many bytes of records, or the process is over."""
    while process.is_alive() and recorded(folder) < size:
        time.sleep(0.01)


def _compare(output: str, arguments: tuple[str, ...]) -> None:
    from lopd_gym.compare.runner import Runner

    os.setpgid(0, 0)
    ordinary = Runner._start

    def start_run(runner: Runner, folder: RunFolder, number: int) -> int:
        return ordinary(runner, folder, number) if number == 0 else _fork_run(folder.path)

    Runner._start = start_run  # type: ignore[method-assign]
    _main(output, ("compare", *arguments))


def _fork_run(folder: Path) -> int:
    """Play a run in a fork of this process; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code: object = 1
    try:
        os.closerange(3, 1024)  # among these files are the locks of the runs beside it
        _main(str(folder / "log.txt"), ("run", "--resume", str(folder)))
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if code in (0, None) else 1)


def _main(output: str, arguments: tuple[str, ...]) -> None:
    from lopd_gym.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["lopd-gym", *arguments]
    main()

"""Play the runs of a comparison, each in a process of its own; finished ones are not repeated."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lopd_gym.compare.plan import Plan, PlannedRun, prepare
from lopd_gym.errors import LopdGymError
from lopd_gym.run.folder import RunFolder
from lopd_gym.run.progress import Phase, Reporter

LOG_FILE = "log.txt"
_SHARED = ("nothing", "oracle", "base-sampled", "base-greedy")
"""Evaluations that are the same in all runs: they come before any learner has a say."""


class Runner:
    """Plays what is not finished of a plan, ``jobs`` runs at the same time."""

    def __init__(self, plan: Plan, jobs: int, gpus: Sequence[str], reporter: Reporter) -> None:
        self._plan, self._jobs, self._gpus = plan, jobs, gpus
        self._reporter = reporter
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def go(self) -> list[Path]:
        """Play and return the folders of all runs.

        Raises:
            LopdGymError: Runs failed; the others were played to their end.
        """
        runs = list(self._plan.runs())
        failures: list[str] = []
        with (
            self._reporter.phase("compare", len(runs)) as phase,
            ThreadPoolExecutor(self._jobs) as pool,
            self._stopping(),
        ):
            for failure in pool.map(partial(self._play, phase), range(len(runs)), runs):
                failures += [failure] if failure else []
        if failures:
            raise LopdGymError(
                f"{len(failures)} of {len(runs)} runs failed ({'; '.join(failures)}). Continue "
                f"with: lopd-gym compare --resume {self._plan.folder}"
            )
        return [run.folder for run in runs]

    def _play(self, phase: Phase, number: int, run: PlannedRun) -> str | None:
        """Play one run to its end; returns what went wrong."""
        folder = prepare(run)
        with folder.locked(wait=True):  # by a process that outlived a killed comparison
            finished = folder.summary.exists()
            if not finished:
                self._share_baseline(folder)
        if not finished:
            self._reporter.say(f"{run.title}: started, see {folder.path / LOG_FILE}")
            if self._start(folder, number) != 0:
                phase.advance(note=f"{run.title} failed")
                return None if self._stopped else f"{run.title}: {_last_line(folder.path)}"
        phase.advance(note=run.title)
        return None

    def _start(self, folder: RunFolder, number: int) -> int:
        command = [sys.executable, "-m", "lopd_gym.cli.main", "run", "--resume", str(folder.path)]
        with (folder.path / LOG_FILE).open("ab") as log, self._lock:
            if self._stopped:
                return 1
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env(number)
            )
            self._children.add(child)
        try:
            return child.wait()
        finally:
            self._children.discard(child)

    def _env(self, number: int) -> Mapping[str, str]:
        env = dict(os.environ)
        if self._gpus:
            env["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        elif self._jobs > 1:
            env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self._jobs)))
        return env

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """On Ctrl-C or an error, let the children save what they have."""
        try:
            yield
        except BaseException:
            with self._lock:
                self._stopped = True
                for child in self._children:
                    child.send_signal(signal.SIGINT)
            raise

    def _share_baseline(self, folder: RunFolder) -> None:
        """Copy the evaluations before training from a run that is finished."""
        for donor in self._plan.runs():
            source = RunFolder(donor.folder)
            if not source.summary.exists():
                continue
            for name in _SHARED:
                theirs, mine = source.episodes(name), folder.episodes(name)
                if theirs.exists() and not mine.exists():
                    mine.parent.mkdir(exist_ok=True)
                    temporary = mine.with_name(f".{mine.name}.tmp")
                    shutil.copyfile(theirs, temporary)
                    temporary.replace(mine)
            return


def _last_line(folder: Path) -> str:
    lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it wrote nothing")

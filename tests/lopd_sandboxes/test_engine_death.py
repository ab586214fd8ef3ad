"""A Docker engine that dies under load: nothing is scored, nothing finished is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.lopd_sandboxes.conftest import REQUIRED

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="no dockerd on this machine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of our own needs root"),
]
TASKS = 24


class OwnEngine:
    """An engine that is the test's own, to be killed with its containerd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder / 'docker.sock'}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the engine and wait until it answers."""
        command = ["dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false"]
        for option in ("data-root", "exec-root", "pidfile"):
            command += [f"--{option}", str(self.folder / option)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-H", self.host], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while not (self.folder / "docker.sock").exists() or not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-300:])
            time.sleep(0.1)

    def _answers(self) -> bool:
        command = ["docker", "-H", self.host, "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def kill(self) -> None:
        """Kill the engine, the containerd that it started, and every container under it."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        for pid in self._pids():
            os.kill(pid, signal.SIGKILL)
        # Where nobody reaps the killed, their pids look alive to the next engine.
        for name in ("pidfile", "docker.sock", "exec-root/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop the engine, or kill it, and remove its folder with all that is mounted there."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        self.kill()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (where := line.split()[1]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", where], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _pids(self) -> list[int]:
        """Containerd, and the shims that hold the containers: all name our folder."""
        own = str(self.folder).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:  # it ended meanwhile
                    continue
                if command.split(b"\0")[0].rsplit(b"/")[-1].startswith(b"containerd") and (
                    own in command
                ):
                    found.append(int(entry.name))
        return found


@pytest.fixture
def engine() -> Iterator[OwnEngine]:
    """An engine in a folder of its own; the path of a socket has to be short."""
    folder = Path(f"/tmp/engine-{os.getpid()}")
    folder.mkdir()
    made = OwnEngine(folder)
    try:
        try:
            made.start()
        except RuntimeError as err:
            if "docker" in REQUIRED:
                raise
            pytest.skip(f"no Docker engine starts here: {err}")
        yield made
    finally:
        made.remove()


def evaluate(engine: OwnEngine, out: Path) -> subprocess.Popen[str]:
    """Start the evaluation of the oracle on programming tasks."""
    arguments = [
        *("eval", "--env", "evalplus", "--split", "train", "--script", "oracle", "--no-greedy"),
        *("--tasks", str(TASKS), "--set", "env.sandbox=docker", "--out", str(out)),
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "from lopd_gym.cli.main import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "DOCKER_HOST": engine.host},
    )


def outcomes(path: Path) -> dict[str, bool]:
    """Success by task of the whole lines of a file of episodes."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    plain = [json.loads(line) for line in lines if line.endswith("\n")]
    return {e["task_id"]: e["outcome"]["success"] for e in plain}


def test_an_evaluation_survives_the_death_of_its_engine(engine: OwnEngine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    finished = out / ".oracle.jsonl.finished"
    process = evaluate(engine, out)
    while process.poll() is None and len(outcomes(finished)) < 3:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[0]
    engine.kill()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "episodes failed for reasons of infrastructure" in said
    assert "Traceback" not in said
    kept = [json.loads(line) for line in (out / "oracle.jsonl").open()]
    scored = [e for e in kept if e["outcome"]["termination"] != "infrastructure"]
    assert 3 <= len(scored) < TASKS - 3
    assert all(e["outcome"]["success"] for e in scored), "a dead engine was scored as an answer"
    assert all(e["outcome"]["score"] is None for e in kept if e not in scored)

    engine.start()
    process = evaluate(engine, out)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    episodes = [json.loads(line) for line in (out / "oracle.jsonl").open()]
    assert [e for e in episodes if e in scored] == scored
    assert len(episodes) == TASKS
    assert all(e["outcome"]["success"] for e in episodes)

"""The sandbox without dependencies: it cleans up, and nothing outlives its host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lopd_sandboxes import scratch
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.errors import InfrastructureError
from lopd_gym.registry import SANDBOXES, load
from lopd_gym.sandbox import Limits, RunResult
from tests.lopd_sandboxes.test_contract import ECHO


def python(code: str, **limits: float) -> RunResult:
    return ProcessSandbox().run({}, [sys.executable, "-c", code], limits=Limits(**limits))  # type: ignore[arg-type]


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("lopd-sandbox-*"))


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until_dead(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_it_is_registered() -> None:
    assert load(SANDBOXES, "process") is ProcessSandbox


def test_its_folder_is_cleaned_up() -> None:
    before = folders()
    result = ProcessSandbox().run(
        {"a/b.txt": b"file "}, ["/bin/sh", "-c", "cat a/b.txt -; echo no >&2; exit 3"], b"input"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"file input", b"no\n")
    assert (result.timed_out, result.memory_killed, result.truncated) == (False, False, False)
    assert folders() == before


def test_endless_programs_are_killed_with_their_children() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "print(child.pid, flush=True)\nwhile True: pass"
    )
    result = python(code, wall_s=1.0)
    assert (result.timed_out, result.exit_code) == (True, None)
    assert result.wall_s < 5
    assert wait_until_dead(int(result.stdout))


def test_a_program_that_leaves_a_child_behind_is_over_when_it_ends() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)"
    )
    result = python(code, wall_s=30)
    assert (result.timed_out, result.exit_code) == (False, 0)
    assert wait_until_dead(int(result.stdout))


def test_processor_time_is_limited() -> None:
    result = python("while True: pass", wall_s=30, cpu_s=1)
    assert (result.timed_out, result.memory_killed) == (True, False)


def test_many_threads_hold_sessions() -> None:
    def ask(number: int) -> int:
        session = ProcessSandbox().session(ECHO)
        answer: int = session.request(number)
        session.close()
        return answer

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(16))) == list(range(16))


def test_a_forgotten_session_is_cleaned_up() -> None:
    session = ProcessSandbox().session(ECHO)
    folder, *_ = session.request("look")
    pid = session._process.pid
    del session
    assert wait_until_dead(pid)
    assert not Path(folder).exists()


HOST = """
import time
from lopd_sandboxes.process import ProcessSandbox
session = ProcessSandbox().session(open({program!r}, "rb").read())
folder = session.request("look")[0]
print(session._process.pid, folder, flush=True)
{then}
"""


def start_host(tmp_path: Path, then: str) -> tuple[subprocess.Popen[str], int, Path]:
    program = tmp_path / "echo.py"
    program.write_bytes(ECHO)
    code = HOST.format(program=str(program), then=then)
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    pid, folder = host.stdout.readline().split()
    return host, int(pid), Path(folder).parent


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the Linux kernel's help")
@pytest.mark.parametrize("then", ["session.request('hang', wall_s=60)", "time.sleep(60)"])
def test_a_child_dies_with_a_killed_host_and_its_folder_is_swept(tmp_path: Path, then: str) -> None:
    host, pid, folder = start_host(tmp_path, then)
    assert alive(pid)
    scratch.sweep.cache_clear()
    os.utime(folder, (0, 0))
    scratch.sweep()
    assert folder.exists()  # old, but its owner lives
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert wait_until_dead(pid)
    scratch.sweep.cache_clear()
    os.utime(folder, (0, 0))
    scratch.sweep()
    assert not folder.exists()


def test_a_host_that_just_ends_leaves_nothing(tmp_path: Path) -> None:
    host, pid, folder = start_host(tmp_path, "")
    assert host.wait(30) == 0
    assert wait_until_dead(pid)
    assert not folder.exists()


def test_no_process_at_all_is_an_infrastructure_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(InfrastructureError, match="No sandboxed process can be started"):
        ProcessSandbox().run({}, ["true"])

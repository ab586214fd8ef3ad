"""The sandbox without dependencies: limits, cleanliness, and that nothing outlives its host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
from lopd_sandboxes import scratch
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.errors import InfrastructureError
from lopd_gym.registry import SANDBOXES, load
from lopd_gym.sandbox import PYTHON, Limits, RunResult, SessionDied, SessionTimeout

ECHO = b"""
import json, os, struct, sys, time
while header := sys.stdin.buffer.read(4):
    message = json.loads(sys.stdin.buffer.read(struct.unpack(">I", header)[0]))
    if message == "die":
        raise RuntimeError("my last words")
    if message == "eat":
        x = bytearray(1 << 40)
    if message == "hang":
        while True:
            pass
    if message == "flood":
        sys.stdout.buffer.write(struct.pack(">I", 1 << 31))
        message = None
    if message == "babble":
        sys.stdout.buffer.write(struct.pack(">I", 3) + b"{{{")
        sys.stdout.buffer.flush()
        continue
    if message == "look":
        message = [os.getcwd(), sorted(os.listdir(".")), dict(os.environ), os.listdir("/dev/fd")]
    payload = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(payload)) + payload)
    sys.stdout.buffer.flush()
"""


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


def test_a_program_gets_its_files_and_input_and_is_cleaned_up() -> None:
    before = folders()
    result = ProcessSandbox().run(
        {"a/b.txt": b"file "}, ["/bin/sh", "-c", "cat a/b.txt -; echo no >&2; exit 3"], b"input"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"file input", b"no\n")
    assert (result.timed_out, result.memory_killed, result.truncated) == (False, False, False)
    assert folders() == before


def test_files_stay_inside_the_folder() -> None:
    with pytest.raises(ValueError, match=r"inside the working folder, found '\.\./x'"):
        ProcessSandbox().run({"../x": b""}, ["true"])


def test_a_program_that_does_not_exist_says_so() -> None:
    result = ProcessSandbox().run({}, ["no-such-program"])
    assert result.exit_code == 127
    assert b"no-such-program: No such file" in result.stderr


def test_the_sandboxs_own_python_has_a_name() -> None:
    result = ProcessSandbox().run({"a.py": b"print(6 * 7)"}, [PYTHON, "a.py"])
    assert (result.exit_code, result.stdout) == (0, b"42\n")


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


def test_memory_is_limited() -> None:
    result = python("x = bytearray(1 << 30)", memory_mib=256)
    assert (result.memory_killed, result.timed_out, result.exit_code) == (True, False, 1)
    assert not python("x = bytearray(1 << 26)", memory_mib=256).memory_killed


def test_output_and_files_are_limited() -> None:
    result = python("print('x' * 100_000)", output_bytes=1_000)
    assert (len(result.stdout), result.truncated, result.exit_code) == (1_000, True, 0)
    result = python("open('big', 'wb').write(bytes(2 << 20))", file_mib=1)
    assert b"File too large" in result.stderr


def test_large_input_to_a_deaf_program_does_not_block() -> None:
    result = ProcessSandbox().run({}, ["/bin/sh", "-c", "exit 0"], b"x" * (4 << 20))
    assert result.exit_code == 0


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    session = ProcessSandbox().session(ECHO)
    folder, listing, environment, descriptors = session.request("look")
    assert listing == []
    assert Path(folder).name == "work"
    assert not {"OPENAI_API_KEY", "PYTHONPATH", "USER"} & environment.keys()
    assert len(descriptors) <= 4  # three, and the one that lists them
    session.close()
    assert not Path(folder).exists()


def test_a_session_answers_until_it_is_closed() -> None:
    session = ProcessSandbox().session(ECHO)
    for message in ("text", {"a": [1, None, "é\ud800"]}, "x" * 1_000_000):
        assert session.request(message) == message
    assert session.alive
    session.close()
    session.close()
    assert not session.alive
    with pytest.raises(SessionDied, match="closed"):
        session.request("text")


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_hanging_session_is_killed(size: int) -> None:
    session = ProcessSandbox().session(ECHO, Limits(wall_s=20))
    pid = session._process.pid
    assert session.request("a" * size) == "a" * size
    started = time.monotonic()
    with pytest.raises(SessionTimeout, match=r"0\.3 seconds"):
        session.request("hang", wall_s=0.3)
    assert time.monotonic() - started < 5
    assert not session.alive
    assert wait_until_dead(pid)


def test_a_dead_session_tells_its_last_words() -> None:
    with pytest.raises(SessionDied, match=r"code 1.*my last words") as caught:
        ProcessSandbox().session(ECHO).request("die")
    assert not caught.value.memory_killed


def test_a_session_that_exhausts_its_memory_is_told_apart() -> None:
    with pytest.raises(SessionDied) as caught:
        ProcessSandbox().session(ECHO, Limits(memory_mib=256)).request("eat")
    assert caught.value.memory_killed


@pytest.mark.parametrize(
    ("message", "said"), [("flood", "above the limit"), ("babble", "not JSON")]
)
def test_hostile_answers_end_the_session(message: str, said: str) -> None:
    session = ProcessSandbox().session(ECHO)
    with pytest.raises(SessionDied, match=said):
        session.request(message)
    assert not session.alive


def test_a_session_outlives_the_thread_that_started_it() -> None:
    sessions = []
    thread = Thread(target=lambda: sessions.append(ProcessSandbox().session(ECHO)))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert sessions[0].request("still here") == "still here"
    sessions[0].close()


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

"""What every backend does: programs, input and output, limits, sessions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from lopd_gym.sandbox import PYTHON, Limits, RunResult, Sandbox, SessionDied, SessionTimeout

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


def python(sandbox: Sandbox, code: str, stdin: bytes = b"", **limits: float) -> RunResult:
    return sandbox.run({}, [PYTHON, "-c", code], stdin, Limits(**limits))  # type: ignore[arg-type]


def test_a_program_gets_its_files_and_input(sandbox: Sandbox) -> None:
    code = b"import sys\nprint(open('a/b.txt').read(), sys.stdin.read())\nsys.exit('no')"
    files = {"a/b.txt": b"file", "main.py": code}
    result = sandbox.run(files, [PYTHON, "main.py"], b"input")
    assert (result.exit_code, result.stdout, result.stderr) == (1, b"file input\n", b"no\n")
    assert (result.timed_out, result.memory_killed, result.truncated) == (False, False, False)


@pytest.mark.parametrize("name", ["../x", "/x"])
def test_files_stay_inside_the_folder(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(ValueError, match=f"inside the working folder, found '{name}'"):
        sandbox.run({name: b""}, ["true"])


def test_a_program_that_does_not_exist_says_so(sandbox: Sandbox) -> None:
    result = sandbox.run({}, ["no-such-program"])
    assert result.exit_code == 127
    assert b"no-such-program: No such file" in result.stderr


def test_a_signal_that_ends_a_program_is_told(sandbox: Sandbox) -> None:
    result = python(sandbox, "import os\nos.kill(os.getpid(), 11)")
    assert (result.exit_code, result.memory_killed, result.timed_out) == (-11, False, False)


def test_folders_start_empty(sandbox: Sandbox) -> None:
    with sandbox.lease() as lease:
        for _ in range(2):
            result = python(
                lease, "import os\nprint(os.listdir('.'))\nopen('left', 'w').write('x')"
            )
            assert result.stdout == b"[]\n", result.stderr


def test_input_and_output_are_bytes(sandbox: Sandbox) -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    data = bytes(range(256)) * 8_192  # NUL, invalid UTF-8, no line end, longer than any pipe
    assert python(sandbox, code, data).stdout == data[::-1]


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nfor line in sys.stdin: print(int(line) + 1)",
        "import sys\nwhile line := sys.stdin.buffer.readline(): print(int(line) + 1)",
        "for line in open(0).read().split(): print(int(line) + 1)",
        "import os\nfor x in os.read(0, 1 << 16).split(): print(int(x) + 1)",
        "import os\nwhile True:\n  try: os.write(1, b'%d\\n' % (int(input()) + 1))\n"
        "  except EOFError: os._exit(0)",
    ],
)
def test_every_way_to_read_input_works(sandbox: Sandbox, code: str) -> None:
    assert python(sandbox, code, b"1\n2\n3\n").stdout == b"2\n3\n4\n"


def test_a_slow_reader_of_much_input_gets_all(sandbox: Sandbox) -> None:
    code = "import sys, time\ntime.sleep(.3)\nprint(len(sys.stdin.readline()))"
    assert python(sandbox, code, b"x" * (8 << 20) + b"\n").stdout == b"8388609\n"


def test_large_input_to_a_deaf_program_does_not_block(sandbox: Sandbox) -> None:
    assert python(sandbox, "pass", b"x" * (4 << 20)).exit_code == 0


def test_output_is_kept_until_the_time_is_up(sandbox: Sandbox) -> None:
    result = python(sandbox, "print('so far', flush=True)\nwhile True: pass", wall_s=0.5)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, b"so far\n")


def test_output_and_files_are_limited(sandbox: Sandbox) -> None:
    result = python(sandbox, "print('x' * 100_000)", output_bytes=1_000)
    assert (len(result.stdout), result.truncated, result.exit_code) == (1_000, True, 0)
    result = python(sandbox, "open('big', 'wb').write(bytes(2 << 20))", file_mib=1)
    assert b"File too large" in result.stderr


def test_a_short_output_at_the_limit_is_not_cut(sandbox: Sandbox) -> None:
    result = python(sandbox, "print('x' * 9)", output_bytes=10)
    assert (result.stdout, result.truncated) == (b"xxxxxxxxx\n", False)


def test_memory_is_limited(sandbox: Sandbox) -> None:
    result = python(sandbox, "x = bytearray(1 << 28)\nx[::4096] = x[1::4096]", memory_mib=128)
    assert (result.memory_killed, result.timed_out) == (True, False)
    assert result.exit_code != 0
    enough = python(sandbox, "x = bytearray(1 << 26)\nx[::4096] = x[1::4096]", memory_mib=256)
    assert (enough.memory_killed, enough.exit_code) == (False, 0)


def test_nothing_is_inherited(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    session = sandbox.session(ECHO)
    _, listing, environment, descriptors = session.request("look")
    session.close()
    assert listing == []
    assert not {"OPENAI_API_KEY", "PYTHONPATH", "USER"} & environment.keys()
    assert len(descriptors) <= 4  # three, and the one that lists them


def test_a_session_answers_until_it_is_closed(sandbox: Sandbox) -> None:
    session = sandbox.session(ECHO)
    for message in ("text", {"a": [1, None, "é\ud800"]}, "x" * 1_000_000):
        assert session.request(message) == message
    assert session.alive
    session.close()
    session.close()
    assert not session.alive
    with pytest.raises(SessionDied, match="closed"):
        session.request("text")


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_hanging_session_is_killed(sandbox: Sandbox, size: int) -> None:
    session = sandbox.session(ECHO, Limits(wall_s=20))
    assert session.request("a" * size) == "a" * size
    started = time.monotonic()
    with pytest.raises(SessionTimeout, match=r"0\.3 seconds"):
        session.request("hang", wall_s=0.3)
    assert time.monotonic() - started < 5
    assert not session.alive


def test_a_dead_session_tells_its_last_words(sandbox: Sandbox) -> None:
    with pytest.raises(SessionDied, match=r"code 1.*my last words") as caught:
        sandbox.session(ECHO).request("die")
    assert not caught.value.memory_killed


def test_a_session_that_exhausts_its_memory_is_told_apart(sandbox: Sandbox) -> None:
    with pytest.raises(SessionDied) as caught:
        sandbox.session(ECHO, Limits(memory_mib=256)).request("eat")
    assert caught.value.memory_killed


@pytest.mark.parametrize(
    ("message", "said"), [("flood", "above the limit"), ("babble", "not JSON")]
)
def test_hostile_answers_end_the_session(sandbox: Sandbox, message: str, said: str) -> None:
    session = sandbox.session(ECHO)
    with pytest.raises(SessionDied, match=said):
        session.request(message)
    assert not session.alive


def test_a_session_outlives_the_thread_that_started_it(sandbox: Sandbox) -> None:
    sessions = []
    thread = Thread(target=lambda: sessions.append(sandbox.session(ECHO)))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert sessions[0].request("still here") == "still here"
    sessions[0].close()


def test_parallel_runs_say_what_serial_ones_do(sandbox: Sandbox) -> None:
    def verdict(number: int) -> tuple[int | None, bytes]:
        result = python(sandbox, f"print({number} ** 2)\nif {number} % 3 == 0: exit(3)")
        return result.exit_code, result.stdout

    serial = [verdict(number) for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(verdict, range(6))) == serial

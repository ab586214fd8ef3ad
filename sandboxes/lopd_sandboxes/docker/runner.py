"""Process 1 of a sandbox container: it runs one program after another and cleans up in between.

The host sends this file as the container's command, so it uses the standard library only. They
speak over the container's stdin and stdout, which the host is attached to; a message is a 4-byte
big-endian length, that many bytes of JSON, and then the raw bytes that the JSON announces as
``size``. When the host goes, stdin ends, and with this process the kernel ends all others.

Every program is a fresh process. It has the same user id as this one, so this one makes itself
unreadable, and the kernel keeps signals of its own container from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import select
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import time
from typing import Any

WORK = "/tmp/work"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
CHUNK = 1 << 16
FLOOD_BYTES = 64 << 20
LOOK_S = 0.05
STDERR_TAIL = 2_000
PR_SET_DUMPABLE = 4
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
LIBC = ctypes.CDLL(None)
Header = dict[str, Any]
"""The JSON of a message."""


def main() -> None:
    """Serve until the host hangs up."""
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers, report = (os.dup(descriptor) for descriptor in (0, 1, 2))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    empty_folders()
    while True:
        request, blob = receive(requests)
        if request["op"] == "ping":
            send(answers, {"size": 0})
        elif request["op"] == "run":
            send(answers, *Program(request, blob, requests).run())
        else:
            relay(request, blob, requests, answers, report)


def receive(source: int) -> tuple[Header, bytes]:
    """Read one message; ends this process when there is none."""
    (length,) = struct.unpack(">I", read_exactly(source, 4))
    header = json.loads(read_exactly(source, length))
    return header, read_exactly(source, header["size"])


def read_exactly(source: int, size: int) -> bytes:
    """Read this many bytes; ends this process at the end of input."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(source, min(size - len(data), 1 << 20))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


def send(target: int, header: Header, blob: bytes = b"") -> None:
    """Write one message."""
    text = json.dumps(header).encode()
    write_all(target, struct.pack(">I", len(text)) + text + blob)


def start(argv: list[str], limits: Header, stderr: int) -> subprocess.Popen[bytes]:
    """Start a program with its limits; it is the first to go when memory is short."""

    def limit() -> None:
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else its own /proc is not its own
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
        for name, (soft, hard) in limits.items():
            resource.setrlimit(getattr(resource, name), (soft, hard))

    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=WORK,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=limit,
        bufsize=0,
    )


def oom_kills() -> int:
    """Return how many processes of this container the kernel has killed for their memory."""
    for path in COUNTERS:
        with contextlib.suppress(OSError), open(path) as counter:
            found = re.search(r"^oom_kill (\d+)$", counter.read(), re.M)
            return int(found[1]) if found else 0
    return 0


def kill_all() -> int:
    """Kill and reap every other process of the container; returns how many there were."""
    count = 0
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return count
        count += 1


def empty_folders() -> bool:
    """Leave only an empty working folder behind; False if something cannot be removed."""
    for folder in ("/tmp", "/dev/shm"):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        if os.listdir(folder):
            return False
    os.mkdir(WORK)
    return True


class Program:
    """One program: its files, its pipes, its end."""

    def __init__(self, request: Header, blob: bytes, owner: int) -> None:
        self.request = request
        self.owner = owner
        self.texts = {"stdout": bytearray(), "stderr": bytearray()}
        self.dropped = 0
        view = memoryview(blob)
        for name, size in request["files"]:
            path = os.path.join(WORK, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(view[:size])
            view = view[size:]
        self.stdin = view

    def run(self) -> tuple[Header, bytes]:
        """Run it to its end, clean up after it, and return the answer to the host."""
        before, started = oom_kills(), time.monotonic()
        ending: Header = {"code": 127, "timed_out": False}
        try:
            process = start(self.request["argv"], self.request["rlimits"], subprocess.PIPE)
        except OSError as err:
            self.texts["stderr"] += f"{self.request['argv'][0]}: {err.strerror}\n".encode()
        else:
            ending["timed_out"] = not self.pump(process, started + self.request["wall_s"])
            if process.poll() is None:
                process.kill()
            ending["code"] = process.wait()
        ending |= {"wall_s": time.monotonic() - started, "flooded": self.dropped > FLOOD_BYTES}
        strays = kill_all()
        ending |= {"oom_killed": oom_kills() > before, "truncated": self.dropped > 0}
        ending["clean"] = empty_folders() and strays == 0
        blob = bytes(self.texts["stdout"] + self.texts["stderr"])
        return {**ending, "size": len(blob), "stdout": len(self.texts["stdout"])}, blob

    def pump(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """Feed and read until the program ended, or floods; False at the deadline."""
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        selector = selectors.DefaultSelector()
        selector.register(self.owner, selectors.EVENT_READ, "owner")
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        while self.dropped <= FLOOD_BYTES:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            silent = not {"stdout", "stderr"} & {k.data for k in selector.get_map().values()}
            events = selector.select(0 if silent else min(left_s, LOOK_S))
            if silent or not events:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left_s, LOOK_S) if silent else 0)
                    return True  # where others hold the pipes open, they are strays
            for key, _ in events:
                if key.data == "owner":
                    os._exit(0)  # nothing is sent during a program: the host is gone
                elif key.data == "stdin":
                    self.feed(selector, key.fileobj)
                else:
                    self.read(selector, key.fileobj, self.texts[key.data])
        return True

    def read(self, selector: selectors.BaseSelector, pipe: Any, text: bytearray) -> None:
        """Take in what a pipe holds, and drop what is above the limit."""
        chunk = os.read(pipe.fileno(), CHUNK)
        if not chunk:
            selector.unregister(pipe)
        room = self.request["output_bytes"] - len(text)
        text += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def feed(self, selector: selectors.BaseSelector, pipe: Any) -> None:
        """Write what a pipe takes; close it after the last byte, or if nobody reads."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin = self.stdin[os.write(pipe.fileno(), self.stdin) :]
            if self.stdin:
                return
        selector.unregister(pipe)
        pipe.close()


def relay(request: Header, program: bytes, requests: int, answers: int, report: int) -> None:
    """Connect a program that stays with the host, then tell how it ended and end as well."""
    path = "/tmp/program.py"
    with open(path, "wb") as out:
        out.write(program)
    said = os.open("/tmp/stderr", os.O_RDWR | os.O_CREAT)
    os.unlink("/tmp/stderr")
    before = oom_kills()
    process = start([sys.executable, "-s", "-S", "-P", path], request["rlimits"], said)
    connect(process, requests, answers)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    kill_all()
    text = os.pread(said, STDERR_TAIL, max(0, os.fstat(said).st_size - STDERR_TAIL))
    ending = {"code": process.returncode, "oom_killed": oom_kills() > before}
    ending["said"] = text.decode(errors="replace")
    write_all(report, json.dumps(ending).encode())
    os._exit(0)


def connect(process: subprocess.Popen[bytes], requests: int, answers: int) -> None:
    """Pass bytes both ways until the program closes its output."""
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(stdin, False)
    pending = b""
    poll = select.poll()
    poll.register(stdout, select.POLLIN)
    while True:
        # With events 0 a pipe still tells that its other end is closed: that the host is gone.
        poll.register(requests, 0 if pending else select.POLLIN)
        if pending:
            poll.register(stdin, select.POLLOUT)
        for descriptor, event in poll.poll():
            if descriptor == requests:
                pending += os.read(requests, CHUNK) if event & select.POLLIN else b""
                if event & select.POLLHUP or not pending:
                    os._exit(0)
            elif descriptor == stdin:
                with contextlib.suppress(BrokenPipeError):
                    pending = pending[os.write(stdin, pending) :]
                poll.unregister(stdin)
            else:
                chunk = os.read(stdout, CHUNK)
                if not chunk:
                    return
                write_all(answers, chunk)


def write_all(target: int, data: bytes) -> None:
    """Write all of it, however often that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()

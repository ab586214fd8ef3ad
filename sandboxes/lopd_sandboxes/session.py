"""A child process that stays and answers length-prefixed JSON requests on its pipes."""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import subprocess
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from lopd_gym.sandbox import Limits, SessionDied, SessionTimeout

_HEADER = struct.Struct(">I")
_CHUNK = 1 << 16
_STDERR_TAIL = 2_000


class JsonSession(ABC):
    """Implements `lopd_gym.sandbox.Session` over a stream of bytes to and from a program."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether requests can still be sent."""

    @abstractmethod
    def close(self) -> None:
        """Kill the process; may be called twice."""

    @property
    @abstractmethod
    def _open(self) -> bool:
        """Whether the session was not closed yet."""

    @abstractmethod
    def _write(self, data: bytes, deadline: float) -> None:
        """Write all of it; raises TimeoutError, or BrokenPipeError when the program ended."""

    @abstractmethod
    def _read(self, most: int, deadline: float) -> bytes:
        """Read some bytes, none at the end; raises TimeoutError."""

    @abstractmethod
    def _death(self) -> SessionDied:
        """Describe how the program ended, and close."""

    def request(self, message: Any, wall_s: float | None = None) -> Any:
        """Send a JSON value and return the answer.

        Raises:
            SessionTimeout: No answer within the wall time (seconds); the process is killed.
            SessionDied: The process ended, or answered with something else than JSON.
        """
        if not self._open:
            raise SessionDied("The session was closed.")
        wall_s = self._limits.wall_s if wall_s is None else wall_s
        deadline = time.monotonic() + wall_s
        payload = json.dumps(message).encode()
        try:
            self._write(_HEADER.pack(len(payload)) + payload, deadline)
            answer = self._read_answer(deadline)
        except TimeoutError:
            self.close()
            raise SessionTimeout(f"No answer within {wall_s:g} seconds.") from None
        except (EOFError, BrokenPipeError):
            raise self._death() from None
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as err:
            self.close()
            raise SessionDied(f"The answer is not JSON: {err}.") from err

    def _read_answer(self, deadline: float) -> bytes:
        data = bytearray()
        size = _HEADER.size
        while len(data) < size:
            chunk = self._read(max(_CHUNK, size - len(data)), deadline)
            if not chunk:
                raise EOFError
            data += chunk
            if size == _HEADER.size <= len(data):
                size += self._announced(data)
        return bytes(data[_HEADER.size :])

    def _announced(self, data: bytearray) -> int:
        size: int = _HEADER.unpack_from(data)[0]
        limit = self._limits.output_bytes
        if size > limit:
            self.close()
            raise SessionDied(f"An answer of {size} bytes is above the limit of {limit}.")
        return size


class PipeSession(JsonSession):
    """A session with a child process, over its stdin and stdout.

    ``stderr`` is the file that the process writes its errors to; ``cleanup`` runs once, after the
    process was killed, also when the session is never closed. ``exit_code`` and ``oom_killed`` are
    as for `lopd_sandboxes.start.communicate`.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: Limits,
        stderr: IO[bytes],
        cleanup: Callable[[], None],
        exit_code: Callable[[int], int] = int,
        oom_killed: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(limits)
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stderr = stderr
        self._exit_code, self._oom_killed = exit_code, oom_killed
        self._stdin, self._stdout = process.stdin.fileno(), process.stdout.fileno()
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._stdout, select.POLLIN)
        self._writable.register(self._stdin, select.POLLOUT)
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe, False)
        self._end = weakref.finalize(self, end_process, process, stderr, cleanup)

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return self._open and self._process.poll() is None

    @property
    def _open(self) -> bool:
        return self._end.alive

    def close(self) -> None:
        """Kill the process; may be called twice."""
        self._end()

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                wait_for(self._writable, deadline)

    def _read(self, most: int, deadline: float) -> bytes:
        wait_for(self._readable, deadline)
        return os.read(self._stdout, most)

    def _death(self) -> SessionDied:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        code = None if code is None else self._exit_code(code)
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - _STDERR_TAIL)
        said = os.pread(self._stderr.fileno(), _STDERR_TAIL, start).decode(errors="replace")
        memory = out_of_memory(code, said, self._oom_killed)
        self.close()
        return died(code, said, memory)


def died(code: int | None, said: str, memory_killed: bool) -> SessionDied:
    """Build the error for a process that ended, with the last line that it said."""
    last_line = (said.strip().splitlines() or ["it said nothing"])[-1]
    message = f"The process ended with code {code}: {last_line}"
    return SessionDied(message, memory_killed=memory_killed)


def out_of_memory(
    code: int | None, said: str, oom_killed: Callable[[], bool] | None = None
) -> bool:
    """Tell from exit code and errors whether a memory limit ended a process.

    Under an address-space limit allocations fail, and a program says so in its own words. The
    kernel's out-of-memory killer sends SIGKILL: ``oom_killed`` asks it, where that is possible.
    """
    words = ("MemoryError", "bad_alloc", "Cannot allocate memory")
    if code not in (0, -signal.SIGKILL) and any(word in said for word in words):
        return True
    return code == -signal.SIGKILL if oom_killed is None else oom_killed()


def end_process(
    process: subprocess.Popen[bytes], stderr: IO[bytes], cleanup: Callable[[], None]
) -> None:
    """Kill a process with its group, close its pipes and clean up."""
    kill_group(process)
    for pipe in (process.stdin, process.stdout, stderr):
        if pipe is not None:
            pipe.close()
    cleanup()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own group, and everything left in the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(poll: select.poll, deadline: float) -> None:
    """Wait until a pipe is ready; raises TimeoutError at the deadline."""
    left_ms = (deadline - time.monotonic()) * 1_000
    if left_ms <= 0 or not poll.poll(left_ms):
        raise TimeoutError

"""The contract for running code that is not ours.

Backends live in `lopd_sandboxes` (or a third party's package) and are found by name through the
entry-point group ``lopd_gym.sandboxes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

PYTHON = "python3"
"""As the first word of a command: the backend's own Python, whatever its path."""


class Isolation(IntEnum):
    """How far a backend keeps programs from the host; ``docs/sandbox.md`` says against what.

    `NAMESPACES` limits memory by address space alone; `NAMESPACES_CGROUP` has the kernel count.
    """

    NONE = 0
    NAMESPACES = 1
    NAMESPACES_CGROUP = 2
    CONTAINER = 3
    GVISOR = 4

    @property
    def label(self) -> str:
        """The level in lower case, as it is recorded."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a backend works here: its level, or None and what to do about it."""

    isolation: Isolation | None
    detail: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one sandboxed process; for a session, ``wall_s`` holds for each request."""

    wall_s: float = 10.0
    cpu_s: float | None = None
    memory_mib: int = 1024
    processes: int = 16
    output_bytes: int = 4 << 20
    file_mib: int = 16


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one sandboxed program ended."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    memory_killed: bool = False
    truncated: bool = False
    wall_s: float = 0.0


class SessionTimeout(Exception):
    """A request took longer than its wall time; the session's process was killed."""


class SessionDied(Exception):
    """The session's process ended; ``memory_killed`` says whether its memory limit did it."""

    def __init__(self, message: str, *, memory_killed: bool = False) -> None:
        super().__init__(message)
        self.memory_killed = memory_killed


class Session(Protocol):
    """A sandboxed process that stays and answers length-prefixed JSON requests."""

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        ...

    def request(self, message: Any, wall_s: float | None = None) -> Any:
        """Send a JSON value and return the answer.

        Raises:
            SessionTimeout: No answer within the wall time; the process is killed.
            SessionDied: The process ended before it answered.
        """
        ...

    def close(self) -> None:
        """Kill the process; may be called twice."""
        ...


class Sandbox(Protocol):
    """One isolation backend, made without arguments.

    Making it raises `InfrastructureError` where it does not work; it never does less instead. The
    class may have class methods for ``lopd-gym sandbox``: ``build()`` makes what programs run on
    and says where that is, ``clean()`` removes what killed processes left and returns its names.
    """

    name: str
    isolation: Isolation

    @classmethod
    def probe(cls) -> Probe:
        """Return whether the backend works here, found out by trying it."""
        ...

    def lease(self) -> AbstractContextManager[Sandbox]:
        """Return a sandbox for the programs of one episode, which no other episode shares.

        Programs of a lease may share what is costly to make, such as a container; each still
        starts in a fresh folder, with no process of an earlier one around.
        """
        ...

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a program to its end in a fresh working folder that holds ``files``."""
        ...

    def session(self, program: bytes, limits: Limits | None = None) -> Session:
        """Start a Python program that stays: it reads requests on fd 0, answers on fd 1.

        Each message is a 4-byte big-endian length and that many bytes of JSON.
        """
        ...

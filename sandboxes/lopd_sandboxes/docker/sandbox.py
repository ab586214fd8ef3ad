"""`DockerSandbox`: one container for each episode, from a pool of warm ones."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from lopd_gym.containment import broken_walls
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Isolation, Limits, Probe, RunResult, SessionDied
from lopd_sandboxes.docker.container import Container, ContainerLost, Shape, rlimits
from lopd_sandboxes.docker.engine import Engine, image_name
from lopd_sandboxes.docker.pool import Pool
from lopd_sandboxes.paths import inside
from lopd_sandboxes.session import JsonSession, died

_TRIES = 2
"""A container that is lost says nothing about the program, so the program gets another."""

_LAST_WORDS_S = 5.0


class DockerSandbox:
    """Runs programs in containers that have no network, no privilege and no disk.

    A container serves one lease and is then removed; one in which a limit was reached is replaced
    at once. ``idle`` containers of each shape in use wait for the next lease.

    Raises:
        InfrastructureError: No engine answers, or no container can be started.
    """

    name = "docker"

    def __init__(self, idle: int = 1) -> None:
        engine = Engine()
        image = engine.image()
        engine.sweep()
        engine.watch()
        self.isolation = engine.isolation
        self._pool = Pool(lambda shape: Container(engine, image, shape), idle)
        self._end = weakref.finalize(self, _close, self._pool, engine)

    @classmethod
    def probe(cls) -> Probe:
        """Return whether it works here: try it, and look around from inside."""
        try:
            sandbox = cls(idle=0)
            try:
                broken = broken_walls(sandbox)
            finally:
                sandbox.close()
        except InfrastructureError as err:
            return Probe(None, str(err).rstrip("."))
        if broken:
            return Probe(None, f"{'; '.join(broken)}: see the engine's settings")
        return Probe(sandbox.isolation, "containers without network, privileges or disk")

    @classmethod
    def build(cls) -> str:
        """Make the image that containers start from, also where there is one, and name it."""
        engine = Engine()
        try:
            engine.build_image()
            return image_name()
        finally:
            engine.close()

    @classmethod
    def clean(cls) -> list[str]:
        """Remove the containers of processes that are gone, and return their names."""
        engine = Engine()
        try:
            return engine.sweep()
        finally:
            engine.close()

    def close(self) -> None:
        """Remove all containers; may be called twice. Also happens when the process ends."""
        self._end()

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Return a sandbox of its own containers, which are removed at the end."""
        lease = Lease(self._pool, self.isolation)
        try:
            yield lease
        finally:
            lease.close()

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a program to its end in a container of its own, in a folder that holds ``files``.

        Raises:
            InfrastructureError: The engine fails, or loses the container twice.
        """
        with self.lease() as lease:
            return lease.run(files, argv, stdin, limits)

    def session(self, program: bytes, limits: Limits | None = None) -> ContainerSession:
        """Start a Python program that stays: it reads requests on fd 0, answers on fd 1.

        Raises:
            InfrastructureError: No container can be started.
        """
        limits = limits or Limits()
        return ContainerSession(self._pool.take(Shape.of(limits)), program, limits, self._pool)


class Lease:
    """A `lopd_gym.sandbox.Sandbox` whose programs share containers, one after the other."""

    name = DockerSandbox.name

    def __init__(self, pool: Pool, isolation: Isolation) -> None:
        self.isolation = isolation
        self._pool = pool
        self._kept: dict[Shape, Container] = {}

    @classmethod
    def probe(cls) -> Probe:
        """Return what `DockerSandbox.probe` does."""
        return DockerSandbox.probe()

    def lease(self) -> AbstractContextManager[Lease]:
        """Return itself: a lease is one already."""
        return nullcontext(self)

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a program as `DockerSandbox.run` does, in the container of the one before."""
        limits = limits or Limits()
        shape = Shape.of(limits)
        placed = {inside(name): content for name, content in files.items()}
        reason = ""
        for _ in range(_TRIES):
            container = self._kept.pop(shape, None) or self._pool.take(shape)
            fit = False
            try:
                result, fit = container.run(placed, argv, stdin, limits)
                return result
            except ContainerLost as err:
                reason = str(err)
            finally:
                if not fit or self._kept.setdefault(shape, container) is not container:
                    self._pool.destroy(container)
        raise InfrastructureError(f"A sandbox container was lost {_TRIES} times: {reason}.")

    def session(self, program: bytes, limits: Limits | None = None) -> ContainerSession:
        """Start a program that stays, in a container of its own."""
        limits = limits or Limits()
        return ContainerSession(self._pool.take(Shape.of(limits)), program, limits, self._pool)

    def close(self) -> None:
        """Remove its containers."""
        while self._kept:
            self._pool.destroy(self._kept.popitem()[1])


class ContainerSession(JsonSession):
    """A session with a program in a container of its own, which ends with it."""

    def __init__(self, container: Container, program: bytes, limits: Limits, pool: Pool) -> None:
        super().__init__(limits)
        assert container.stream is not None
        self._container = container
        self._stream = container.stream
        self._dead = False
        self._end = weakref.finalize(self, pool.destroy, container)
        request = {"op": "session", "rlimits": rlimits(limits)}
        try:
            self._stream.send_message(request, program, time.monotonic() + _LAST_WORDS_S)
        except (TimeoutError, BrokenPipeError) as err:
            self.close()
            raise InfrastructureError(f"A sandbox container was lost: {err}.") from err

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return self._open and not self._stream.ended()

    @property
    def _open(self) -> bool:
        return self._end.alive

    def close(self) -> None:
        """Remove the container; may be called twice."""
        self._end()

    def _write(self, data: bytes, deadline: float) -> None:
        self._stream.write(data, deadline)

    def _read(self, most: int, deadline: float) -> bytes:
        return self._stream.read(most, deadline)

    def _death(self) -> SessionDied:
        """Return what the runner reports; without a report the container itself was lost."""
        try:
            report = json.loads(self._stream.read_stderr(time.monotonic() + _LAST_WORDS_S))
            code, said, memory = report["code"], report["said"], report["oom_killed"]
        except (TimeoutError, ValueError, KeyError, TypeError):
            code, said, memory = None, "the container was lost", self._container.ran_out_of_memory()
        self.close()
        return died(code, said, memory or "MemoryError" in said)


def _close(pool: Pool, engine: Engine) -> None:
    pool.close()
    engine.close()

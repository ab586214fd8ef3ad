"""Containers that are started ahead of time, so that a program need not wait for one."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lopd_gym.errors import InfrastructureError
from lopd_sandboxes.docker.container import Container, Shape

_STARTS_AT_ONCE = 4
"""More do not start faster: the engine works one after the other."""


class Pool:
    """Hands out fresh containers; none is handed out twice.

    ``idle`` of each shape that was asked for are kept waiting. ``make`` starts one.
    """

    def __init__(self, make: Callable[[Shape], Container], idle: int) -> None:
        self._make = make
        self._wanted = idle
        self._lock = threading.Lock()
        self._idle: dict[Shape, deque[Container]] = defaultdict(deque)
        self._coming: dict[Shape, int] = defaultdict(int)
        self._live: set[Container] = set()
        self._starts = threading.Semaphore(_STARTS_AT_ONCE)
        self._workers = ThreadPoolExecutor(_STARTS_AT_ONCE, "containers")
        self._closed = False

    def take(self, shape: Shape) -> Container:
        """Return a container whose runner answers, for the caller alone.

        Raises:
            InfrastructureError: The engine cannot start one.
        """
        while True:
            with self._lock:
                container = self._idle[shape].popleft() if self._idle[shape] else None
            self._refill(shape)
            if container is None:
                return self._start(shape)
            if container.is_healthy():
                return container
            self.destroy(container)

    def destroy(self, container: Container) -> None:
        """Remove a container in the background; it is never used again."""
        with self._lock:
            self._live.discard(container)
        try:
            self._workers.submit(container.destroy)
        except RuntimeError:  # the pool is closed, or the interpreter is ending
            container.destroy()

    def close(self) -> None:
        """Remove all containers, those handed out included; may be called twice."""
        with self._lock:
            self._closed = True
        self._workers.shutdown()
        with self._lock:
            live, self._live = self._live, set()
            self._idle.clear()
        for container in live:
            container.hang_up()  # so that they end at the same time
        for container in live:
            container.destroy()

    def _start(self, shape: Shape) -> Container:
        with self._starts:
            container = self._make(shape)
        with self._lock:
            self._live.add(container)
            closed = self._closed
        if closed:
            container.destroy()
            raise InfrastructureError("The sandbox was closed.")
        return container

    def _refill(self, shape: Shape) -> None:
        with self._lock:
            if self._closed:
                raise InfrastructureError("The sandbox was closed.")
            missing = self._wanted - len(self._idle[shape]) - self._coming[shape]
            self._coming[shape] += max(0, missing)
            for _ in range(missing):
                self._workers.submit(self._start_idle, shape)

    def _start_idle(self, shape: Shape) -> None:
        container = None
        with suppress(InfrastructureError):  # whoever needs one meets it, and is told
            container = self._start(shape)
        with self._lock:
            self._coming[shape] -= 1
            if container is not None:
                self._idle[shape].append(container)

"""One container: started with every door shut, then given programs through its runner."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Limits, RunResult
from lopd_sandboxes.docker import runner
from lopd_sandboxes.docker.engine import ENGINE_ERRORS, Engine
from lopd_sandboxes.docker.stream import Stream
from lopd_sandboxes.ending import Ending
from lopd_sandboxes.seccomp import profile_text

RUNNER_MIB = 32
"""What the runner itself may need of the container's memory."""

_MARGIN_S = 5.0
"""How long after a program's own limit the host waits for the runner's answer."""

_START_S = 30.0
_DESCRIPTORS = 256


class Shape(NamedTuple):
    """The limits that a container is created with; it serves programs with these only."""

    memory_mib: int
    processes: int
    file_mib: int

    @classmethod
    def of(cls, limits: Limits) -> Shape:
        """Return the shape that programs with these limits need."""
        return cls(limits.memory_mib, limits.processes, limits.file_mib)


class ContainerLost(Exception):
    """The container ended by itself, or its runner does not answer."""


class Container:
    """A started container whose runner waits for a program."""

    def __init__(self, engine: Engine, image: str, shape: Shape) -> None:
        """Create, attach and start it.

        Raises:
            InfrastructureError: The engine fails.
        """
        self.shape = shape
        self.name = f"lopd-gym-{uuid.uuid4().hex[:12]}"
        self.started = time.time()
        self._engine = engine
        self.stream: Stream | None = None
        try:
            options = container_options(shape, engine)
            api = engine.api
            made = engine.client.containers.create(image, name=self.name, **options)
            wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self.stream = Stream(api.attach_socket(made.id, params=wanted))
            api.start(made.id)
            self._ping(_START_S)
        except (*ENGINE_ERRORS, ContainerLost) as err:
            self.destroy()
            raise InfrastructureError(f"No sandbox container can be started: {err}.") from err

    def hang_up(self) -> None:
        """Close the connection: the runner ends then, and the engine removes the container."""
        if self.stream is not None:
            self.stream.close()

    def destroy(self) -> None:
        """Kill and remove it."""
        self.hang_up()
        with suppress(*ENGINE_ERRORS):  # the runner's end removes it as well, and so does a sweep
            self._engine.remove(self.name)

    def is_healthy(self) -> bool:
        """Return whether its runner answers."""
        try:
            self._ping(_MARGIN_S)
        except ContainerLost:
            return False
        return True

    def run(
        self, files: Mapping[str, bytes], argv: Sequence[str], stdin: bytes, limits: Limits
    ) -> tuple[RunResult, bool]:
        """Run a program; also returns whether the container is fit for another of its lease.

        Raises:
            ContainerLost: It ended meanwhile; that says nothing about the program.
        """
        request = {
            "op": "run",
            "argv": list(argv),
            "files": [(name, len(content)) for name, content in files.items()],
            "rlimits": rlimits(limits),
            "wall_s": limits.wall_s,
            "output_bytes": limits.output_bytes,
        }
        began = time.monotonic()
        try:
            answer, blob = self._ask(
                request,
                b"".join((*files.values(), stdin)),
                2 * limits.output_bytes,
                limits.wall_s + _MARGIN_S,
            )
            said = int(answer["stdout"])
            ending = Ending(
                int(answer["code"]), blob[:said], blob[said:], bool(answer["timed_out"]),
                bool(answer["flooded"]), bool(answer["truncated"]), float(answer["wall_s"]),
            )  # fmt: skip
            oom_killed = bool(answer["oom_killed"])
            fit = bool(answer["clean"]) and not (ending.timed_out or ending.flooded or oom_killed)
        except TimeoutError:  # so busy with the program that the runner cannot answer
            ending = Ending(-9, b"", b"", True, False, False, time.monotonic() - began)
            oom_killed = fit = False
        except (EOFError, BrokenPipeError) as err:
            if not self.ran_out_of_memory():
                raise ContainerLost(self._last_words()) from err
            ending = Ending(-9, b"", b"", False, False, False, time.monotonic() - began)
            oom_killed, fit = True, False
        except (KeyError, TypeError, ValueError) as err:
            raise ContainerLost(f"its runner's answer makes no sense: {err}") from err
        return ending.judged(limits, lambda: oom_killed), fit

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed one of its processes for memory."""
        return self._engine.ran_out_of_memory(self.name, self.started)

    def _ping(self, wait_s: float) -> None:
        try:
            self._ask({"op": "ping"}, b"", 0, wait_s)
        except TimeoutError as err:
            raise ContainerLost(f"its runner does not answer within {wait_s:g} s") from err
        except (EOFError, BrokenPipeError, KeyError, TypeError, ValueError) as err:
            raise ContainerLost(self._last_words()) from err

    def _ask(
        self, request: dict[str, Any], blob: bytes, most: int, wait_s: float
    ) -> tuple[dict[str, Any], bytes]:
        assert self.stream is not None
        deadline = time.monotonic() + wait_s
        self.stream.send_message(request, blob, deadline)
        return self.stream.receive_message(most, deadline)

    def _last_words(self) -> str:
        assert self.stream is not None
        said = self.stream.stderr.decode(errors="replace").strip().splitlines()
        return said[-1] if said else "it ended without a word"


def rlimits(limits: Limits) -> dict[str, tuple[int, int]]:
    """Return the limits that each program's process gets, as (soft, hard)."""
    size = limits.file_mib << 20
    values = {"RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (size, size)}
    if limits.cpu_s is not None:
        seconds = math.ceil(limits.cpu_s)
        values["RLIMIT_CPU"] = (seconds, seconds + 1)
    return values


def container_options(shape: Shape, engine: Engine) -> dict[str, Any]:
    """Return how a container is created: no network, no privilege, nothing to write but memory."""
    memory = (shape.memory_mib + RUNNER_MIB) << 20
    folder = f"rw,noexec,nosuid,nodev,mode=1777,size={4 * shape.file_mib}m"
    source = Path(runner.__file__).read_text(encoding="utf-8")
    return {
        "command": ["python3", "-I", "-S", "-c", source],
        "entrypoint": [],
        "runtime": engine.runtime,
        "labels": engine.labels(),
        "environment": {"PATH": runner.ENVIRONMENT["PATH"]},
        "hostname": "sandbox",
        "working_dir": "/tmp",
        "user": "65534:65534",
        "network_mode": "none",
        "ipc_mode": "private",
        "read_only": True,
        "tmpfs": {"/tmp": folder},
        "shm_size": "8m",
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": shape.processes + 1,
        "nano_cpus": 10**9,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges", f"seccomp={json.dumps(json.loads(profile_text()))}"],
        "ulimits": _ulimits(),
        "log_config": {"type": "none"},
        "stdin_open": True,
        "auto_remove": True,
    }


def _ulimits() -> list[dict[str, Any]]:
    values = {"nofile": _DESCRIPTORS, "core": 0}
    return [{"name": name, "soft": value, "hard": value} for name, value in values.items()]

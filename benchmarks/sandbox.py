"""Sandboxed programs: the cold start, one after the other, and several at once.

    python -m benchmarks.sandbox [N]

N programs (200 unless told) that print one line run one after the other, then with 1, 2 and 4 at
a time, each worker with a lease of its own: through Docker's runner, through `docker exec` in the
same containers (what the runner replaces), through bubblewrap, as plain processes, and through
sessions of llm-sandbox on the same image, where that package is installed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import docker
import numpy as np
from lopd_sandboxes.bubblewrap import BubblewrapSandbox
from lopd_sandboxes.docker import DockerSandbox
from lopd_sandboxes.docker.container import Shape
from lopd_sandboxes.docker.engine import image_name
from lopd_sandboxes.process import ProcessSandbox

from benchmarks.report import report
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import PYTHON, Limits, Sandbox

POOLS = (1, 2, 4)
TARGET_MS = 40.0
CODE = "print(6 * 7)"
ARGV = [PYTHON, "-I", "-c", CODE]
Job = Callable[[], str]
Opened = Callable[[], AbstractContextManager[Job]]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    contenders = (by_runner, by_exec, by_bubblewrap, by_process, by_llm_sandbox)
    for contender in contenders:
        try:
            contender(count)
        except (ImportError, InfrastructureError) as err:
            print(f"{contender.__name__}: not measured: {err}")


def by_runner(count: int) -> None:
    sandbox = DockerSandbox(idle=0)
    measure("docker, runner", lambda: leased(sandbox), count, TARGET_MS)
    sandbox.close()


def by_exec(count: int) -> None:
    sandbox = DockerSandbox(idle=0)
    client = docker.from_env()

    @contextmanager
    def opened() -> Iterator[Job]:
        container = sandbox._pool.take(Shape.of(Limits()))
        found = client.containers.get(container.name)
        yield lambda: str(found.exec_run(ARGV).output.decode())
        sandbox._pool.destroy(container)

    measure("docker exec", opened, count)
    sandbox.close()


def by_bubblewrap(count: int) -> None:
    sandbox = BubblewrapSandbox()
    measure("bubblewrap", lambda: leased(sandbox), count)


def by_process(count: int) -> None:
    sandbox = ProcessSandbox()
    measure("process (no isolation)", lambda: leased(sandbox), count)


def by_llm_sandbox(count: int) -> None:
    from llm_sandbox import SandboxSession

    @contextmanager
    def opened() -> Iterator[Job]:
        stay = [PYTHON, "-c", "import time; time.sleep(3_600)"]
        options = {"network_mode": "none", "user": "0:0", "command": stay}
        with SandboxSession(
            lang="python",
            image=image_name(),
            workdir="/tmp",
            skip_environment_setup=True,
            runtime_configs=options,
        ) as session:
            yield lambda: str(session.run(CODE).stdout)

    measure("llm-sandbox", opened, count)


@contextmanager
def leased(sandbox: Sandbox) -> Iterator[Job]:
    with sandbox.lease() as lease:
        yield lambda: lease.run({}, ARGV).stdout.decode()


def measure(name: str, opened: Opened, count: int, target_ms: float | None = None) -> None:
    """Measure and report; ``opened`` gives a worker its means to run the program."""
    started = time.perf_counter()
    with opened() as job:
        assert job().strip() == "42", job()
        cold_ms = 1e3 * (time.perf_counter() - started)
        warm_ms = [1e3 * seconds(job) for _ in range(count)]
    p50, p99 = np.percentile(warm_ms, [50, 99])
    values: dict[str, tuple[float, float | None]] = {
        "cold start, first program included (ms)": (cold_ms, None),
        "warm program, p50 (ms)": (float(p50), target_ms),
        "warm program, p99 (ms)": (float(p99), None),
    }
    for pool in POOLS:
        values[f"programs per second, {pool} at a time"] = (rate(opened, count, pool), None)
    report(name, values)


def rate(opened: Opened, count: int, pool: int) -> float:
    """Return programs per second with ``pool`` workers that start together, all of them warm."""
    together = threading.Barrier(pool + 1)

    def work(share: int) -> None:
        with opened() as job:
            job()
            together.wait()
            for _ in range(share):
                job()
            together.wait()

    with ThreadPoolExecutor(pool) as threads:
        done = [threads.submit(work, count // pool) for _ in range(pool)]
        together.wait()
        started = time.perf_counter()
        together.wait()
        elapsed_s = time.perf_counter() - started
        for future in done:
            future.result()
    return count // pool * pool / elapsed_s


def seconds(job: Job) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

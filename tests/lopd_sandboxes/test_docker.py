"""Docker: its containers, its pool, and what is left when an owner or a container is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lopd_sandboxes.docker import DockerSandbox
from lopd_sandboxes.docker import engine as engine_module
from lopd_sandboxes.docker.container import Container, Shape, container_options
from lopd_sandboxes.docker.engine import OWNER_LABEL, Engine, pack
from lopd_sandboxes.rootfs import python_root

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import PYTHON, Isolation, Limits, SessionDied
from tests.lopd_sandboxes.conftest import make, processes_with, wait_until
from tests.lopd_sandboxes.test_contract import ECHO, python

SMALL = Limits(memory_mib=128, processes=4)


@pytest.fixture(scope="module", autouse=True)
def works() -> None:
    make("docker")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def fresh() -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(idle=1)
    yield sandbox
    sandbox.close()


def ours(engine: Engine, sandbox: DockerSandbox | None = None) -> set[str]:
    """Names of the containers of one sandbox, or of all."""
    label = OWNER_LABEL if sandbox is None else f"{OWNER_LABEL}={owner(sandbox)}"
    return {c["Names"][0].lstrip("/") for c in engine.api.containers(filters={"label": label})}


def owner(sandbox: DockerSandbox) -> Path:
    peeked: Any = sandbox._end.peek()
    path: Path = peeked[2][1].owner.path
    return path


def test_a_lease_keeps_its_container_and_then_removes_it(
    fresh: DockerSandbox, engine: Engine
) -> None:
    # Containers of one pool may start in the same tick of the clock, but not in one namespace.
    look = (
        "import os\nprint(os.stat('/proc/1').st_ctime_ns, os.readlink('/proc/self/ns/mnt'), "
        "os.listdir('/tmp'))"
    )
    with fresh.lease() as lease:
        first, second = (python(lease, look).stdout for _ in range(2))
        (container,) = lease._kept.values()
        assert container.name in ours(engine, fresh)
    with fresh.lease() as lease:
        other = python(lease, look).stdout
    assert first == second != other
    assert wait_until(lambda: container.name not in ours(engine, fresh))


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import os, time\nif os.fork() == 0: time.sleep(60)",
        "x = []\nwhile True: x.append(b'x' * (1 << 20))",
        "while True: print('x' * 100_000)",
    ],
)
def test_after_a_limit_or_a_stray_the_container_is_replaced(
    fresh: DockerSandbox, code: str
) -> None:
    limits = Limits(wall_s=1.0, memory_mib=128, processes=4)
    with fresh.lease() as lease:
        lease.run({}, [PYTHON, "-c", code], limits=limits)
        assert not lease._kept
        assert lease.run({}, [PYTHON, "-c", "print(1)"], limits=limits).stdout == b"1\n"


def test_the_runner_cannot_be_read_signalled_or_traced(fresh: DockerSandbox) -> None:
    code = """
import os
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/fd/3", "/proc/1/maps", "/proc/1/cwd/x"):
    try:
        open(path, "rb").read(1)
        print("read", path)
    except OSError:
        pass
for number in (2, 9, 15, 19, 11):
    os.kill(1, number)
print("done")
"""
    with fresh.lease() as lease:
        assert python(lease, code).stdout == b"done\n"
        assert lease._kept  # the container is still good
        assert python(lease, "print(2)").stdout == b"2\n"


def test_a_dead_container_of_the_pool_is_not_handed_out(
    fresh: DockerSandbox, engine: Engine
) -> None:
    python(fresh, "pass")
    assert wait_until(lambda: any(fresh._pool._idle.values()))
    (idle,) = fresh._pool._idle[Shape.of(Limits())]
    engine.api.kill(idle.name)
    assert python(fresh, "print(1)").stdout == b"1\n"


def test_a_container_killed_under_a_program_is_replaced_once(
    fresh: DockerSandbox, engine: Engine
) -> None:
    with fresh.lease() as lease, ThreadPoolExecutor() as threads:
        future = threads.submit(python, lease, "import time\ntime.sleep(2)\nprint(1)")
        idle = fresh._pool._idle[Shape.of(Limits())]
        assert wait_until(lambda: fresh._pool._live - set(idle))
        time.sleep(0.5)
        for container in fresh._pool._live - set(idle):
            engine.api.kill(container.name)
        assert future.result().stdout == b"1\n"


def test_a_container_that_always_dies_is_an_infrastructure_failure(
    fresh: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Container.run

    def killed(self: Container, *arguments: Any) -> Any:
        self._engine.api.kill(self.name)
        return real(self, *arguments)

    monkeypatch.setattr(Container, "run", killed)
    with pytest.raises(InfrastructureError, match="was lost 2 times"):
        python(fresh, "print(1)")


def test_a_session_tells_that_its_container_was_killed(
    fresh: DockerSandbox, engine: Engine
) -> None:
    session = fresh.session(ECHO)
    assert session.request("x") == "x"
    engine.api.kill(session._container.name)
    with pytest.raises(SessionDied) as caught:
        session.request("x")
    assert not caught.value.memory_killed
    assert not session.alive


HOST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from lopd_sandboxes.docker import DockerSandbox
from lopd_sandboxes.docker import engine as engine_module
from lopd_gym.sandbox import PYTHON, Limits
sandbox = DockerSandbox()
def work(_):
    sandbox.run({}, [PYTHON, "-c", "import time; time.sleep(60)"], limits=Limits(60, None, 64, 2))
session = sandbox.session(open(sys.argv[1], "rb").read())
session.request("x")
with ThreadPoolExecutor(50) as threads:
    threads.submit(session.request, "hang", 60)
    for number in range(49):
        threads.submit(work, number)
    print(sandbox._end.peek()[2][1].owner.path, flush=True)
"""


def test_a_killed_owner_leaves_nothing(tmp_path: Path, engine: Engine) -> None:
    """Of its 50 episodes some run, others are being started or created: an engine needs a while."""
    program = tmp_path / "echo.py"
    program.write_bytes(ECHO)
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(program)], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    folder = host.stdout.readline().strip()

    labelled = {"label": f"{OWNER_LABEL}={folder}"}

    def left() -> list[Any]:
        return engine.api.containers(all=True, filters=labelled)  # type: ignore[no-any-return]

    assert wait_until(lambda: len([c for c in left() if c["State"] == "running"]) >= 5, 60)
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert wait_until(lambda: not left(), 30)
    assert wait_until(lambda: not processes_with(folder), 30)  # the reaper waits for latecomers


def test_a_container_that_a_killed_owner_was_about_to_start_is_removed(engine: Engine) -> None:
    """The reaper removes it: nothing in it could tell that the owner is gone."""
    owner = Engine()
    options = container_options(Shape.of(SMALL), owner)
    owner.watch()
    name = "lopd-gym-test-unstarted"
    engine.client.containers.create(engine.image(), name=name, **options)
    assert owner._reaper is not None
    assert owner._reaper.stdin is not None
    owner._reaper.stdin.close()  # as the kernel does for a killed owner
    assert owner._reaper.wait(30) == 0
    owner._reaper = None
    assert not engine.api.containers(all=True, filters={"name": name})
    owner.close()


def test_the_sweep_removes_what_dead_owners_left_and_nothing_else(
    fresh: DockerSandbox, engine: Engine
) -> None:
    python(fresh, "pass")
    options = container_options(Shape.of(SMALL), engine)
    options["labels"][OWNER_LABEL] = "/no/such/owner"
    options["name"] = "lopd-gym-test-orphan"
    engine.client.containers.create(engine.image(), **options)
    assert wait_until(lambda: len(ours(engine, fresh)) == 1)
    kept = ours(engine, fresh)
    assert "lopd-gym-test-orphan" in engine.sweep()
    assert ours(engine, fresh) == kept
    assert engine.sweep() == []


def test_connections_are_closed(fresh: DockerSandbox) -> None:
    with fresh.lease() as lease:
        python(lease, "pass")
        (container,) = lease._kept.values()
        assert container.stream is not None
        number = os.stat(container.stream._socket.fileno()).st_ino

    def is_open() -> bool:
        return any(
            os.path.realpath(descriptor).endswith(f"socket:[{number}]")
            for descriptor in Path("/proc/self/fd").iterdir()
        )

    assert wait_until(lambda: not is_open())


def test_a_closed_sandbox_says_so(engine: Engine) -> None:
    sandbox = DockerSandbox()
    python(sandbox, "pass")
    folder = owner(sandbox)
    sandbox.close()
    sandbox.close()
    assert not engine.api.containers(all=True, filters={"label": f"{OWNER_LABEL}={folder}"})
    with pytest.raises(InfrastructureError, match="was closed"):
        python(sandbox, "pass")


def test_containers_are_created_with_every_door_shut(fresh: DockerSandbox, engine: Engine) -> None:
    with fresh.lease() as lease:
        lease.run({}, [PYTHON, "-c", "pass"], limits=SMALL)
        (container,) = lease._kept.values()
        found = engine.api.inspect_container(container.name)
    host = found["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["PidsLimit"] == 5
    assert host["Memory"] == host["MemorySwap"] == (128 + 32) << 20
    assert host["LogConfig"]["Type"] == "none"
    assert host["Binds"] is None
    assert host["Privileged"] is False
    assert found["Config"]["User"] == "65534:65534"
    assert found["Config"]["StdinOnce"] is True
    options = host["SecurityOpt"]
    assert "no-new-privileges" in options
    profile = json.loads(next(o for o in options if o.startswith("seccomp="))[8:])
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"


def test_a_root_always_gives_the_same_archive(tmp_path: Path) -> None:
    first, second = tmp_path / "1.tar", tmp_path / "2.tar"
    pack(python_root(), first)
    pack(python_root(), second)
    assert first.read_bytes() == second.read_bytes()


def test_gvisor_is_used_where_the_engine_has_it(engine: Engine) -> None:
    assert (engine.runtime, engine.isolation) == (None, Isolation.CONTAINER)
    engine.runtimes["runsc"] = {}
    assert (engine.runtime, engine.isolation) == ("runsc", Isolation.GVISOR)
    assert container_options(Shape.of(SMALL), engine)["runtime"] == "runsc"
    del engine.runtimes["runsc"]


def test_an_image_that_is_named_and_absent_is_an_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOPD_GYM_SANDBOX_IMAGE", "no-such-image:1")
    with pytest.raises(InfrastructureError, match=r"No image is called 'no-such-image:1'"):
        engine.image()


def test_the_dockerfile_makes_an_image_that_serves(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag, folder = "lopd-gym-test:dockerfile", str(Path(engine_module.__file__).parent)
    engine.client.images.build(path=folder, tag=tag, buildargs={"BASE": engine.image()}, rm=True)
    monkeypatch.setenv("LOPD_GYM_SANDBOX_IMAGE", tag)
    sandbox = DockerSandbox(idle=0)
    try:
        assert python(sandbox, "print(1)").stdout == b"1\n"
    finally:
        sandbox.close()
        containers = engine.client.containers
        assert wait_until(lambda: not containers.list(all=True, filters={"ancestor": tag}))
        engine.client.images.remove(tag)

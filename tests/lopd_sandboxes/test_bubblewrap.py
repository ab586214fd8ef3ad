"""bubblewrap: what is its own, with and without control groups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from lopd_sandboxes import bubblewrap, cgroup
from lopd_sandboxes.bubblewrap import BubblewrapSandbox
from lopd_sandboxes.cgroup import ControlGroup, usable_parents

from lopd_gym.containment import ATTACKS, Attack, survives
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import PYTHON, Isolation, Limits
from tests.lopd_sandboxes.conftest import make, processes_with, wait_until
from tests.lopd_sandboxes.test_contract import ECHO


@pytest.fixture(scope="module", autouse=True)
def works() -> None:
    make("bubblewrap")


@pytest.fixture
def without_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[BubblewrapSandbox]:
    """The sandbox of a user who may not create control groups."""
    monkeypatch.setattr(bubblewrap, "usable_parents", lambda: None)
    bubblewrap._probe.cache_clear()
    yield BubblewrapSandbox()
    bubblewrap._probe.cache_clear()


COUNTED = ("memory hog", "fork bomb", "full disk")
"""What control groups limit where they can be created."""


@pytest.mark.parametrize(
    "attack", [a for a in ATTACKS if a.name in COUNTED], ids=lambda a: a.name.replace(" ", "-")
)
def test_without_control_groups_limits_hold_too(
    without_groups: BubblewrapSandbox, attack: Attack
) -> None:
    assert without_groups.isolation == Isolation.NAMESPACES
    assert survives(without_groups, attack)


def test_groups_are_removed() -> None:
    parents = usable_parents()
    if parents is None:
        pytest.skip("no control groups can be created here")
    sandbox = BubblewrapSandbox()
    sandbox.run({}, [PYTHON, "-c", "import os\nos.fork()"])
    session = sandbox.session(ECHO)
    session.request("x")
    own = f"{cgroup._PREFIX}{cgroup.os.getpid()}-*"
    assert all(list(parent.glob(own)) for parent in parents)
    session.close()
    assert not any(list(parent.glob(own)) for parent in parents)


def test_a_second_layout_of_control_groups_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2, as a folder: the nearest group above ours that passes both controllers on."""
    own = tmp_path / "user.slice" / "session.scope"
    own.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    for folder, passed_on in (
        (own, ""),
        (own.parent, "memory pids"),
        (tmp_path, "cpu memory pids"),
    ):
        (folder / "cgroup.subtree_control").write_text(passed_on)
        (folder / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup, "_MOUNT", tmp_path)
    monkeypatch.setattr(cgroup, "_own_path", lambda controller: "user.slice/session.scope")
    assert cgroup._version_2() == (own.parent,)
    group = ControlGroup((own.parent,), Limits(), 2)
    (folder,) = group._folders
    (folder / "memory.events").write_text("oom 3\noom_kill 0\n")
    assert not group.out_of_memory()
    (folder / "memory.events").write_text("oom 3\noom_kill 1\n")
    assert group.out_of_memory()


HOST = """
import time
from lopd_sandboxes.bubblewrap import BubblewrapSandbox
session = BubblewrapSandbox().session(open({program!r}, "rb").read())
session.request("x")
print(session._process.pid, flush=True)
session.request("hang", wall_s=60)
"""


def test_programs_die_with_a_killed_host(tmp_path: Path) -> None:
    program = tmp_path / "echo.py"
    program.write_bytes(ECHO)
    code = HOST.format(program=str(program))
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    inside = descendants(pid)
    assert inside
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{p}").exists() for p in (pid, *inside)))


MANY = """
import sys
from concurrent.futures import ThreadPoolExecutor
from lopd_sandboxes.bubblewrap import BubblewrapSandbox
from lopd_gym.sandbox import PYTHON, Limits
sandbox, word = BubblewrapSandbox(), sys.argv[1]
argv = [PYTHON, "-c", f"import time; time.sleep(600)  # {word}"]
with ThreadPoolExecutor(50) as threads:
    for _ in range(50):
        threads.submit(sandbox.run, {}, argv, limits=Limits(600, None, 64, 2))
"""


@pytest.mark.parametrize("running", [1, 40])
def test_a_host_killed_in_the_middle_of_starts_leaves_nothing(running: int) -> None:
    """`bwrap` binds itself to its parent only some milliseconds after it was started."""
    word = f"started-{uuid.uuid4().hex}"
    host = subprocess.Popen([sys.executable, "-c", MANY, word])
    assert wait_until(lambda: len(processes_with(word)) > running, 60)
    host.kill()
    host.wait()
    try:
        assert wait_until(lambda: not processes_with(word))
    finally:
        for pid in processes_with(word):
            os.kill(pid, signal.SIGKILL)
    for parent in usable_parents() or ():
        cgroup._sweep(parent)  # as the next host does
        assert not list(parent.glob(f"{cgroup._PREFIX}{host.pid}-*"))


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name, path: None)
    bubblewrap._probe.cache_clear()
    try:
        with pytest.raises(InfrastructureError, match="'bwrap' is missing: install the package"):
            BubblewrapSandbox()
    finally:
        bubblewrap._probe.cache_clear()

"""`BubblewrapSandbox`: Linux namespaces without a daemon, by the program `bwrap`.

Each program gets namespaces of its own for users, processes, mounts, network, IPC and host name,
a read-only root with nothing of the host's in it, a sized in-memory ``/tmp``, no capability, and a
filter on system calls. Killing `bwrap` kills every process inside. Where this user may create
control groups, the kernel counts memory and processes exactly; elsewhere address space stands in
for memory, and the level recorded is the lower one.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache
from typing import IO

from lopd_gym.containment import broken_walls
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import PYTHON, Isolation, Limits, Probe, RunResult
from lopd_sandboxes import reaper
from lopd_sandboxes.cgroup import ControlGroup, usable_parents
from lopd_sandboxes.paths import inside
from lopd_sandboxes.process import tasks_of_user
from lopd_sandboxes.rootfs import python_root
from lopd_sandboxes.seccomp import compiled
from lopd_sandboxes.session import PipeSession
from lopd_sandboxes.start import communicate, start, start_reaper

ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""All that a sandboxed program finds in its environment."""

WORK = "/tmp/work"
_PROGRAM = "/tmp/program.py"
_OUTSIDE_ID = "65533"
"""Whom programs are to the kernel when the host's process is root's; nobody else uses this id."""

_OWN_PROCESSES = 2
"""bwrap and the init process that it leaves inside."""

_ENTER = 'for f in $1; do echo $$ > "$f" || exit 125; done; shift; exec "$@"'
_FIX = (
    "user namespaces may be closed to you: on Ubuntu add an AppArmor profile for bwrap, in a "
    "container allow them, or use Docker"
)
_log = logging.getLogger(__name__)


class BubblewrapSandbox:
    """Runs each program in namespaces of its own; see the module for what that covers.

    Raises:
        InfrastructureError: It does not work here, or does not hold what it should.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        probe = self.probe()
        if probe.isolation is None:
            raise InfrastructureError(f"The bubblewrap sandbox does not work: {probe.detail}.")
        self.isolation = probe.isolation
        if self.isolation == Isolation.NAMESPACES:
            _log.warning("bubblewrap: no control groups here; memory is limited by address space")

    @classmethod
    def probe(cls) -> Probe:
        """Return whether it works here: try it, and look around from inside."""
        return _probe()

    @classmethod
    def build(cls) -> str:
        """Make the root that programs see, and return its path."""
        return str(python_root())

    def lease(self) -> AbstractContextManager[BubblewrapSandbox]:
        """Return this sandbox itself: its programs share nothing."""
        return nullcontext(self)

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a program to its end in a fresh working folder that holds ``files``.

        Raises:
            InfrastructureError: No process can be started.
        """
        limits = limits or Limits()
        placed = {f"{WORK}/{inside(name)}": content for name, content in files.items()}
        with ExitStack() as stack:
            group = _group(limits, stack)
            process = _start(placed, argv, limits, group, subprocess.PIPE, stack)
            oom_killed = None if group is None else group.out_of_memory
            return communicate(process, stdin, limits, _exit_code, oom_killed)

    def session(self, program: bytes, limits: Limits | None = None) -> PipeSession:
        """Start a Python program that stays: it reads requests on fd 0, answers on fd 1.

        Raises:
            InfrastructureError: No process can be started.
        """
        limits = limits or Limits()
        with ExitStack() as stack:
            group = _group(limits, stack)
            stderr = stack.enter_context(tempfile.TemporaryFile())
            argv = [PYTHON, "-s", "-S", "-P", _PROGRAM]
            with ExitStack() as passed:
                process = _start({_PROGRAM: program}, argv, limits, group, stderr, passed)
            oom_killed = None if group is None else group.out_of_memory
            cleanup = stack.pop_all().close
            return PipeSession(process, limits, stderr, cleanup, _exit_code, oom_killed)


def _group(limits: Limits, stack: ExitStack) -> ControlGroup | None:
    parents = usable_parents()
    if parents is None:
        return None
    try:
        group = ControlGroup(parents, limits, _OWN_PROCESSES)
    except OSError as err:
        raise InfrastructureError(f"No control group can be created: {err}.") from err
    stack.callback(group.remove)
    return group


def _start(
    files: Mapping[str, bytes],
    argv: Sequence[str],
    limits: Limits,
    group: ControlGroup | None,
    stderr: int | IO[bytes],
    stack: ExitStack,
) -> subprocess.Popen[bytes]:
    """Start a program that finds ``files`` at their absolute paths."""
    handed: list[int] = []

    def hand(content: bytes) -> str:
        """Return a descriptor, as text, from which bwrap reads these bytes."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it
        stack.callback(file.close)
        file.write(content)
        file.seek(0)
        handed.append(file.fileno())
        return str(file.fileno())

    command = [*_enter(group), "bwrap", *_walls(limits, sum(map(len, files.values())))]
    for path, content in files.items():
        command += ["--file", hand(content), path]
    command += ["--seccomp", hand(compiled()), "--chdir", WORK, "--"]
    command += [*_prlimit(limits, group), *argv]
    return start(command, {"PATH": os.defpath}, stderr, descriptors=handed)


def _enter(group: ControlGroup | None) -> list[str]:
    """Return the words that enter the group and drop root, to be put before a command."""
    words = []
    if group is not None:
        words += ["/bin/sh", "-c", _ENTER, "sh", " ".join(group.entrances)]
    if os.getuid() == 0:
        who = ["--reuid", _OUTSIDE_ID, "--regid", _OUTSIDE_ID, "--clear-groups"]
        words += ["setpriv", *who, "--no-new-privs"]
    return words


_reapers: list[subprocess.Popen[bytes]] = []


@cache
def _mark(owner: int) -> str:
    """Return a word for the commands of this process, by which its reaper finds them.

    bwrap takes it for a variable to remove, so it changes nothing for the program.
    """
    mark = f"lopd-gym-{uuid.uuid4().hex}"
    _reapers.append(start_reaper(reaper.__file__, mark))
    return mark


def _walls(limits: Limits, files_bytes: int) -> list[str]:
    words = ["--unsetenv", _mark(os.getpid())]
    words += ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
    words += ["--new-session", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534"]
    words += ["--hostname", "sandbox", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    words += ["--ro-bind", str(python_root()), "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(16 << 20), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    folder_bytes = (4 * limits.file_mib << 20) + files_bytes
    return [*words, "--size", str(folder_bytes), "--tmpfs", "/tmp", "--dir", WORK]


def _prlimit(limits: Limits, group: ControlGroup | None) -> list[str]:
    """Return the words that limit a program; they run inside, where processes are counted anew."""
    values = {"core": 0, "fsize": limits.file_mib << 20, "nofile": 256}
    if limits.cpu_s is not None:
        values["cpu"] = math.ceil(limits.cpu_s)
    if group is None:
        values["as"] = limits.memory_mib << 20
        values["nproc"] = limits.processes + 1 + _counted_outside()
    words = [f"--{name}={value}" for name, value in values.items() if name != "cpu"]
    if "cpu" in values:
        words.append(f"--cpu={values['cpu']}:{values['cpu'] + 1}")
    return ["prlimit", *words, "--"]


def _counted_outside() -> int:
    """Return how many processes of this user's count against a limit inside.

    Since Linux 5.14 a limit on processes counts those of its own user namespace only.
    """
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    return 0 if (major, minor) >= (5, 14) else tasks_of_user()


def _exit_code(code: int) -> int:
    """Turn bwrap's code into the program's: it says 128 + n for one that signal n ended."""
    return 128 - code if 128 < code <= 128 + signal.NSIG else code


@cache
def _probe() -> Probe:
    for program, package in (("bwrap", "bubblewrap"), ("setpriv", "util-linux")):
        if shutil.which(program, path=os.defpath) is None:
            return Probe(None, f"'{program}' is missing: install the package {package}")
    trial = BubblewrapSandbox.__new__(BubblewrapSandbox)
    try:
        broken = broken_walls(trial)
    except InfrastructureError as err:
        return Probe(None, str(err).rstrip("."))
    if broken:
        return Probe(None, f"{'; '.join(broken)} ({_FIX})")
    if usable_parents() is None:
        return Probe(Isolation.NAMESPACES, "memory is limited by address space: no control groups")
    return Probe(Isolation.NAMESPACES_CGROUP, "namespaces, control groups and a system-call filter")

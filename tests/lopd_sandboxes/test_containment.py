"""Attacks: walls and limits hold, and the next program is right."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym import containment
from lopd_gym.containment import ATTACKS, Attack, broken_walls, survives
from lopd_gym.sandbox import Isolation, Limits, RunResult, Sandbox
from tests.lopd_sandboxes.test_contract import python


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name.replace(" ", "-"))
def test_attacks_are_contained_and_the_next_program_is_right(
    isolating: Sandbox, attack: Attack
) -> None:
    assert survives(isolating, attack)


@pytest.mark.parametrize(
    "attack",
    [attack for attack in ATTACKS if not attack.needs_walls],
    ids=lambda a: a.name.replace(" ", "-"),
)
def test_a_plain_process_keeps_its_limits(attack: Attack) -> None:
    assert survives(ProcessSandbox(), attack)


def test_dangerous_attacks_are_never_run_without_walls() -> None:
    """They would hurt the host: here they are replaced by a program that only says it ran."""
    ran = []

    class Watched(ProcessSandbox):
        isolation = Isolation.CONTAINER  # a wrong claim must not be believed

        def lease(self) -> Any:
            return nullcontext(self)

        def run(self, files: Any, argv: Any, stdin: Any = b"", limits: Any = None) -> RunResult:
            if argv[-1].startswith(containment._GUARD):
                ran.append(argv[-1])
                return RunResult(0, b"0", b"")
            return super().run(files, argv, stdin, limits)

    for attack in ATTACKS:
        if attack.needs_walls:
            assert attack.code.startswith(containment._GUARD)
            assert not survives(Watched(), attack)
    assert not ran


def test_the_guard_of_dangerous_attacks_stops_on_the_host() -> None:
    result = python(ProcessSandbox(), containment._GUARD + "print('attacked')")
    assert b"not attacked" in result.stderr
    assert result.stdout == b""


def test_the_walls_hold(isolating: Sandbox) -> None:
    assert isolating.isolation > Isolation.NONE
    assert broken_walls(isolating) == []


def test_the_walls_of_a_plain_process_are_known_not_to_hold() -> None:
    broken = broken_walls(ProcessSandbox())
    assert "system calls are not filtered" in broken
    assert "programs see other processes" in broken


@pytest.mark.parametrize(
    "call",
    [
        "libc.ptrace(0, 0, 0, 0)",  # 0 = let the parent trace this process
        "libc.unshare(0x10000000)",  # a user namespace
        "libc.syscall(425, 8, ctypes.byref((ctypes.c_char * 120)()))",  # io_uring_setup
        "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        "libc.syscall(321, 0, ctypes.byref((ctypes.c_char * 120)()), 120)",  # bpf on x86-64
        "libc.syscall(323, 1)",  # userfaultfd on x86-64
        "libc.clone(None, None, 0x10000000, None)",
    ],
)
def test_dangerous_system_calls_are_refused(isolating: Sandbox, call: str) -> None:
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"done = {call}\nprint(done, ctypes.get_errno())"
    )
    done, errno = python(isolating, code).stdout.split()
    assert int(done) == -1
    assert int(errno) in (1, 22, 38)  # EPERM, EINVAL, ENOSYS


def test_host_files_are_not_there(isolating: Sandbox) -> None:
    home = Path.home()
    paths = [__file__, sys.executable, str(home / ".cache"), "/etc/shadow", str(home / ".bashrc")]
    code = f"import os\nfor path in {paths!r}:\n  if os.access(path, os.R_OK): print(path)"
    assert python(isolating, code).stdout == b""


def test_two_programs_never_see_each_other(isolating: Sandbox) -> None:
    write = (
        "import time\nopen('/tmp/secret', 'w').write('x')\n"
        "open('/dev/shm/secret', 'w').write('x')\ntime.sleep(1)"
    )
    look = (
        "import os, time\ntime.sleep(.4)\nprint(os.path.exists('/tmp/secret'), "
        "os.path.exists('/dev/shm/secret'), "
        "sum(b'time.sleep' + b'(1)' in open(f'/proc/{p}/cmdline', 'rb').read() "
        "for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()))"
    )
    results = {}

    def go(name: str, code: str) -> None:
        results[name] = python(isolating, code)

    threads = [threading.Thread(target=go, args=pair) for pair in (("w", write), ("l", look))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results["w"].exit_code == 0, results["w"].stderr
    assert results["l"].stdout == b"False False 0\n"


def test_a_child_that_holds_the_output_does_not_delay_the_result(isolating: Sandbox) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nos._exit(7)"
    result = python(isolating, code, wall_s=20)
    assert (result.exit_code, result.timed_out) == (7, False)
    assert result.wall_s < 10


def test_memory_is_that_of_all_processes_together(isolating: Sandbox) -> None:
    if isolating.isolation == Isolation.NAMESPACES:
        pytest.skip("address space is limited for each process")
    code = (
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n"
        "        x = b'x' * (60 << 20)\n        time.sleep(2)\n        os._exit(0)\n"
        "for _ in range(4): os.wait()"
    )
    assert isolating.run({}, ["python3", "-c", code], limits=Limits(memory_mib=160)).memory_killed

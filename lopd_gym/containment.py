"""What a sandbox must withstand, as small programs that try it.

Backends run `broken_walls` before they say that they work, ``lopd-gym sandbox doctor`` and the
tests run all of it. Nothing here names a backend: it speaks to the contract in `sandbox.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lopd_gym.sandbox import PYTHON, Limits, RunResult, Sandbox

_INSPECT = r"""
import ctypes, json, os
lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
interfaces = {line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line}
capabilities = [int(status[kind], 16) for kind in ("CapEff", "CapPrm", "CapBnd")]
folders = ("/", "/usr", "/etc", "/dev", "/var", "/home", "/root")
print(json.dumps({
    "network": interfaces > {"lo"},
    "root": os.getuid() == 0,
    "writable": any(os.access(folder, os.W_OK) for folder in folders),
    "capabilities": any(capabilities),
    "new_privileges": int(status["NoNewPrivs"]) != 1,
    "system_calls": int(status["Seccomp"]) != 2,
    "namespaces": ctypes.CDLL(None).unshare(0x10000000) == 0,
    "processes": sum(name.isdigit() for name in os.listdir("/proc")) > 4,
    "engine": "docker.sock" in open("/proc/mounts").read(),
}))
"""

_WALLS = {
    "network": "programs reach a network",
    "root": "programs run as root",
    "writable": "programs can write outside their working folder",
    "capabilities": "programs keep privileges (capabilities)",
    "new_privileges": "programs can gain privileges",
    "system_calls": "system calls are not filtered",
    "namespaces": "programs can make namespaces of their own",
    "processes": "programs see other processes",
    "engine": "programs reach the container engine",
}


def broken_walls(sandbox: Sandbox) -> list[str]:
    """Look around from inside a sandbox and return what does not hold, in words.

    Raises:
        InfrastructureError: The sandbox runs nothing at all.
    """
    result = sandbox.run({}, [PYTHON, "-c", _INSPECT])
    try:
        facts: dict[str, Any] = json.loads(result.stdout)
    except ValueError:
        said = result.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        return [f"the inspecting program failed: {said[-1]}"]
    return [text for name, text in _WALLS.items() if facts[name]]


_ORDINARY = Limits()


@dataclass(frozen=True, slots=True)
class Attack:
    """A program that attacks a limit, and what must come of it.

    Each is bounded, so that it does no harm where a limit does not hold. Those that would hurt the
    host if they ran on it have ``needs_walls``: they are only run behind walls that were looked
    at before, and look again themselves.
    """

    name: str
    code: str
    contained: Callable[[RunResult], bool]
    limits: Limits = _ORDINARY
    needs_walls: bool = False


_GUARD = r"""
import os, sys
if os.getuid() == 0 or sum(name.isdigit() for name in os.listdir("/proc")) > 4:
    sys.exit("this is the host, or nearly: not attacked")
"""

_FORKS = """
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""

_SWALLOW = """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        while True: pass
    except BaseException:
        pass
"""

_DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
print("left")
"""

_KILL_ALL = """
os.kill(-1, 9)
"""

_EAT = "x = [b'x' * (1 << 20) for _ in range(1_024)]"

_FILL = """
number = 0
try:
    for number in range(256):
        with open(f"/tmp/{number}", "wb") as out:
            out.write(bytes(1 << 20))
except OSError:
    pass
print(number)
"""

_NEST = "import sys\nsys.setrecursionlimit(10**7)\ndef f(): f()\nf()"

_FLOOD = "for _ in range(10_000): print('x' * 100_000)"

_SMALL = Limits(memory_mib=128)
_NARROW = Limits(output_bytes=1 << 16)

ATTACKS = (
    Attack("endless loop", "while True: pass", lambda r: r.timed_out, Limits(wall_s=1.0)),
    Attack("swallowed signals", _SWALLOW, lambda r: r.timed_out, Limits(wall_s=8.0, cpu_s=1.0)),
    Attack("memory hog", _EAT, lambda r: r.memory_killed, _SMALL),
    Attack("output flood", _FLOOD, lambda r: r.truncated and len(r.stdout) <= 1 << 16, _NARROW),
    Attack("deep recursion", _NEST, lambda r: r.exit_code != 0, Limits(4.0, memory_mib=256)),
    Attack("fork bomb", _GUARD + _FORKS, lambda r: int(r.stdout or 200) <= 16, needs_walls=True),
    Attack(
        "process that stays behind",
        _GUARD + _DAEMON,
        lambda r: r.exit_code == 0 and r.wall_s < 8,
        needs_walls=True,
    ),
    Attack(
        "full disk",
        _GUARD + _FILL,
        lambda r: r.memory_killed or 0 <= int(r.stdout or 256) < 255,
        needs_walls=True,
    ),
    Attack(
        "kill everything",
        _GUARD + _KILL_ALL,
        lambda r: not r.timed_out and b"not attacked" not in r.stderr,
        needs_walls=True,
    ),
)


def survives(sandbox: Sandbox, attack: Attack) -> bool:
    """Attack, and return whether the attack was contained and the next program runs as ever.

    An attack that needs walls is not run where one is broken: it counts as not contained.
    """
    with sandbox.lease() as lease:
        if attack.needs_walls and broken_walls(lease):
            return False
        contained = attack.contained(lease.run({}, [PYTHON, "-c", attack.code], b"", attack.limits))
        after = lease.run({"a.txt": b"1"}, [PYTHON, "-c", "print(open('a.txt').read(), 2)"])
    return contained and (after.exit_code, after.stdout) == (0, b"1 2\n")

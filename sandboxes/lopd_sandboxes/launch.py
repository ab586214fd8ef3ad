"""What a sandboxed child does first: it limits itself, then becomes the program.

Started as ``python -I -S launch.py SETTINGS PROGRAM...``. Limits are set here rather than between
fork and exec in the host, where Python code is unsafe while other threads run.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Apply the settings in the first argument and execute the rest."""
    settings = json.loads(sys.argv[1])
    die_with(settings["host"])
    for name, value in settings["limits"].items():
        _limit(getattr(resource, name), value)
    program = sys.argv[2:]
    try:
        os.execvp(program[0], program)
    except OSError as err:
        sys.stderr.write(f"{program[0]}: {err.strerror}\n")
        os._exit(127)


def die_with(host: int) -> None:
    """Have the kernel kill this process as soon as the host's is gone (Linux only)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != host:  # it was gone before the kernel was asked
        os._exit(1)


def _limit(kind: int, value: int) -> None:
    """Set a limit. At the soft one a process hears why it ends; at the hard one it just ends."""
    _, hard = resource.getrlimit(kind)
    hard = value + 1 if hard == resource.RLIM_INFINITY else min(hard, value + 1)
    with contextlib.suppress(ValueError):  # a limit that this system does not know
        resource.setrlimit(kind, (min(value, hard), hard))


if __name__ == "__main__":
    main()

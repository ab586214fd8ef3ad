"""The process that outlives its owner by a moment, to kill bubblewrap's processes it was starting.

`bwrap --die-with-parent` asks the kernel to be killed with its parent, but only once it runs: one
whose parent is killed in the milliseconds before that would stay, with its program, for as long as
the program likes. This process, started with the owner and waiting for it to end, kills those.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_QUIET_S = 1.0
"""It ends when nothing has turned up for this long."""


def main(mark: str) -> None:
    """Wait until stdin ends, which the owner holds open, then kill by a word on command lines.

    The first process inside is one of bwrap's and bears the mark too: the kernel kills with it
    everything that was started in there.
    """
    sys.stdin.buffer.read()
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _QUIET_S:
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _is_marked(folder, mark):
                quiet_since = time.monotonic()
                with suppress(OSError):  # it ended meanwhile
                    os.kill(int(folder.name), signal.SIGKILL)
        time.sleep(0.05)


def _is_marked(folder: Path, mark: str) -> bool:
    if folder.name == str(os.getpid()):
        return False
    try:
        return mark.encode() in (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1])

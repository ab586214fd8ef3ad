"""The process that outlives its owner by some seconds, to remove what is left of its containers.

A started container ends by itself when its owner is gone. One that the engine was about to create
or start at that moment would stay; this process, started with the owner and waiting for it to end,
removes those. It is run as a file, and imports nothing before it is needed.
"""

from __future__ import annotations

import contextlib
import sys
import time

_QUIET_S = 3.0
"""It ends when nothing has turned up for this long."""


def main(label: str) -> None:
    """Wait until stdin ends, which the owner holds open, then remove containers by label."""
    sys.stdin.buffer.read()
    import docker
    from docker.errors import APIError

    api = docker.from_env().api
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _QUIET_S:
        for found in api.containers(all=True, filters={"label": label}):
            quiet_since = time.monotonic()
            with contextlib.suppress(APIError):  # gone, or on its way
                api.remove_container(found["Id"], force=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])

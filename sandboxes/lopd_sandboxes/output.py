"""Feed a program that runs to its end, and collect what it says, within limits."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from contextlib import suppress
from typing import Any

_CHUNK = 1 << 16
_FLOOD_BYTES = 64 << 20
"""A program that goes on for this long above its limit is not listened to any more."""

_LOOK_S = 0.05
"""How often to look whether a silent program has ended while others hold its pipes open."""


class Output:
    """The pipes of a running program; what it says above ``limit`` bytes a pipe is dropped."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self.texts = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        self.flooded = False
        self._dropped = 0
        self._process = process
        self._limit = limit
        self._left = memoryview(stdin)
        self._selector = selectors.DefaultSelector()
        self._pipes = [process.stdin, process.stdout, process.stderr]
        for name in self.texts:
            self._selector.register(getattr(process, name), selectors.EVENT_READ, name)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._selector.register(process.stdin, selectors.EVENT_WRITE)

    def collect(self, deadline: float) -> bool:
        """Feed and read until the program ended or closed its pipes; False at the deadline.

        Reading also stops once the program is `flooded`: it should be killed then.
        """
        while not self.flooded and any(key.data for key in self._selector.get_map().values()):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            events = self._selector.select(min(left_s, _LOOK_S))
            if not events and self._process.poll() is not None:
                return True  # a process that it left behind still holds the pipes
            for key, _ in events:
                if key.data:
                    self._read(key.fileobj, self.texts[key.data])
                else:
                    self._feed(key.fileobj)
        return True

    def _read(self, pipe: Any, text: bytearray) -> None:
        chunk = os.read(pipe.fileno(), _CHUNK)
        if not chunk:
            self._selector.unregister(pipe)
        room = self._limit - len(text)
        text += chunk[:room]
        if len(chunk) > room:
            self.truncated = True
            self._dropped += len(chunk) - room
            self.flooded = self._dropped > _FLOOD_BYTES

    def _feed(self, pipe: Any) -> None:
        with suppress(BrokenPipeError):
            self._left = self._left[os.write(pipe.fileno(), self._left) :]
            if self._left:
                return
        self._selector.unregister(pipe)
        pipe.close()

    def close(self) -> None:
        """Close the pipes."""
        self._selector.close()
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()

"""The bytes to and from a container's first process, over the socket that is attached to it."""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any

from lopd_sandboxes.session import wait_for

_FRAME = struct.Struct(">BxxxI")
_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 18
_MOST_HEADER_BYTES = 1 << 16
_HANG_UP: int = getattr(select, "POLLRDHUP", 0)
"""Linux alone tells a half-closed socket; elsewhere POLLHUP has to do."""


class Stream:
    """Writes to the process's stdin; reads its stdout, and collects its stderr on the side.

    The engine sends frames: a byte that says which of the two, and a length. Every call raises
    TimeoutError at its deadline and EOFError or BrokenPipeError when the container is gone.
    """

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._socket.setblocking(False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._writable.register(self._socket, select.POLLOUT)
        self._hangup = select.poll()
        self._hangup.register(self._socket, _HANG_UP)
        self._raw = bytearray()
        self._stdout = bytearray()
        self.stderr = bytearray()

    def close(self) -> None:
        """Hang up: the container's first process then ends, and all others with it."""
        self._attached.close()
        self._socket.close()

    def write(self, data: bytes, deadline: float) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                wait_for(self._writable, deadline)
            except ConnectionError as err:
                raise BrokenPipeError from err

    def read(self, most: int, deadline: float) -> bytes:
        """Read at least one byte of stdout, or none at the end."""
        while not self._stdout:
            if not self._receive(deadline):
                return b""
        chunk = bytes(self._stdout[:most])
        del self._stdout[:most]
        return chunk

    def read_exactly(self, size: int, deadline: float) -> bytes:
        """Read this many bytes of stdout."""
        while len(self._stdout) < size:
            if not self._receive(deadline):
                raise EOFError
        return self.read(size, deadline) if size else b""

    def read_stderr(self, deadline: float) -> bytes:
        """Read to the end and return all that the process wrote to stderr."""
        while self._receive(deadline):
            pass
        return bytes(self.stderr)

    def ended(self) -> bool:
        """Return whether the other end has hung up."""
        return any(event & (select.POLLHUP | _HANG_UP) for _, event in self._hangup.poll(0))

    def send_message(self, header: dict[str, Any], blob: bytes, deadline: float) -> None:
        """Send JSON and the bytes that go with it, as the runner expects them."""
        text = json.dumps({**header, "size": len(blob)}).encode()
        self.write(_LENGTH.pack(len(text)) + text + blob, deadline)

    def receive_message(self, most: int, deadline: float) -> tuple[dict[str, Any], bytes]:
        """Receive JSON and at most ``most`` bytes that go with it; ValueError if it is neither."""
        (length,) = _LENGTH.unpack(self.read_exactly(_LENGTH.size, deadline))
        if length > _MOST_HEADER_BYTES:
            raise ValueError("the message is too long")
        header = json.loads(self.read_exactly(length, deadline))
        size = int(header["size"])
        if not 0 <= size <= most:
            raise ValueError("the message's bytes are too many")
        return header, self.read_exactly(size, deadline)

    def _receive(self, deadline: float) -> bool:
        """Take in what has arrived, waiting for it; False at the end."""
        wait_for(self._readable, deadline)
        try:
            chunk = self._socket.recv(_CHUNK)
        except ConnectionError:
            return False
        self._raw += chunk
        start = 0
        while len(self._raw) - start >= _FRAME.size:
            which, size = _FRAME.unpack_from(self._raw, start)
            end = start + _FRAME.size + size
            if len(self._raw) < end:
                break
            text = self._raw[start + _FRAME.size : end]
            (self.stderr if which == 2 else self._stdout).extend(text)
            start = end
        del self._raw[:start]
        return bool(chunk)

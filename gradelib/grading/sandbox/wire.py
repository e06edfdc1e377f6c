"""Messages between the judge and an answer process: a length, then plain data as strict JSON.

The judge's end (`Wire`) expects anything from the other: junk, silence, endless data. It never
holds more than one message of bounded size.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any

from gradelib import plain

_LENGTH = struct.Struct(">I")
# The largest array in base64, and room for the rest of an outcome.
MAX_FRAME_BYTES = plain.MAX_ARRAY_BYTES * 4 // 3 + 2**20
# What a judge may have to hold of one process's messages: their text, and an object for each part.
_MAX_HELD_BYTES = 2**30
_PART_BYTES = 64
# Many messages are short, and come together.
_READ_BYTES = 2**16


class ClosedError(Exception):
    """The other end is gone."""


def frame(message: Any) -> bytes:
    """A message as bytes. Raises `plain.WireError` for what is not plain data."""
    return frame_of(plain.dumps(message))


def frame_of(text: str) -> bytes:
    """A message as bytes, from what `plain.dumps` made of it."""
    payload = text.encode("ascii")
    return _LENGTH.pack(len(payload)) + payload


class Wire:
    """The judge's end: every operation has a deadline on `time.monotonic`'s clock.

    `send` and `receive` raise TimeoutError past the deadline and ClosedError when the other end is
    gone; `receive` raises `plain.WireError` for what is not a message.
    """

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._held_bytes = 0
        self._received = bytearray()

    def send(self, message: Any, deadline: float) -> None:
        """Send one message."""
        self.send_text(plain.dumps(message), deadline)

    def send_text(self, text: str, deadline: float) -> None:
        """Send one message that `plain.dumps` has written."""
        self._wait_until(deadline)
        try:
            self._stream.sendall(frame_of(text))
        except TimeoutError:
            raise
        except OSError as error:
            raise ClosedError from error

    def receive(self, deadline: float) -> Any:
        """The next message."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        if length > MAX_FRAME_BYTES:
            raise plain.WireError(f"a message of {length} bytes (at most {MAX_FRAME_BYTES})")
        payload = self._exactly(length, deadline)
        self._held_bytes += length + _PART_BYTES * sum(map(payload.count, (b",", b"[", b"{")))
        if self._held_bytes > _MAX_HELD_BYTES:
            raise plain.WireError(f"messages of more than {_MAX_HELD_BYTES} bytes in all")
        return plain.loads(bytes(payload))

    def close(self) -> None:
        """Let go of this end."""
        self._stream.close()

    def _exactly(self, count: int, deadline: float) -> bytearray:
        # Memory grows with what arrives, not with the length that was announced.
        while len(self._received) < count:
            self._wait_until(deadline)
            missing = count - len(self._received)
            try:
                chunk = self._stream.recv(min(max(missing, _READ_BYTES), 2**20))
            except TimeoutError:
                raise
            except OSError as error:
                raise ClosedError from error
            if not chunk:
                raise ClosedError
            self._received += chunk
        taken, self._received = self._received, self._received[count:]
        del taken[count:]
        return taken

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._stream.settimeout(left)


class ChildEnd:
    """The answer process's end; it blocks, and trusts the judge."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd

    def receive(self) -> Any:
        """The next message; None at the end."""
        header = self._exactly(_LENGTH.size)
        if len(header) < _LENGTH.size:
            return None
        return plain.loads(self._exactly(_LENGTH.unpack(header)[0]))

    def send(self, message: Any) -> None:
        """Send one message."""
        data = memoryview(frame(message))
        while data:
            data = data[os.write(self._write_fd, data) :]

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = os.read(self._read_fd, min(count - len(received), 2**20))
            if not chunk:
                break
            received += chunk
        return bytes(received)

"""What the job writes, told to the watcher: never at the cost of the job."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

HELD = 64 << 20
"""Bytes that wait for a watcher that is slower than the job; then the oldest are given up."""
PIPE_BYTES = 1 << 20
_HEAD = struct.Struct("!BI")
MESSAGE = 255
"""The kind of what is no output: a message about the job."""


class Tap:
    """The end that the job's side writes to."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._waiting: deque[bytes] = deque()
        self._held = 0
        self._rest = memoryview(b"")
        self.lost = 0
        """Bytes that were given up."""
        self.open = True
        os.set_blocking(pipe, False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def tell(self, **message: Any) -> None:
        """A message about the job."""
        self.put(MESSAGE, json.dumps(message).encode())

    def put(self, kind: int, data: bytes) -> None:
        """What the job wrote to its output number ``kind``."""
        if not self.open:
            return
        self._waiting.append(_HEAD.pack(kind, len(data)) + data)
        self._held += len(data)
        while self._held > HELD and len(self._waiting) > 1:
            oldest = 1 if self._waiting[0][0] == MESSAGE else 0
            block = self._waiting[oldest]
            del self._waiting[oldest]
            self.lost += len(block) - _HEAD.size
            self._held -= len(block) - _HEAD.size
        self.flush()

    def flush(self) -> bool:
        """Write what the pipe takes now; whether nothing waits any more."""
        try:
            while self._rest or self._waiting:
                if not self._rest:
                    block = self._waiting.popleft()
                    self._held -= len(block) - _HEAD.size
                    self._rest = memoryview(block)
                self._rest = self._rest[os.write(self._pipe, self._rest) :]
        except BlockingIOError:
            return False
        except OSError:  # the watcher is gone
            self.close()
        return True

    def drain(self, seconds: float) -> None:
        """Write all that waits, at most so long, and close."""
        end = time.monotonic() + seconds
        while not self.flush() and time.monotonic() < end:
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """Nothing more comes."""
        if self.open:
            self.open = False
            self._waiting.clear()
            self._rest = memoryview(b"")
            with contextlib.suppress(OSError):
                os.close(self._pipe)


class Frames:
    """The watcher's side: takes apart what came, in memory that is used again and again."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(PIPE_BYTES))
        self._filled = 0

    def read(self, pipe: int) -> int:
        """Read what is there; how many bytes, 0 at the end. Raises OSError."""
        read = os.readv(pipe, [self._buffer[self._filled :]])
        self._filled += read
        return read

    def take(self) -> Iterator[tuple[int, bytes]]:
        """What is whole by now: its kind, and the bytes."""
        at, filled = 0, self._filled
        while filled - at >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._buffer, at)
            end = at + _HEAD.size + size
            if end > filled:
                break
            yield kind, bytes(self._buffer[at + _HEAD.size : end])
            at = end
        self._filled = filled - at
        self._buffer[: self._filled] = self._buffer[at:filled]

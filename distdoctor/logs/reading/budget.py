"""Budget for everything that a diagnosis reads: unpacked bytes, processor time, and values of JSON documents.

Bytes on disk earn it: each allows so many unpacked bytes and so much time. So a large honest log is read wholly, and a
small file that unpacks or parses without end is not. A file that exceeds its own share does not take that of others.
"""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

TIMES, EACH, SPARE = 200, 1 << 20, 256 << 20
"""Limits for compressed files: times their own size, bytes more for each, and bytes beyond that for all together. Logs
pack to a twentieth, at most to a hundredth; a file that packs smaller holds nothing of use, and may have no end."""
PLAIN_RATE, PACKED_RATE = 4 << 20, 1 << 20
"""Slowest allowed reading rates in bytes on disk per second of processor time. Logs are read about fifty times as
fast."""
SECONDS, EACH_SECONDS = 10.0, 0.02
"""Seconds for all files together, and for each file, in addition to those."""


class Spent(OSError):
    """Exhausted budget; the text says how much was read until then."""

    def __init__(self, read: str) -> None:
        super().__init__(0, f"{read}, the rest was not read")


class Budget:
    """Bytes and seconds that are left for all files of one diagnosis."""

    def __init__(self) -> None:
        self.spare, self.seconds = SPARE, SECONDS
        self._used = 0.0
        self._began: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the processor time of the body; outside of it no time is counted."""
        self._began = time.process_time()
        try:
            yield
        finally:
            self._used, self._began = self.used, None

    @property
    def used(self) -> float:
        """Return the seconds used so far."""
        return self._used + (time.process_time() - self._began if self._began is not None else 0.0)


class Part:
    """Part of the budget that one file uses.

    ``on_disk``: True if its bytes earn time for all; those of an archive have done so already.
    """

    def __init__(self, budget: Budget, on_disk: bool = True) -> None:
        self.compressed = False
        self._budget, self._on_disk = budget, on_disk
        self._began, self._seconds = budget.used, EACH_SECONDS
        self._packed = self._unpacked = self._borrowed = 0

    def took(self, size: int) -> None:
        """Count ``size`` bytes as they are in the file. Raises Spent."""
        self._packed += size
        earned = size / (PACKED_RATE if self.compressed else PLAIN_RATE)
        self._seconds += earned
        if self._on_disk:
            self._budget.seconds += earned
        self.check()

    def gave(self, size: int) -> None:
        """Count ``size`` unpacked bytes. If the file holds too many times its own size, they are the last."""
        self._unpacked += size
        over = self._unpacked - TIMES * self._packed - EACH
        if over > self._borrowed:
            self._budget.spare -= over - self._borrowed
            self._borrowed = over

    def check(self) -> None:
        """Raise Spent if the file has used up its own share and the rest of the budget is used up, too."""
        used = self._budget.used
        late = used > self._budget.seconds and used - self._began > self._seconds
        if late or (self._borrowed and self._budget.spare < 0):
            raise self.spent()

    def spent(self) -> Spent:
        """Return the error that says how much of the file was read."""
        return Spent(f"{size_text(self._unpacked)} unpacked" if self._unpacked else f"{size_text(self._packed)} read")


def size_text(size: int) -> str:
    """Return a number of bytes in words: ``2.0 GB``, ``256 MB``."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size} bytes"


# JSON from outside, in bounded memory: its values are counted before they are made.


MOST_VALUES = 1_000_000
"""Most values of one document; an empty list of three characters takes about seventy bytes."""
SHORT = 1 << 20
"""Largest document in bytes for Python's own decoder, which copies it, up to four times as large."""


def loads(text: bytes | str, most: int = MOST_VALUES) -> Any:
    """Return the content of the JSON ``text``.

    Raises ValueError if it is no JSON, has more than ``most`` values or is too deep.
    """
    if len(text) > most and values(text) > most:
        raise ValueError(f"more than {most} values")
    try:
        return json.loads(text) if len(text) <= SHORT else msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as err:
        raise ValueError(str(err)[:200]) from None


def values(text: bytes | str) -> int:
    """Return an upper bound of the number of values in a JSON text."""
    if isinstance(text, bytes):
        return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
    return 1 + text.count(",") + text.count("[") + text.count("{")


# Files whose bytes are charged to the budget as they are read and unpacked.


BLOCK_BYTES = 1 << 20
"""Bytes that are read at once."""


class BudgetedReader(io.BufferedReader):
    """File whose bytes are counted as they are read."""

    def __init__(self, raw: Any, part: Part) -> None:
        super().__init__(raw, BLOCK_BYTES)
        self._part = part

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next ``size`` bytes. Raises Spent."""
        return self._taken(super().read(size))

    def read1(self, size: int = -1, /) -> bytes:
        """Return the bytes that come next. Raises Spent."""
        return self._taken(super().read1(size))

    def _taken(self, piece: bytes) -> bytes:
        self._part.took(len(piece))
        return piece


class InPieces(io.RawIOBase):
    """Content of a compressed file as a stream: a truncated file yields all its bytes, and only then the error."""

    def __init__(self, file: Any, part: Part, error: Any = zlib.error) -> None:
        self._file, self._part, self._error = file, part, error

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next piece into ``buffer``.

        Raises Spent if the file holds too much, OSError if it is not compressed so, EOFError if its end is missing.
        """
        self._part.check()
        try:
            piece = self._file.read1(len(buffer))
        except Spent:
            raise
        except self._error as err:
            raise OSError(0, getattr(err, "strerror", None) or str(err)) from None
        buffer[: len(piece)] = piece
        self._part.gave(len(piece))
        return len(piece)

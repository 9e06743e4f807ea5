"""One budget for everything that a diagnosis reads: bytes unpacked, and processor time.

Bytes on disk earn it: each allows so many unpacked bytes and so much time. So a large honest log is read wholly, and a
small file that unpacks or parses without end is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SPARE, TIMES = 256 << 20, 200
"""Bytes that all compressed files together may hold beyond so many times their own size. Logs pack to a twentieth, at
most to a hundredth; what packs smaller says nothing, and may have no end."""
SECONDS, BYTES_PER_SECOND = 10.0, 2 << 20
"""Processor time for all files together, and the slowest rate at which their bytes on disk are read. Plain logs are
read some fifty times as fast."""


class Spent(OSError):
    """The budget is used up; the text says how much was read until then."""

    def __init__(self, read: str) -> None:
        super().__init__(0, f"{read}, the rest was not read")


class Budget:
    """The bytes and seconds that are left for all files of one diagnosis."""

    def __init__(self) -> None:
        self.spare = SPARE
        self._seconds, self._used = SECONDS, 0.0
        self._began: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the processor time of the body; outside of it no time is counted."""
        self._began = time.process_time()
        try:
            yield
        finally:
            self._used += time.process_time() - self._began
            self._began = None

    def earn(self, size: int) -> None:
        """Note ``size`` bytes read from disk."""
        self._seconds += size / BYTES_PER_SECOND

    @property
    def late(self) -> bool:
        """Return whether the time is used up."""
        return self._used + (time.process_time() - self._began if self._began is not None else 0.0) > self._seconds


class Part:
    """The part of the budget that one file uses. ``on_disk``: its bytes earn time; those of an archive have done so."""

    def __init__(self, budget: Budget, on_disk: bool = True) -> None:
        self._budget, self._on_disk = budget, on_disk
        self._packed = self._unpacked = self._borrowed = 0

    def took(self, size: int) -> None:
        """Note ``size`` bytes as they are in the file. Raises Spent."""
        self._packed += size
        if self._on_disk:
            self._budget.earn(size)
        self.check()

    def gave(self, size: int) -> None:
        """Note ``size`` unpacked bytes. Where the file holds too many times its own size, they are the last."""
        self._unpacked += size
        over = self._unpacked - TIMES * self._packed
        if over > self._borrowed:
            self._budget.spare -= over - self._borrowed
            self._borrowed = over

    def check(self) -> None:
        """Raise Spent where the budget is used up."""
        if self._budget.spare < 0 or self._budget.late:
            raise self.spent()

    def spent(self) -> Spent:
        """The error that says how much was read of the file."""
        return Spent(f"{spoken(self._unpacked)} unpacked" if self._unpacked else f"{spoken(self._packed)} read")


def spoken(size: int) -> str:
    """A number of bytes as a person says it: ``2.0 GB``, ``256 MB``."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size} bytes"

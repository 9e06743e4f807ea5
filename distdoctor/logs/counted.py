"""Files whose bytes are counted as they are read and unpacked, against the budget of all that is read."""

from __future__ import annotations

import io
import zlib
from typing import Any

from distdoctor.logs.budget import Part, Spent

BLOCK = 1 << 20
"""Bytes that are read at once."""


class Counted(io.BufferedReader):
    """A file whose bytes are counted as they are read."""

    def __init__(self, raw: Any, part: Part) -> None:
        super().__init__(raw, BLOCK)
        self._part = part

    def read(self, size: int | None = -1, /) -> bytes:
        """The next ``size`` bytes. Raises Spent."""
        return self._taken(super().read(size))

    def read1(self, size: int = -1, /) -> bytes:
        """The bytes that come next. Raises Spent."""
        return self._taken(super().read1(size))

    def _taken(self, piece: bytes) -> bytes:
        self._part.took(len(piece))
        return piece


class InPieces(io.RawIOBase):
    """What a compressed file holds, as it comes: of one that was cut off all that is there, and only then the error."""

    def __init__(self, file: Any, part: Part, error: Any = zlib.error) -> None:
        self._file, self._part, self._error = file, part, error

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next piece. Raises Spent where it holds too much, OSError for what was not compressed so, EOFError where
        the end is missing."""
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

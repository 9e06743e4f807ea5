"""A file compressed by xz or bzip2, stream after stream, which tells where its end is missing."""

from __future__ import annotations

import bz2
import lzma
import re
from collections.abc import Callable
from typing import BinaryIO

MEMORY = 128 << 20
"""Bytes that unpacking may take: ``xz -9`` asks for half of it."""
FED = 1 << 16
"""Compressed bytes that are read at once."""
_XZ, _BZIP2 = b"\xfd7zXZ\0", re.compile(rb"BZh[1-9]1AY&SY")
"""How they begin."""
ERRORS = (lzma.LZMAError, OSError)
"""What they raise for what was not compressed so, or takes too much memory."""


def unpacked(raw: BinaryIO, head: bytes) -> Unpacked | None:
    """What ``raw`` holds, which begins with ``head``; None where neither of them has packed it."""
    if head.startswith(_XZ):
        return Unpacked(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY))
    return Unpacked(raw, bz2.BZ2Decompressor) if _BZIP2.match(head) else None


class Unpacked:
    """What ``raw`` holds. Streams, each unpacked by a ``new`` one, follow each other where logs were appended, or
    packed by several threads."""

    def __init__(self, raw: BinaryIO, new: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]) -> None:
        self._raw, self._new = raw, new
        self._stream = self._new()
        self._packed = b""

    def read1(self, size: int) -> bytes:
        """The next bytes, none at the end. Raises EOFError where the end of a stream is missing, and ERRORS."""
        while True:
            if self._stream.eof:
                self._packed = self._stream.unused_data.lstrip(b"\0") or self._next().lstrip(b"\0")
                if not self._packed:
                    return b""
                self._stream = self._new()
            elif self._stream.needs_input and not self._packed:
                self._packed = self._next()
                if not self._packed:
                    raise EOFError
            packed, self._packed = self._packed, b""
            if plain := self._stream.decompress(packed, size):
                return plain

    def _next(self) -> bytes:
        return self._raw.read(FED)

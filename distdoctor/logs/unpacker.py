"""A file compressed by gzip, xz or bzip2, stream after stream, which tells where its end is missing."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

MEMORY = 128 << 20
"""Bytes that unpacking may take: ``xz -9`` asks for half of it."""
FED = 1 << 16
"""Compressed bytes that are read at once."""
MOST_STREAMS = 500_000
"""In one file: bgzip's have 64 KiB each."""
_GZIP, _XZ, _BZIP2 = b"\x1f\x8b", b"\xfd7zXZ\0", re.compile(rb"BZh[1-9]1AY&SY")
"""How they begin."""
ERRORS = (lzma.LZMAError, zlib.error, OSError)
"""What they raise for what was not compressed so, or takes too much memory."""


def unpacked(raw: BinaryIO, head: bytes) -> Unpacked | None:
    """What ``raw`` holds, which begins with ``head``; None where none of them has packed it."""
    if head.startswith(_GZIP):
        return Unpacked(raw, _Gzip)
    if head.startswith(_XZ):
        return Unpacked(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY))
    return Unpacked(raw, bz2.BZ2Decompressor) if _BZIP2.match(head) else None


class _Stream(Protocol):
    """How a stream is unpacked: as by ``bz2.BZ2Decompressor``."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """One stream of gzip. Python's GzipFile reads the name in its head byte after byte, to wherever it ends."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        """Whether its end was reached."""
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        """Whether all of what it was given is unpacked."""
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What it was given from behind its end."""
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes, so many at most. Raises zlib.error."""
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


class Unpacked:
    """What ``raw`` holds. Streams, each unpacked by a ``new`` one, follow each other where logs were appended, or
    packed by several threads."""

    def __init__(self, raw: BinaryIO, new: Callable[[], _Stream]) -> None:
        self._raw, self._new = raw, new
        self._stream = self._new()
        self._packed, self._streams = b"", 1

    def read1(self, size: int) -> bytes:
        """The next bytes, none at the end. Raises EOFError where the end of a stream is missing, and ERRORS."""
        while True:
            if self._stream.eof:
                self._packed = self._stream.unused_data.lstrip(b"\0") or self._next().lstrip(b"\0")
                if not self._packed:
                    return b""
                self._stream, self._streams = self._new(), self._streams + 1
                if self._streams > MOST_STREAMS:
                    raise OSError(0, f"more than {MOST_STREAMS} compressed parts in one file")
            elif self._stream.needs_input and not self._packed:
                self._packed = self._next()
                if not self._packed:
                    raise EOFError
            packed, self._packed = self._packed, b""
            if plain := self._stream.decompress(packed, size):
                return plain

    def _next(self) -> bytes:
        return self._raw.read(FED)

"""A file compressed by zstd, frame after frame, which tells where its end is missing."""

from __future__ import annotations

from typing import BinaryIO

from zstandard import ZstdDecompressor, ZstdError

__all__ = ["ZstdError", "ZstdFile"]

WINDOW = 1 << 27
"""Bytes that a frame may look back at: what zstd itself unpacks without being asked for more."""
FED = 1 << 10
"""Compressed bytes that are unpacked at once: four of them can stand for 128 KiB (RFC 8878, RLE blocks)."""


class ZstdFile:
    """What ``raw`` holds. Several frames follow each other where logs were appended, or packed by several threads."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._unpacker = ZstdDecompressor(max_window_size=WINDOW)
        self._frame = self._unpacker.decompressobj()
        self._begun = False
        self._packed, self._plain = b"", memoryview(b"")

    def read1(self, size: int) -> bytes:
        """The next bytes, none at the end. Raises ZstdError, and EOFError where the end of a frame is missing."""
        while not self._plain:
            if not self._packed:
                self._packed = self._raw.read(FED)
                if not self._packed:
                    if self._begun:
                        raise EOFError
                    return b""
            self._begun = True
            self._plain, self._packed = memoryview(self._frame.decompress(self._packed)), b""
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame, self._begun = self._unpacker.decompressobj(), False
        piece, self._plain = bytes(self._plain[:size]), self._plain[size:]
        return piece

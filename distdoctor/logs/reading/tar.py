"""Streaming reader of tar archives: headers and names take a fixed amount of memory.

Python's tarfile reads a long name or a pax header whole, however large it claims to be, and keeps every member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

BLOCK = 512
PIECE = 1 << 20
LONGEST_HEADER = 1 << 20
"""Most bytes of a long name or a pax header; a path has 4,096 at most."""
LONGEST_NAME = 320
"""Characters kept of a name, from its end."""
CUT_OFF, DAMAGED = "the archive was cut off", "the archive is damaged"
_REGULAR, _NO_DATA = b"0\x007", b"123456"
_GNU_NAME, _GNU_LINK, _GNU_SPARSE, _PAX, _PAX_GLOBAL = b"L", b"K", b"S", b"xX", b"g"


class Damaged(Exception):
    """Data that is no tar archive, or that cannot be read on; the text gives the reason."""


@dataclass
class TarMember:
    """Regular file in an archive; ``left``: its bytes that were not read yet."""

    name: str
    left: int
    sparse: bool
    """True if the archive leaves out its holes: it is not read."""
    _raw: BufferedReader

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises Damaged if the archive ends before them."""
        while self.left:
            piece = _next(self._raw, min(self.left, PIECE))
            if not piece:
                raise Damaged(CUT_OFF)
            self.left -= len(piece)
            yield piece


def is_tar(head: bytes) -> bool:
    """Return whether data that begins so is a tar archive."""
    return len(head) >= BLOCK and (_is_header(head[:BLOCK]) or not any(head[: 2 * BLOCK]))


def members(raw: BufferedReader) -> Iterator[TarMember]:
    """Yield the regular files of the archive, each to be read before the next.

    Raises Damaged, and the errors of reading ``raw``.
    """
    name, size, sparse = "", -1, False
    while (head := _header(raw)) is not None:
        kind, own_size = head[156:157], _size_of(head[124:136])
        if kind in _GNU_NAME or kind in _GNU_LINK or kind in _PAX or kind in _PAX_GLOBAL:
            text = _small(raw, own_size)
            if kind in _GNU_NAME:
                name = _decoded(text)
            elif kind in _PAX:
                records = _records(text)
                name = _decoded(records.get(b"path", b"")) or name
                size = _decimal(records[b"size"]) if b"size" in records else size
                sparse = any(key.startswith(b"GNU.sparse.") for key in records)
            continue
        if kind in _GNU_SPARSE:
            more = head[482:483]
            while more == b"\1":
                more = _exactly(raw, BLOCK)[504:505]
        name = name or _own_name(head)
        size = own_size if size < 0 else size
        if kind in _NO_DATA:
            size = 0
        file = TarMember(name[-LONGEST_NAME:], size, sparse or kind in _GNU_SPARSE, raw)
        padded = -size % BLOCK
        if (kind in _REGULAR and not name.endswith("/")) or kind in _GNU_SPARSE:
            yield file
        for _ in file.pieces():
            pass
        _exactly(raw, padded)
        name, size, sparse = "", -1, False


def _header(raw: BufferedReader) -> bytes | None:
    """Return the next header, None at the end of the archive."""
    head = _up_to(raw, BLOCK)
    if not any(head):
        return None
    if len(head) < BLOCK:
        raise Damaged(CUT_OFF)
    if not _is_header(head):
        raise Damaged(DAMAGED)
    return head


def _is_header(head: bytes) -> bool:
    try:
        checksum = _size_of(head[148:156])
    except Damaged:
        return False
    return checksum == sum(head[:148]) + 256 + sum(head[156:BLOCK])


def _size_of(field: bytes) -> int:
    """Return an octal number, or one of GNU's in base 256. Raises Damaged for any other, and for a negative one."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip()
    try:
        return _not_negative(int(text or b"0", 8))
    except ValueError:
        raise Damaged(DAMAGED) from None


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise Damaged(DAMAGED)
    return int(text)


def _not_negative(number: int) -> int:
    if number < 0:
        raise Damaged(DAMAGED)
    return number


def _small(raw: BufferedReader, size: int) -> bytes:
    """Return the data of a header that describes the next member."""
    if size > LONGEST_HEADER:
        raise Damaged(f"a header of {size} bytes, where {LONGEST_HEADER} are read")
    text = _exactly(raw, size)
    _exactly(raw, -size % BLOCK)
    return text


def _records(text: bytes) -> dict[bytes, bytes]:
    """Return the records of a pax header, each ``LENGTH KEY=VALUE`` and an end of line."""
    records, at = dict[bytes, bytes](), 0
    while at < len(text) and text[at : at + 1] != b"\0":
        length, space, _ = text[at : at + 20].partition(b" ")
        if not space or not 5 <= _decimal(length) <= len(text) - at:
            raise Damaged(DAMAGED)
        key, _, value = text[at + len(length) + 1 : at + int(length) - 1].partition(b"=")
        records[key] = value
        at += int(length)
    return records


def _own_name(head: bytes) -> str:
    name, prefix = _decoded(head[:100]), _decoded(head[345:500])
    return f"{prefix}/{name}" if prefix and head[257:263] == b"ustar\0" else name


def _decoded(text: bytes) -> str:
    return text.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _exactly(raw: BufferedReader, size: int) -> bytes:
    data = _up_to(raw, size)
    if len(data) < size:
        raise Damaged(CUT_OFF)
    return data


def _up_to(raw: BufferedReader, size: int) -> bytes:
    pieces = list[bytes]()
    while size > 0 and (piece := _next(raw, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _next(raw: BufferedReader, size: int) -> bytes:
    try:
        return raw.read1(size)
    except EOFError:  # the end of a compressed file is missing
        raise Damaged(CUT_OFF) from None

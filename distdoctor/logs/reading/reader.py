"""Reader of all files that a job left: detects their kind by content, unpacks them, and yields blocks of whole
lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from distdoctor.logs.reading import file_names, formats, tar
from distdoctor.logs.reading.budget import BLOCK_BYTES, Budget, BudgetedReader, InPieces, Part
from distdoctor.logs.reading.file_names import begins_as_tool, is_no_log, is_of_kernel, is_of_tool

Kind = Literal["log", "kernel", "facts", "error-file", "flight-recorder", "binary", "beside"]

LONGEST = 4 << 20
"""Most bytes of a line; a longer one is cut: it is a printed tensor, or the file has no lines."""
OVERLAP = 512
"""Bytes of a cut line that are read twice, so that nothing is lost in the cut."""
HEAD = 8192
"""First bytes by which the kind of a file is detected."""
MAX_FILES = 20_000
"""Most files, more than a job leaves; naming a whole file system is reported as an error."""

_ANSI = re.compile(formats.COLOURS.encode())
_SHOWN_ANSI = re.compile(formats.SHOWN_COLOURS)
_ROTATED = re.compile(
    r"(?s)(?P<log>.+?)(?:[.-](?P<day>\d{8}(?:[-T_]?\d{4,6})?|\d{4}-\d\d-\d\d)|\.(?P<number>\d{1,3}))(?:\.(?:gz|zst|xz|bz2))?"
)
"""Names that logrotate and Python's handlers give to older parts of a log."""
_DUMPED = (b"entries", b"pg_config", b"pg_status", b"profiling_name")
"""Keys near the beginning of a flight recorder's dump."""
_CONTROL = bytes({*range(1, 32), 127} - {*b"\b\t\n\f\r\x1b"})
"""Bytes that occur in no text."""
_FACTS = re.compile(rb'\{\s*(?:"distdoctor"\s*:\s*"[^"]{1,40}"\s*,\s*)?"facts"\s*:\s*\[\s*\{')
"""Beginning of a facts file; a key near its end may be far behind."""
_NO_LOGS = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"%PDF", b"\x93NUMPY", b"SQLite format")


class Unreadable(Exception):
    """Input that cannot be read; the text names it and gives the reason."""


class Empty(Unreadable):
    """Input without content."""


@dataclass(frozen=True)
class Source:
    """File to be read, or stdin (``-``); ``data``: the content of an archive's member."""

    name: str
    path: Path | None
    given: bool = True
    """True if the user named it, False if it was found in a folder."""
    folder: str = ""
    """Folder that the user named and in which it was found."""
    part_of: str = ""
    """Log of which it is an older, rotated part."""
    data: bytes | None = None
    packed: bool = False
    """True if ``data`` was compressed by gzip to take less memory; its content may itself be compressed."""


def find(paths: Iterable[Path]) -> list[Source]:
    """Return the files of these paths; of a folder, all non-empty files below it, sorted by name.

    Raises Unreadable for a missing path, and for more files than MAX_FILES.
    """
    found: list[Source] = []
    for path in paths:
        if str(path) == "-":
            found.append(Source("stdin", None))
        elif path.is_dir():
            for file in _below(path):
                found.append(Source(str(file), file, given=False, folder=str(path)))
                if len(found) > MAX_FILES:
                    raise Unreadable(f"{path}: more than {MAX_FILES} files; name the folder of one job")
        elif not path.exists():
            raise Unreadable(f"{path}: there is no such file")
        else:
            found.append(Source(str(path), path))
    return found


def oldest_first(found: Sequence[Source]) -> list[Source]:
    """Return the files with the older parts of a rotated log before it: ``a.log.2.gz``, ``a.log.1``, ``a.log``."""
    places = {source.name: place for place, source in enumerate(found)}
    keyed = []
    for source in found:
        part = _ROTATED.fullmatch(source.name)
        if part is not None and part["log"] in places:
            key = (places[part["log"]], part["day"] or "", -int(part["number"] or 0))
            keyed.append((key, replace(source, part_of=part["log"])))
        else:  # all parts of a log stand at its position, the log itself last
            keyed.append(((places[source.name], "9", 1), source))
    return [source for _, source in sorted(keyed, key=lambda pair: pair[0])]


def _below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names, key=file_names.natural_sort_key):
            file = Path(folder) / name
            if not name.startswith(".") and (file_names.is_of_restart(str(file)) or not _has_nothing(file)):
                yield file


def _has_nothing(file: Path) -> bool:
    """Return whether it is empty, as most files in torchrun's log folders are, or not to be read, as a pipe."""
    try:
        status = file.stat()
    except OSError:
        return False  # whoever opens it reports the error
    return status.st_size == 0 or not stat.S_ISREG(status.st_mode)


def opened(source: Source, budget: Budget | None = None) -> tuple[Kind, io.BufferedReader]:
    """Return the kind of ``source`` and its uncompressed bytes. Raises Unreadable."""
    raw = uncompressed(source, Part(budget or Budget(), on_disk=source.data is None))
    try:
        head = _peek(raw)
    except (OSError, EOFError, zlib.error) as err:
        raise _unreadable(source, err) from None
    kind = kind_of(head)
    if not source.given and kind == "flight-recorder" and head.startswith(b"\x80"):
        kind = kind if any(name in head for name in _DUMPED) else "binary"
    not_log = kind == "log" and ((not source.given and is_no_log(source.name)) or begins_as_tool(head))
    read = formats.is_json_log(head) or formats.is_gathered(head)
    return "beside" if not_log and (not read or is_of_tool(source.name)) else kind, raw


def uncompressed(source: Source, part: Part) -> io.BufferedReader:
    """Return the bytes of ``source``, unpacked if compressed. Raises Unreadable."""
    try:
        packed = _raw(source, part)
        head = _peek(packed)
        part.compressed = True
        if head.startswith(b"\x28\xb5\x2f\xfd"):
            return _unpacked_zstd(source, packed, part)
        if file := unpack_stream(packed, head):
            return io.BufferedReader(InPieces(file, part, ERRORS), BLOCK_BYTES)
    except (OSError, EOFError, zlib.error) as err:
        raise _unreadable(source, err) from None
    part.compressed = False
    return packed


def _unreadable(source: Source, err: Exception) -> Unreadable:
    return Unreadable(f"{source.name}: {getattr(err, 'strerror', None) or str(err) or 'cannot be read'}")


def _raw(source: Source, part: Part) -> BudgetedReader:
    if source.data is not None:
        held: Any = io.BytesIO(source.data)
        return BudgetedReader(gzip.GzipFile(fileobj=held) if source.packed else held, part)
    if source.path is None:
        return BudgetedReader(io.FileIO(sys.stdin.fileno(), closefd=False), part)
    handle = os.open(source.path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(handle)
        raise OSError(0, "not a regular file")
    if stat.S_ISREG(mode) and os.fstat(handle).st_size == 0:  # as all of /proc is, where a read can block forever
        os.close(handle)
        raise Empty(f"{source.name}: empty")
    os.set_blocking(handle, True)
    return BudgetedReader(io.FileIO(handle, closefd=True), part)


def _peek(raw: io.BufferedReader) -> bytes:
    return raw.peek(HEAD)[:HEAD]


def _unpacked_zstd(source: Source, raw: io.BufferedReader, part: Part) -> io.BufferedReader:
    try:
        from zstandard import ZstdError  # an extra of the package
    except ImportError:
        raise Unreadable(f"{source.name}: compressed by zstd; unpack it first, or pip install zstandard") from None
    return io.BufferedReader(InPieces(ZstdFile(raw), part, ZstdError), BLOCK_BYTES)


def _is_no_text(head: bytes) -> bool:
    """Return whether these bytes are binary data, such as TensorBoard's events and safetensors.

    Logs have NUL bytes, too: in UTF-16, and where a file was truncated while it was written to.
    """
    if b"\0" not in head:
        return False
    if head[8:10] == b'{"' and b"\0" in head[:8]:  # safetensors: the length of the text that follows
        return True
    text = head.replace(b"\0", b"")
    return len(text) - len(text.translate(None, _CONTROL)) > len(text) // 20


def kind_of(head: bytes) -> Kind:
    """Return the kind of data that begins with these bytes."""
    if head.startswith(b"\x80") and head[1:2] in b"\x02\x03\x04\x05":
        return "flight-recorder"
    if head.startswith(_NO_LOGS) or _is_no_text(head):
        return "binary"
    start = head.lstrip()
    if start.startswith(b"{"):
        if _FACTS.match(start) or (b'"schema_version"' in head and b'"facts"' in head):
            return "facts"
        if b'"entries"' in head and (
            b'"pg_config"' in head or b'"pg_status"' in head or b'"collective_seq_id"' in head
        ):
            return "flight-recorder"
        if b'"pg_config"' in head and b'"version"' in head:
            return "flight-recorder"
        if re.match(rb'\{\s*"message"\s*:', start) and (b'"extraInfo"' in head or b'"timestamp"' in head):
            return "log" if re.search(rb'\n\{\s*"', start) else "error-file"
    return "kernel" if is_of_kernel(head) else "log"


def blocks(raw: io.BufferedReader) -> Iterator[bytes]:
    """Yield the bytes of a log in blocks of whole lines, without colours and NUL bytes. Raises OSError."""
    cutter, cut_off = Cutter(), False
    while True:
        try:
            block = raw.read1(BLOCK_BYTES)
        except EOFError:  # a compressed log: its readable part was yielded
            block, cut_off = b"", True
        if not block:
            break
        if whole := cutter.cut(block):
            yield whole
    if rest := cutter.end():
        yield rest
    if cut_off:
        raise OSError(0, "the compressed file was cut off")


def up_to(raw: io.BufferedReader, size: int) -> bytes:
    """Return as many of the next ``size`` bytes as can be read. Raises OSError or EOFError if that is none."""
    pieces = list[bytes]()
    try:
        while size > 0 and (piece := raw.read1(min(size, BLOCK_BYTES))):
            pieces.append(piece)
            size -= len(piece)
    except (OSError, EOFError):
        if not pieces:
            raise
    return b"".join(pieces)


class Cutter:
    """Cutter of a byte stream into blocks of whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, block: bytes) -> bytes:
        """Return the whole lines so far."""
        if b"\0" in block:
            block = block.replace(b"\0", b"")  # this also turns UTF-16 into plain text
        block = self._rest + block
        cut = block.rfind(b"\n") + 1
        cut = max(cut, block.rfind(b"\r", cut) + 1)
        if cut:
            self._rest = block[cut:]
            return _plain(block[:cut])
        if len(block) < LONGEST:
            self._rest = block
            return b""
        self._rest = block[-OVERLAP:]
        return _plain(block)

    def end(self) -> bytes:
        """Return the rest at the end of the stream."""
        rest, self._rest = self._rest, b""
        return _plain(rest)


def _plain(block: bytes) -> bytes:
    plain = formats.json_as_text(_ANSI.sub(b"", block) if b"\x1b" in block else block)
    return _SHOWN_ANSI.sub(b"", plain) if b"[0m" in plain else plain


# Logs packed with tar: each member is read like a file of a folder.


HELD = 256 << 20
"""Most bytes of memory for the members of all archives together."""
PLAIN = 128 << 20
"""Bytes of them that are kept uncompressed; later members are compressed."""
OBJECT = 4096
"""Bytes that are counted for each member in addition to its content."""
PACKED_SUFFIXES = re.compile(r"log[^/]{0,200}\.(?:zip|7z|rar|tar(?:\.\w{2,4})?)$", re.I)
"""Name of a file that may hold logs and cannot be unpacked."""
_NAME = re.compile(r"\.(?:tar|tgz|tar\.(?:gz|bz2|xz|zst))$", re.I)


def unpack_archives(found: Iterable[Source], budget: Budget) -> tuple[list[Source], list[str]]:
    """Return ``found`` with each archive replaced by its members, and notes about what could not be read."""
    files, notes, held = list[Source](), list[str](), _Held()
    for source in found:
        try:
            with budget.running():
                for file in _files(source, budget, held, notes):
                    files.append(file)
        except Unreadable as err:
            notes.append(str(err))
    return files, notes


class _Held:
    """Memory and number of the members that are kept."""

    size = files = 0


def _files(source: Source, budget: Budget, held: _Held, notes: list[str]) -> Iterator[Source]:
    """Yield the members of ``source``, if its name and content are an archive's; else ``source`` itself.

    Raises Unreadable after the readable members if it is truncated or holds too much.
    """
    if source.path is None or _NAME.search(source.name) is None:
        yield source
        return
    part = Part(budget)
    try:
        raw = uncompressed(source, part)
    except Unreadable:  # reported when it is read
        yield source
        return
    with raw:
        try:
            is_tar = tar.is_tar(raw.peek(HEAD)[:HEAD])
        except (OSError, EOFError):
            is_tar = False
        if not is_tar:
            yield source
            return
        try:
            for member in tar.members(raw):
                name = member.name.removeprefix("./")
                if not member.left or any(one.startswith(".") for one in name.split("/")):
                    continue
                if member.sparse:
                    notes.append(f"{source.name}/{name}: a sparse file in an archive; unpack it first")
                    continue
                data, packed, err = _data(member, held, part)
                yield Source(f"{source.name}/{name}", None, given=False, data=data, packed=packed)
                if err is not None:
                    raise err
        except tar.Damaged as err:
            raise Unreadable(f"{source.name}: not read to its end: {err}") from None
        except OSError as err:
            raise Unreadable(f"{source.name}: {err.strerror or err}") from None


def _data(member: tar.TarMember, held: _Held, part: Part) -> tuple[bytes, bool, Exception | None]:
    """Return the member's bytes, True if they were compressed, and the reason why they are not complete."""
    pack, kept, why = None, BytesIO(), None
    if held.size + member.left > PLAIN:
        pack = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    try:
        for piece in member.pieces():
            kept.write(pack.compress(piece) if pack is not None else piece)
            if held.size + kept.tell() > HELD or held.files == MAX_FILES:
                raise part.spent()
    except (OSError, tar.Damaged) as err:
        why = err
    if pack is not None:
        kept.write(pack.flush())
    held.size, held.files = held.size + kept.tell() + OBJECT, held.files + 1
    return kept.getvalue(), pack is not None, why


# Files compressed by gzip, xz or bzip2, unpacked stream after stream, with an error if the end is missing.


MEMORY = 128 << 20
"""Most bytes that unpacking may take; ``xz -9`` asks for half of it."""
FED_BYTES = 1 << 16
"""Compressed bytes that are read at once."""
MOST_STREAMS = 500_000
"""Most streams in one file; bgzip's have 64 KiB each."""
_GZIP, _XZ, _BZIP2 = b"\x1f\x8b", b"\xfd7zXZ\0", re.compile(rb"BZh[1-9]1AY&SY")
"""First bytes of each format."""
ERRORS = (lzma.LZMAError, zlib.error, OSError)
"""Errors of the decompressors for other data, or for too much memory."""


def unpack_stream(raw: BinaryIO, head: bytes) -> Unpacked | None:
    """Return the unpacked content of ``raw``, which begins with ``head``; None if it is in no such format."""
    if head.startswith(_GZIP):
        return Unpacked(raw, _Gzip)
    if head.startswith(_XZ):
        return Unpacked(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY))
    return Unpacked(raw, bz2.BZ2Decompressor) if _BZIP2.match(head) else None


class _Stream(Protocol):
    """Decompressor of one stream, with the interface of ``bz2.BZ2Decompressor``."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """Decompressor of one gzip stream. Python's GzipFile reads the name in its head byte by byte, to wherever it
    ends."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        """Return whether the end of the stream was reached."""
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        """Return whether all input is unpacked."""
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """Return the input behind the end of the stream."""
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return the next bytes, at most ``max_length``. Raises zlib.error."""
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


class Unpacked:
    """Unpacked content of ``raw``.

    Several streams, each unpacked by a ``new`` decompressor, follow each other in appended logs and logs packed by
    several threads.
    """

    def __init__(self, raw: BinaryIO, new: Callable[[], _Stream]) -> None:
        self._raw, self._new = raw, new
        self._stream = self._new()
        self._packed, self._streams = b"", 1

    def read1(self, size: int) -> bytes:
        """Return the next bytes, none at the end. Raises EOFError if the end of a stream is missing, and ERRORS."""
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
        return self._raw.read(FED_BYTES)


# Files compressed by zstd, unpacked frame after frame, with an error if the end is missing.


WINDOW = 1 << 27
"""Bytes that a frame may look back: the limit of zstd itself without an option."""
FED_ZSTD_BYTES = 1 << 10
"""Compressed bytes that are unpacked at once: four of them can stand for 128 KiB (RFC 8878, RLE blocks)."""


class ZstdFile:
    """Unpacked content of ``raw``. Several frames follow each other in appended logs and logs packed by several
    threads."""

    def __init__(self, raw: BinaryIO) -> None:
        from zstandard import ZstdDecompressor

        self._raw = raw
        self._unpacker = ZstdDecompressor(max_window_size=WINDOW)
        self._frame = self._unpacker.decompressobj()
        self._begun = False
        self._packed, self._plain = b"", memoryview(b"")

    def read1(self, size: int) -> bytes:
        """Return the next bytes, none at the end. Raises ZstdError, and EOFError if the end of a frame is missing."""
        while not self._plain:
            if not self._packed:
                self._packed = self._raw.read(FED_ZSTD_BYTES)
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

"""Reading whatever a job has left: files in blocks of whole lines, in bounded memory, told apart by their content."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from distdoctor.logs import file_names, json_lines, tables, unpacker
from distdoctor.logs.beside import begins_as_tool, is_beside, is_of_kernel, is_of_tool
from distdoctor.logs.budget import Budget, Part
from distdoctor.logs.counted import BLOCK, Counted, InPieces

Kind = Literal["log", "kernel", "facts", "error-file", "flight-recorder", "binary", "beside"]

LONGEST = 4 << 20
"""A line that is longer is cut: somebody dumped a tensor, or the file has no lines."""
OVERLAP = 512
"""Bytes of a cut line that are seen twice, so that nothing is lost in the cut."""
HEAD = 8192
"""Bytes by which a file is told."""
MAX_FILES = 20_000
"""More than a job leaves; who names a whole file system is told so."""

_ANSI = re.compile(json_lines.COLOURS.encode())
_ROTATED = re.compile(
    r"(?s)(?P<log>.+?)(?:[.-](?P<day>\d{8}(?:[-T_]?\d{4,6})?|\d{4}-\d\d-\d\d)|\.(?P<number>\d{1,3}))(?:\.(?:gz|zst|xz|bz2))?"
)
"""What logrotate and Python's handlers make of the names of older parts of a log."""
_DUMPED = (b"entries", b"pg_config", b"pg_status")
"""Names of what a flight recorder's dump holds, near its beginning."""
_CONTROL = bytes({*range(1, 32), 127} - {*b"\b\t\n\f\r\x1b"})
"""Bytes that no text has."""
_FACTS = re.compile(rb'\{\s*(?:"distdoctor"\s*:\s*"[^"]{1,40}"\s*,\s*)?"facts"\s*:\s*\[\s*\{')
"""How a facts file begins; what says so at its end may be far behind."""
_NO_LOGS = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"%PDF", b"\x93NUMPY", b"SQLite format")


class Unreadable(Exception):
    """An input that cannot be read; the text names it and says why."""


class Empty(Unreadable):
    """An input with nothing in it."""


@dataclass(frozen=True)
class Source:
    """One file (or stdin, ``-``) to be read; ``data``: what is in one of an archive."""

    name: str
    path: Path | None
    given: bool = True
    """Named by whoever asks, and not found in a folder."""
    folder: str = ""
    """The folder so named in which it was found."""
    part_of: str = ""
    """The log of which it is an older part, where that was rotated."""
    data: bytes | None = None
    packed: bool = False
    """``data`` was compressed by gzip to take less memory; what is in it may be compressed, too."""


def find(paths: Iterable[Path]) -> list[Source]:
    """The files of these paths; of a folder, all that are below it with anything in them, in the order of their names.

    Raises Unreadable for a path that is not there, and for more files than MAX_FILES.
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
    """Where a log was rotated, its older parts before it: ``a.log.2.gz``, ``a.log.1``, ``a.log``."""
    places = {source.name: place for place, source in enumerate(found)}
    keyed = []
    for source in found:
        part = _ROTATED.fullmatch(source.name)
        if part is not None and part["log"] in places:
            key = (places[part["log"]], part["day"] or "", -int(part["number"] or 0))
            keyed.append((key, replace(source, part_of=part["log"])))
        else:  # of a log all parts stand where it stood, and it is the last
            keyed.append(((places[source.name], "9", 1), source))
    return [source for _, source in sorted(keyed, key=lambda pair: pair[0])]


def _below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names, key=file_names.natural):
            file = Path(folder) / name
            if not name.startswith(".") and (file_names.is_of_restart(str(file)) or not _has_nothing(file)):
                yield file


def _has_nothing(file: Path) -> bool:
    """Whether it is empty, as most files of torchrun's log folders are, or none to be read, as a pipe."""
    try:
        seen = file.stat()
    except OSError:
        return False  # to be told by whoever opens it
    return seen.st_size == 0 or not stat.S_ISREG(seen.st_mode)


def opened(source: Source, budget: Budget | None = None) -> tuple[Kind, io.BufferedReader]:
    """What ``source`` is, and the bytes in it, uncompressed. Raises Unreadable."""
    raw = uncompressed(source, Part(budget or Budget(), on_disk=source.data is None))
    try:
        head = _peek(raw)
    except (OSError, EOFError, zlib.error) as err:
        raise _unreadable(source, err) from None
    kind = kind_of(head)
    if not source.given and kind == "flight-recorder" and head.startswith(b"\x80"):
        kind = kind if any(name in head for name in _DUMPED) else "binary"
    beside = kind == "log" and ((not source.given and is_beside(source.name)) or begins_as_tool(head))
    read = json_lines.is_log(head) or tables.is_gathered(head)
    return "beside" if beside and (not read or is_of_tool(source.name)) else kind, raw


def uncompressed(source: Source, part: Part) -> io.BufferedReader:
    """The bytes of ``source``, unpacked where they are compressed. Raises Unreadable."""
    try:
        packed = _raw(source, part)
        head = _peek(packed)
        part.compressed = True
        if head.startswith(b"\x28\xb5\x2f\xfd"):
            return _unpacked_zstd(source, packed, part)
        if file := unpacker.unpacked(packed, head):
            return io.BufferedReader(InPieces(file, part, unpacker.ERRORS), BLOCK)
    except (OSError, EOFError, zlib.error) as err:
        raise _unreadable(source, err) from None
    part.compressed = False
    return packed


def _unreadable(source: Source, err: Exception) -> Unreadable:
    return Unreadable(f"{source.name}: {getattr(err, 'strerror', None) or str(err) or 'cannot be read'}")


def _raw(source: Source, part: Part) -> Counted:
    if source.data is not None:
        held: Any = io.BytesIO(source.data)
        return Counted(gzip.GzipFile(fileobj=held) if source.packed else held, part)
    if source.path is None:
        return Counted(io.FileIO(sys.stdin.fileno(), closefd=False), part)
    handle = os.open(source.path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(handle)
        raise OSError(0, "not a regular file")
    if stat.S_ISREG(mode) and os.fstat(handle).st_size == 0:  # as all of /proc is, where reading can wait for ever
        os.close(handle)
        raise Empty(f"{source.name}: empty")
    os.set_blocking(handle, True)
    return Counted(io.FileIO(handle, closefd=True), part)


def _peek(raw: io.BufferedReader) -> bytes:
    return raw.peek(HEAD)[:HEAD]


def _unpacked_zstd(source: Source, raw: io.BufferedReader, part: Part) -> io.BufferedReader:
    try:
        from distdoctor.logs.zstd import ZstdError, ZstdFile  # needs an extra of the package
    except ImportError:
        raise Unreadable(f"{source.name}: compressed by zstd; unpack it first, or pip install zstandard") from None
    return io.BufferedReader(InPieces(ZstdFile(raw), part, ZstdError), BLOCK)


def _is_no_text(head: bytes) -> bool:
    """Whether these are the bytes of a program's data, as TensorBoard's events and safetensors are.

    Logs have NUL bytes, too: of UTF-16, and where a file was cut while it was written to.
    """
    if b"\0" not in head:
        return False
    if head[8:10] == b'{"' and b"\0" in head[:8]:  # safetensors: the length of the text that follows
        return True
    text = head.replace(b"\0", b"")
    return len(text) - len(text.translate(None, _CONTROL)) > len(text) // 20


def kind_of(head: bytes) -> Kind:
    """What begins with these bytes."""
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
    """The bytes of a log in blocks that end with the end of a line, without colours and NUL bytes. Raises OSError."""
    cutter, cut_off = Cutter(), False
    while True:
        try:
            block = raw.read1(BLOCK)
        except EOFError:  # a compressed log: what was there is told
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
    """As many of the next ``size`` bytes as can be read. Raises OSError or EOFError where that is none."""
    pieces = list[bytes]()
    try:
        while size > 0 and (piece := raw.read1(min(size, BLOCK))):
            pieces.append(piece)
            size -= len(piece)
    except (OSError, EOFError):
        if not pieces:
            raise
    return b"".join(pieces)


class Cutter:
    """Makes blocks of whole lines of bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, block: bytes) -> bytes:
        """What is whole by now."""
        if b"\0" in block:
            block = block.replace(b"\0", b"")  # also what makes UTF-16 of plain text
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
        """What is left, where nothing more comes."""
        rest, self._rest = self._rest, b""
        return _plain(rest)


def _plain(block: bytes) -> bytes:
    return json_lines.as_text(_ANSI.sub(b"", block) if b"\x1b" in block else block)

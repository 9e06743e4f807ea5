"""Logs that somebody has packed with tar: each file in it is read as one of a folder."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO

from distdoctor.logs import tar
from distdoctor.logs.budget import Budget, Part
from distdoctor.logs.reader import HEAD, MAX_FILES, Source, Unreadable, uncompressed

HELD = 256 << 20
"""Bytes of memory that the files of all archives may take together."""
PLAIN = 128 << 20
"""Bytes of them that are kept as they are; what comes then is compressed to be kept."""
OBJECT = 4096
"""Bytes that are counted for each file beside what is in it."""
PACKED = re.compile(r"log[^/]{0,200}\.(?:zip|7z|rar|tar(?:\.\w{2,4})?)$", re.I)
"""The name of a file that may hold logs and is none."""
_NAME = re.compile(r"\.(?:tar|tgz|tar\.(?:gz|bz2|xz|zst))$", re.I)


def unpacked(found: Iterable[Source], budget: Budget) -> tuple[list[Source], list[str]]:
    """``found`` with the files of each archive in its place; and what of these could not be read."""
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
    """The memory and the number of the files that are kept."""

    size = files = 0


def _files(source: Source, budget: Budget, held: _Held, notes: list[str]) -> Iterator[Source]:
    """The files in ``source``, where that is an archive by its name and its content; else ``source`` itself.

    Raises Unreadable behind those that could be read, where it is cut off or holds too much.
    """
    if source.path is None or _NAME.search(source.name) is None:
        yield source
        return
    part = Part(budget)
    try:
        raw = uncompressed(source, part)
    except Unreadable:  # told where it is read
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


def _data(member: tar.Member, held: _Held, part: Part) -> tuple[bytes, bool, Exception | None]:
    """The file, whether it was compressed to be kept, and why it is not whole where it is not."""
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

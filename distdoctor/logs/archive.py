"""Logs that somebody has packed with tar: each file in it is read as one of a folder."""

from __future__ import annotations

import lzma
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator

from distdoctor.logs.reader import MAX_FILES, Source, Unreadable

MOST = 256 << 20
"""Bytes of the files of one archive that are read."""
PACKED = re.compile(r"log[^/]{0,200}\.(?:zip|7z|rar|tar(?:\.\w{2,4})?)$", re.I)
"""The name of a file that may hold logs and is none."""
_NAME = re.compile(r"\.(?:tar|tgz|tar\.(?:gz|bz2|xz))$", re.I)


def unpacked(found: Iterable[Source]) -> tuple[list[Source], list[str]]:
    """``found`` with the files of each archive in its place; and what of these could not be read."""
    files, notes = list[Source](), list[str]()
    for source in found:
        try:
            files.extend(_files(source))
        except Unreadable as err:
            notes.append(str(err))
    return files, notes


def _files(source: Source) -> Iterator[Source]:
    """The files in ``source``, where that is such an archive by its name and what is in it; else ``source`` itself.

    Raises Unreadable behind those that could be read, where it is cut off or holds too much.
    """
    if source.path is None or _NAME.search(source.name) is None:
        yield source
        return
    try:
        packed = tarfile.open(source.path, "r|*")  # noqa: SIM115 - closed below
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        yield source
        return
    left, files = MOST, 0
    try:
        with packed:
            for member in packed:
                hidden = any(part.startswith(".") for part in member.name.removeprefix("./").split("/"))
                if not member.isfile() or not member.size or hidden:
                    continue
                left, files = left - member.size, files + 1
                if left < 0 or files > MAX_FILES:
                    raise Unreadable(f"{source.name}: it holds more than is read of an archive; unpack it first")
                file = packed.extractfile(member)
                data = file.read() if file is not None else b""
                yield Source(f"{source.name}/{member.name.removeprefix('./')}", None, given=False, data=data)
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        raise Unreadable(f"{source.name}: not read to its end: the archive was cut off") from None

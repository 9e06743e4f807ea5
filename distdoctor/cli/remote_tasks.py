"""The tasks of a host in a remote run, beside a check: look at the job (``hang``), hand files over (``diagnose``)."""

from __future__ import annotations

import base64
import glob
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from distdoctor.launch.wire import MOST_BYTES, deflated
from distdoctor.render.exit_status import OK

BLOCK = 1 << 20
"""Bytes of a file that go into one message."""


class Line(Protocol):
    """The line to the place that the command was started from."""

    def tell(self, **message: Any) -> None:
        """Send one message."""


def look(line: Line, order: Mapping[str, Any]) -> int:
    """``hang``: the facts of the job that is meant, or why there are none."""
    from distdoctor.inspection.hang import NoJob, Wanted, inspect
    from distdoctor.model.facts import encode

    try:
        line.tell(facts=deflated(encode(inspect(Wanted(**order["wanted"])))))
    except NoJob as err:
        line.tell(nothing=str(err))
    return OK


def hand_over(line: Line, order: Mapping[str, Any]) -> int:
    """``diagnose``: the files that are asked for, as they are."""
    from distdoctor.logs.reader import Unreadable, find

    left = MOST_BYTES
    for pattern in order["files"]:
        try:
            for source in find(_meant(str(pattern))):
                if source.path is not None:
                    left -= _hand_over(line, source.path, left)
        except (Unreadable, OSError) as err:
            line.tell(unread=str(err))
    line.tell(sent=True)
    return OK


def _meant(pattern: str) -> Sequence[Path]:
    """The paths that a pattern of the shell means here; itself, where it is the name of a file or means nothing."""
    pattern = os.path.expanduser(pattern)
    found = [] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True))
    return [Path(one) for one in found or [pattern]]


def _hand_over(line: Line, path: Path, most: int) -> int:
    """Send one file; how many bytes it had. Of /proc and what is no file nothing is read."""
    if not path.is_file():
        line.tell(unread=f"{path}: not a regular file")
        return 0
    seen = path.stat()
    if seen.st_size > most:
        line.tell(unread=f"{path}: with it, more than {MOST_BYTES >> 30} GiB: copy it here, or name fewer files")
        return 0
    # The same file of a file system that several hosts share is known by the last three.
    line.tell(file=str(path), seen=[seen.st_size, seen.st_mtime_ns, seen.st_ino])
    for block in _blocks(path, seen.st_size):
        line.tell(data=base64.b64encode(zlib.compress(block, 1)).decode())
    return seen.st_size


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """What the file has now: one that grows would never end."""
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            size -= len(block)
            yield block


TASKS: dict[str, Callable[[Any, Mapping[str, Any]], int]] = {"hang": look, "files": hand_over}

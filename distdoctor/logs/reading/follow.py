"""Follower of growing logs: reads on where it stopped, takes new files, and survives rotation and truncation."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distdoctor.logs import attribution, endings
from distdoctor.logs.collect import Collected, Collector
from distdoctor.logs.log_file import LogFile
from distdoctor.logs.reading import budget, formats, reader
from distdoctor.logs.reading.budget import Budget

HELD = 256
"""Files that are kept open, so that the last lines before a rotation are read."""
AT_ONCE = 64 << 20
"""Bytes of one file that are read before the next file."""
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
STEADY = ("flight-recorder", "error-file", "facts", "binary")
"""Kinds that are written once, and read when they grow no more."""

Identity = tuple[int, int]


@dataclass
class _Growing:
    source: reader.Source
    identity: Identity
    log: LogFile | None = None
    cutter: reader.Cutter = field(default_factory=reader.Cutter)
    handle: int | None = None
    read: int = 0
    size: int = -1
    """Size at the last poll."""
    whole: bool = False
    """True if it was read as a whole and is of a kind that does not grow."""


class LogFollower:
    """Reader of growing files, folders and stdin into ``collector``."""

    def __init__(self, paths: Sequence[Path], collector: Collector) -> None:
        self._paths = [path for path in paths if str(path) != "-"]
        self._collector = collector
        self._growing: dict[str, _Growing] = {}
        self._gone: dict[Identity, tuple[str, int]] = {}
        """Rotated files by identity, whatever they are called now: their former name, and their size then."""
        self._turns: dict[str, int] = {}
        """Number of times that a file of this name was started again."""
        self._stdin = None if len(self._paths) == len(paths) else collector.log("stdin", "log")
        self._stdin_cutter = reader.Cutter()
        reader.find(self._paths)  # a path that is missing at the start is a mistake

    @property
    def ended(self) -> bool:
        """Return whether nothing more can come."""
        return not self._paths and self._stdin is None

    def poll(self) -> bool:
        """Read new data. Return whether there was any."""
        changed = self._poll_stdin()
        here: set[Identity] = set()
        present = self._present()
        self._collector.name(present)
        for source in present:
            try:
                status = source.path.stat() if source.path is not None else None
            except OSError:
                continue
            if status is not None and stat.S_ISREG(status.st_mode):
                here.add((status.st_dev, status.st_ino))
                changed = self._poll_file(source, status) or changed
        self._gone = {identity: was for identity, was in self._gone.items() if identity in here}
        return changed

    def collected(self) -> Collected:
        """Return everything known by now."""
        logs = [one.log for one in self._growing.values() if one.log is not None]
        return self._collector.collected([*logs, *([self._stdin] if self._stdin is not None else [])])

    def close(self) -> None:
        """Stop reading: text without an end of line counts as a line."""
        for one in self._growing.values():
            self._finish(one)
        self._growing.clear()

    def _present(self) -> list[reader.Source]:
        found: list[reader.Source] = []
        for path in self._paths:
            try:
                found += reader.find([path])
            except reader.Unreadable:  # the file is being rotated, or too much has come since
                continue
        return found

    def _poll_file(self, source: reader.Source, status: os.stat_result) -> bool:
        identity, one = (status.st_dev, status.st_ino), self._growing.get(source.name)
        name, size = self._gone.get(identity, (source.name, 0))
        if name != source.name and status.st_size >= size:
            return False
        # A new file: the inode number of a deleted file is used again.
        self._gone.pop(identity, None)
        if one is not None and (one.identity != identity or status.st_size < one.read):
            self._finish(one)
            self._turns[source.name] = self._turns.get(source.name, 0) + 1
            if one.identity != identity:
                self._gone[one.identity] = source.name, one.read
            one = None
        if one is None:
            one = self._growing[source.name] = _Growing(source, identity)
        steady, one.size = one.size == status.st_size, status.st_size
        if one.whole or status.st_size <= one.read:
            return False
        try:
            return self._read(one, steady)
        except OSError:
            return False

    def _read(self, one: _Growing, steady: bool) -> bool:
        assert one.source.path is not None
        handle = one.handle
        if handle is None:
            handle = os.open(one.source.path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            if len(self._growing) <= HELD:
                one.handle = handle
        try:
            if one.log is None:
                head = os.pread(handle, reader.HEAD, 0)
                kind = reader.kind_of(head)
                if head.startswith(COMPRESSED) or kind in STEADY:
                    if steady:
                        one.whole = True
                        self._collector.add(one.source)
                    return steady
                if head.startswith(b"{") and not steady and not formats.is_json_log(head):
                    return False  # it may become a file of another kind
                one.log = self._collector.log(self._name(one.source), kind)
            return self._read_on(one, handle)
        finally:
            if one.handle is None:
                os.close(handle)

    def _read_on(self, one: _Growing, handle: int) -> bool:
        assert one.log is not None
        before = one.read
        while one.read - before < AT_ONCE and (data := os.pread(handle, budget.BLOCK_BYTES, one.read)):
            one.read += len(data)
            one.log.feed(one.cutter.cut(data))
        return one.read > before

    def _name(self, source: reader.Source) -> str:
        """Return the file's name, with a number if a file of this name was read before."""
        turn = self._turns.get(source.name, 0)
        return f"{source.name} (begun anew, {turn})" if turn else source.name

    def _finish(self, one: _Growing) -> None:
        if one.log is not None:
            if one.handle is not None:
                self._read_on(one, one.handle)
            one.log.feed(one.cutter.end())
            self._collector.end(one.log)
        if one.handle is not None:
            os.close(one.handle)
            one.handle = None

    def _poll_stdin(self) -> bool:
        if self._stdin is None:
            return False
        read = 0
        while read < AT_ONCE and select.select([sys.stdin.fileno()], [], [], 0)[0]:
            data = os.read(sys.stdin.fileno(), budget.BLOCK_BYTES)
            if not data:
                self._stdin.feed(self._stdin_cutter.end())
                self._collector.end(self._stdin)
                self._stdin = None
                return True
            read += len(data)
            self._stdin.feed(self._stdin_cutter.cut(data))
        return read > 0


# Time of a log's end: the last time that is written in it.


LINES = 400
"""Last lines that are searched for a time."""


def last_time(sources: Iterable[reader.Source], budget: Budget) -> float | None:
    """Return the latest of the last times of these logs, None if none has one. Unreadable logs are left out."""
    found: float | None = None
    for source in sources:
        with budget.running():
            time = _of(source, budget)
        if time is not None and (found is None or attribution.earlier(found, time)):
            found = time
    return found


def _of(source: reader.Source, budget: Budget) -> float | None:
    try:
        kind, raw = reader.opened(source, budget)
    except reader.Unreadable:
        return None
    with raw:
        if kind not in ("log", "kernel"):
            return None
        tail = b""
        try:
            if isinstance(raw.raw, io.FileIO) and raw.seekable():  # not compressed
                raw.seek(max(raw.seek(0, os.SEEK_END) - endings.TAIL, 0))
            for block in reader.blocks(raw):
                tail = (tail + block)[-endings.TAIL :]
        except OSError:
            return None
    for line in reversed(tail.splitlines()[-LINES:]):
        who, _ = attribution.split(attribution.readable(line[:300]))
        if who.time is not None:
            return who.time
    return None

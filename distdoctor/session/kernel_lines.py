"""Which lines of the kernel's log are known, by the checks that look at it: as of logs that are read afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.judge.catalog import Check
from distdoctor.model.facts import KernelLine
from distdoctor.model.log_line import Line
from distdoctor.probes import kernel_log
from distdoctor.probes.threads import in_time
from distdoctor.session.recorder import Recorder

PART = "host.kernel_log"
MOST, TEXT = 100, 300
LATELY_SECONDS = 900.0
"""What is older says nothing of a job that starts now."""
LASTING = {"server", "device"}
"""What lines name that tell of a state, of a file server or a disk. The kernel says it once, as it begins; it lasts
until a later line says otherwise, however long ago that was."""


async def known(checks: Iterable[Check]) -> tuple[KernelLine, ...] | None:
    """The known ones of late, and those of what lasts, the last of each; None where the log may not be read."""
    wordings = {check.id: tuple(check.log) for check in checks if PART in (*check.looks_at, *check.helped_by)}
    records = await in_time(kernel_log.read, kernel_log.SECONDS) if wordings else None
    if records is None:
        return None
    lines, since = [*_known(records, wordings)], time.time() - LATELY_SECONDS
    lasting = [line for line in lines if LASTING & line.values.keys()]
    lately = [line for line in lines if line.at >= since and line not in lasting]
    return tuple(sorted((*lasting[-MOST:], *lately[-MOST:]), key=lambda line: line.at))


async def look_again(recorder: Recorder) -> None:
    """Something failed here: what the kernel has written since."""
    lines, host = await known(recorder.options.checks), recorder.facts.host
    if lines is not None and host is not None:
        recorder.update(host=replace(host, kernel_log=lines))


def _known(records: Sequence[tuple[float, str]], wordings: dict[str, tuple[Line, ...]]) -> Iterator[KernelLine]:
    from distdoctor.logs.scanner import Scanner, read  # only where there is a log to search

    scanner = Scanner(wordings)
    search, block = scanner.begin(), "\n".join(text for _, text in records).encode()
    for start, end, ways in scanner.lines(block, search):
        at, text = records[block.count(b"\n", 0, start)][0], block[start:end].decode(errors="replace")
        for way in read(ways, text)[0]:
            values = way.values(text)
            if values is not None:
                yield KernelLine(way.check, way.line.shows, text[:TEXT], round(at, 1), values)

"""What a process wrote before it died, and what of it stands below its last word.

Python writes errors at once, and what a program prints into a file or a pipe only 8 KiB at a time, the rest of it when
the process ends: after the traceback (Lib/io.py, sys.stdout). Such steps do not show that the error was survived.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.ending import PROGRESS, RECORD
from distdoctor.logs.tracebacks import BACK, HEAD
from distdoctor.model.facts.logs import Who

MOST = 32 << 10
"""Bytes that may stand below: two buffers of Python's, of the two ranks that are written into one log."""
_HOOK = re.compile(rb"\[rank\d{1,6}\]: $")
"""Before what torch's own hook for uncaught exceptions writes (torch/distributed/distributed_c10d.py, since 2.3)."""
_AT_ONCE = re.compile(
    r"^\[?(?:rank\d{1,6}\]:)?\[?[WIEF][01]\d[0-3]\d \d\d:|Warning: |\bNCCL (?:version \d|INFO Bootstrap)"
    r"|\d%\s?[|▏▎▍▌▋▊▉█━]|Traceback \(most recent"
)
"""What is written at once, by a process that lives: of glog, of Python's warnings, of NCCL that starts, of a bar."""
_NUMBER = re.compile(r"(?<![\d.])\d{1,12}(?![\d.])")
_AT_THE_END = re.compile(r"destroy_process_group\(\)|leaked |TCPStore\.cpp|Broken pipe")
"""The same of one that ends."""


@dataclass(frozen=True)
class Died:
    """An exception that ended its process."""

    line: int
    surely: bool
    """Whether torch's hook wrote it; else its traceback begins with the program itself, which may have caught it."""


def died(context: bytes, at: int, line: int) -> Died | None:
    """The exception whose own line ``line`` begins at ``at``, where its traceback is that of one that nobody caught."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    if head < 0:
        return None
    begin = context.rfind(b"\n", 0, head) + 1
    if _HOOK.search(context, begin, head):
        return Died(line, True)
    frame = context[context.find(b"\n", head) + 1 : at].partition(b"\n")[0]
    return Died(line, False) if b", in <module>" in frame else None


def is_rest(above: bytes, below: bytes) -> bool:
    """Whether what stands below the last exception of a log was written before it: nothing of it is written at once,
    and its steps are not those that stand above it, as of a job that was started again."""
    if not below or len(below) > MOST:
        return False
    for raw in below.splitlines():
        whole = readable(raw[:400])
        if (_AT_ONCE.search(whole) or RECORD.match(split(whole)[1])) and not _AT_THE_END.search(whole):
            return False
    speaker, after = _step(below.splitlines())
    _, before = _step(reversed(above.splitlines()), speaker)
    return not before or after > before


def _step(lines: Iterable[bytes], speaker: Who | None = None) -> tuple[Who, tuple[int, ...]]:
    """Of the first of these lines that shows a step, by ``speaker`` where one is given, who says it, and its whole
    numbers."""
    for raw in lines:
        who, text = split(readable(raw[:400]))
        who = replace(who, pid=None, time=None)
        if speaker in (None, who) and PROGRESS.search(text):
            return who, tuple(int(number) for number in _NUMBER.findall(text))
    return Who(), ()

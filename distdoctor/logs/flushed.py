"""What a process wrote before it died, and what of it stands below its last word.

Python writes errors at once, and what a program prints into a file or a pipe only 8 KiB at a time. It writes the rest
before the traceback of a script (flush_io() in Python/pythonrun.c), but after that of a module that ``python -m`` runs
(pymain_run_module() in Modules/main.c) and after that of a child of multiprocessing (_bootstrap() in its process.py).
Such steps do not show that the error was survived. torchrun starts Python unbuffered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.ending import PROGRESS, RECORD
from distdoctor.logs.tracebacks import BACK, HEAD
from distdoctor.model.facts.logs import Who

MOST = 32 << 10
"""Bytes that may stand below: two buffers of Python's, of the two ranks that are written into one log."""
ABOVE = 200
"""Bytes before a traceback in which Python says that it is of a thread."""
_OUTERMOST = re.compile(
    rb"[^\n]{0,120}?  File \"[^\"\n]{1,400}\", line \d{1,6}, in (?:_run_module_as_main|_bootstrap)\b"
)
"""The frame in which a traceback begins that nobody in the program caught."""
_CHILD = re.compile(rb"\bProcess [A-Za-z]\w{0,40}-\d{1,6}(?::\d{1,6})*:\s*\n[^\n]{0,120}\Z")
"""How multiprocessing announces what ended a process of its (_bootstrap() in its process.py)."""
_LAUNCHER = b"torch/distributed/run.py"
_AT_ONCE = re.compile(
    r"^\[?(?:rank\d{1,6}\]:)?\[?[WIEF][01]\d[0-3]\d \d\d:|Warning: |\bNCCL (?:version \d|INFO Bootstrap)"
    r"|\d%\s?[|▏▎▍▌▋▊▉█━]|Traceback \(most recent"
)
"""What is written at once, by a process that lives: of glog, of Python's warnings, of NCCL that starts, of a bar."""
_NUMBER = re.compile(r"(?<![\d.])\d{1,12}(?![\d.])")
_AT_THE_END = re.compile(r"destroy_process_group\(\)|leaked |TCPStore\.cpp|Broken pipe")
"""The same of one that ends."""


def is_uncaught(context: bytes, at: int) -> bool:
    """Whether nobody has caught the exception whose own line begins at ``at``, and what its process had printed may
    come below it."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    begin = context.find(b"\n", head) + 1
    return head >= 0 and _OUTERMOST.match(context, begin) is not None and context.find(_LAUNCHER, begin, at) < 0


def is_of_thread(context: bytes, at: int) -> bool:
    """Whether the exception whose own line begins at ``at`` has ended a thread: its process goes on with what it has,
    as batches that were fetched ahead, and may end for the want of more."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    return head >= 0 and context.find(b"Exception in thread ", max(head - ABOVE, 0), head) >= 0


def is_of_child(context: bytes, at: int) -> bool:
    """Whether the exception whose own line begins at ``at`` has ended a process that multiprocessing started."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    return head >= 0 and _CHILD.search(context, max(head - ABOVE, 0), head) is not None


def is_rest(above: Sequence[bytes], below: Sequence[bytes]) -> bool:
    """Whether what stands below the last exception of a log was written before it: nothing of it is written at once,
    and its steps are not those that stand above it, as of a job that was started again."""
    if not below or sum(map(len, below)) > MOST:
        return False
    for raw in below:
        whole = readable(raw[:400])
        if (_AT_ONCE.search(whole) or RECORD.match(split(whole)[1])) and not _AT_THE_END.search(whole):
            return False
    speaker, after = first_step(below)
    _, before = first_step(reversed(above), speaker)
    return not before or after > before


def first_step(lines: Iterable[bytes], speaker: Who | None = None) -> tuple[Who, tuple[int, ...]]:
    """Of the first of these lines that shows a step, by ``speaker`` where one is given, who says it, and its whole
    numbers."""
    for raw in lines:
        who, text = split(readable(raw[:400]))
        who = replace(who, pid=None, time=None)
        if speaker in (None, who) and PROGRESS.search(text):
            return who, tuple(int(number) for number in _NUMBER.findall(text))
    return Who(), ()

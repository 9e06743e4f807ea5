"""What a harness or a viewer has put before every line of a log: the mark of a comment, as TAP has it, or a number."""

from __future__ import annotations

import re
from itertools import pairwise

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.ending import PROGRESS
from distdoctor.model.facts.logs import Who

FEWEST = 8
"""Lines, below which nothing is known of all."""
_COMMENT = re.compile(rb"^(?:#|//)(?: |$)", re.M)
_NUMBER = re.compile(rb"^ {0,6}(\d{1,7})[\t:]", re.M)
"""``cat -n`` and ``grep -n``."""


def of_all(head: bytes) -> re.Pattern[bytes] | None:
    """What stands before nearly all lines of a log that begins with ``head``, and is none of theirs."""
    whole = head[: head.rfind(b"\n") + 1] or head
    lines = [line for line in whole.splitlines() if line.strip()]
    if len(lines) < FEWEST:
        return None
    marked = [line for line in lines if _COMMENT.match(line)]
    if len(marked) * 5 >= len(lines) * 4 and any(_is_logs(_COMMENT.sub(b"", line)) for line in marked):
        return _COMMENT
    numbers = [int(found[1]) for found in map(_NUMBER.match, lines) if found]
    rising = all(one < other for one, other in pairwise(numbers))
    return _NUMBER if rising and len(numbers) == len(lines) else None


def _is_logs(line: bytes) -> bool:
    """Whether it is what a job writes, and no comment of a program."""
    who, text = split(readable(line[:300]))
    return who != Who() or PROGRESS.search(text) is not None

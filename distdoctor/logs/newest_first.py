"""Logs with their newest line first, as ``gcloud logging read`` and Loki give them out: turned round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from distdoctor.logs.attribution import readable, split

LARGEST = 64 << 20
"""Bytes of a log that is turned round; a larger one is read as it is."""
MOST_LINES = 1_000_000
DROPS = 2
"""Times that are earlier than the one before, at least: fewer are two clocks that differ."""


def begins(head: bytes) -> bool:
    """Whether the log that begins with these whole lines has its newest one first: no line is later than the one
    before, and all have a time but those within a text."""
    times = [time for line in head.split(b"\n")[:400] if (time := _time(line)) is not None]
    drops = sum(later < earlier for earlier, later in pairwise(times))
    rises = any(later > earlier for earlier, later in pairwise(times))
    return drops >= DROPS and not rises and times[0] - times[-1] >= 1


def in_order(text: bytes) -> tuple[bytes, list[int]]:
    """The lines of ``text``, the last one first, each with what follows it without a time of its own; and at which line
    of ``text`` each stands."""
    groups = [*_groups(text)][::-1]
    lines = [(number, line) for group in groups for number, line in group]
    return b"".join(line + b"\n" for _, line in lines), [number for number, _ in lines]


def _groups(text: bytes) -> Iterator[list[tuple[int, bytes]]]:
    group: list[tuple[int, bytes]] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        if group and _time(line) is not None:
            yield group
            group = []
        group.append((number, line))
    if group:
        yield group


def _time(line: bytes) -> float | None:
    return split(readable(line[:300]))[0].time if line else None

"""When logs end: the last time that is written in them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from distdoctor.logs import attribution, ending, reader
from distdoctor.logs.budget import Budget

LINES = 400
"""Lines from the end that are looked at."""


def last_time(sources: Iterable[reader.Source], budget: Budget) -> float | None:
    """The latest of the last times of these logs; None where none has one. What cannot be read is left out."""
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
                raw.seek(max(raw.seek(0, os.SEEK_END) - ending.TAIL, 0))
            for block in reader.blocks(raw):
                tail = (tail + block)[-ending.TAIL :]
        except OSError:
            return None
    for line in reversed(tail.splitlines()[-LINES:]):
        who, _ = attribution.split(attribution.readable(line[:300]))
        if who.time is not None:
            return who.time
    return None

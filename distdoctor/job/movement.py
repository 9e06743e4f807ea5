"""Whether a job moves, by what it writes: steps whose numbers change, and lines of a kind that it has not written yet.

A job that hangs may go on writing: an agent that still waits for others, a watchdog that counts the seconds.
"""

from __future__ import annotations

import re
import time

from distdoctor.logs.ending import PROGRESS

EVERY = 1.0
"""Seconds between two samples: a job that writes much is not read twice."""
SAMPLE = 4096
KINDS = 5000
_VALUE = re.compile(rb"0x[0-9a-f]+|\d+")


class Movement:
    """Hears what the job writes."""

    def __init__(self) -> None:
        self._kinds: set[bytes] = set()
        self._last: set[bytes] = set()
        self._heard = 0.0
        self.since = time.monotonic()
        """Since when it has not moved."""

    def hear(self, data: bytes) -> None:
        """A piece of its output."""
        now = time.monotonic()
        if now - self._heard < EVERY:
            return
        self._heard = now
        lines = {line.strip() for line in re.split(rb"[\r\n]+", data[-SAMPLE:])} - {b""}
        kinds = {_VALUE.sub(b"0", line)[:160] for line in lines}
        steps = any(PROGRESS.search(line[-600:].decode(errors="replace")) for line in lines - self._last)
        if steps or not kinds <= self._kinds:
            self.since = now
        self._last = lines
        if len(self._kinds) < KINDS:
            self._kinds |= kinds

"""What the kernel of this host has written to its log, as far back as it keeps it."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Iterator

READ_ALL = 3
"""SYSLOG_ACTION_READ_ALL of syslog(2): the last bytes of the log, which stay in it."""
MOST_BYTES = 256 << 10
SECONDS = 0.5
"""In which it is read."""
_RECORD = re.compile(r"<\d+>\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])? (.*)")
"""With the times that printk adds (kernel/printk/printk.c, print_prefix), in seconds since the start of the machine;
and, where CONFIG_PRINTK_CALLER is set, who wrote it."""


def read() -> tuple[tuple[float, str], ...] | None:
    """When (in seconds since the epoch, by this host's clock) and what, the last MOST_BYTES of it. None where it may
    not be read (kernel.dmesg_restrict, a container)."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "klogctl"):
        return None
    buffer = ctypes.create_string_buffer(MOST_BYTES)
    length = library.klogctl(READ_ALL, buffer, MOST_BYTES)
    if length < 0:
        return None
    text = buffer.raw[:length].decode(errors="replace")
    return tuple(records(text, time.clock_gettime(time.CLOCK_MONOTONIC), time.time()))


def records(text: str, up: float, now: float) -> Iterator[tuple[float, str]]:
    """The records of the log's ``text`` that have a time, ``up`` seconds after the start of the machine."""
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record is not None:
            yield now - max(0.0, up - float(record[1])), record[2]

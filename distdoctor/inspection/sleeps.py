"""How long a thread that sleeps will sleep yet: the kernel shows where in its memory the time is that it gave."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence

from distdoctor.inspection import proc_files
from distdoctor.inspection.syscalls import plain_name_of

_ABSOLUTE = 1
"""TIMER_ABSTIME (clock_nanosleep(2)): the time is that at which it wakes up."""
_CLOCKS = {0: time.CLOCK_REALTIME, 1: time.CLOCK_MONOTONIC}
_PLACES = {"clock_nanosleep": 2, "nanosleep": 0, "select": 4, "pselect6": 4}
"""Which of the arguments is the address of the time, a struct timespec; a struct timeval for select."""
EVENTS = frozenset(["epoll_wait", "epoll_pwait"])
"""An event loop sleeps there until its next task is due, or something comes; the limit is in milliseconds."""
_LONGEST = 4e9
"""Seconds from which it is no time at all; those since 1970 are less."""


def left(pid: int, words: Sequence[str], idle: float | None) -> float | None:
    """Seconds that a process sleeps yet; None where that cannot be known. ``words``: of /proc/PID/syscall; ``idle``:
    since when it sleeps, which matters only where it gave a length of time."""
    name = plain_name_of(words[0]) if words else ""
    if name in EVENTS and len(words) > 4:
        limit = int(words[4], 16) & 0xFFFFFFFF
        return round(max(0.0, limit / 1000 - idle), 1) if idle is not None and limit < 1 << 31 else None
    if name not in _PLACES or len(words) < 7:
        return None
    told = _time_at(pid, int(words[1 + _PLACES[name]], 16), 1e6 if name == "select" else 1e9)
    if told is None:
        return None
    if name == "clock_nanosleep" and int(words[2], 16) & _ABSOLUTE:
        clock = _CLOCKS.get(int(words[1], 16))
        # In a time namespace of its own (time_namespaces(7)) its clock is another one.
        if clock is None or proc_files.link(pid, "ns/time") != proc_files.link("self", "ns/time"):
            return None
        return round(max(0.0, told - time.clock_gettime(clock)), 1)
    return round(max(0.0, told - idle), 1) if idle is not None else None


def _time_at(pid: int, address: int, parts: float) -> float | None:
    """The seconds that lie at an address of a process, as two numbers; read without stopping it, with the rights that
    tracing it needs (proc_pid_mem(5))."""
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            seconds, fraction = struct.unpack("=qq", os.pread(file, 16, address))
        finally:
            os.close(file)
    except (OSError, OverflowError, struct.error):
        return None
    told = seconds + fraction / parts
    return told if 0 <= fraction < parts and 0 <= told < _LONGEST else None

"""How much work a rank gets done beside everything else on its host: what makes a straggler of it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

SECONDS = 0.15
"""More than a period of the kernel's CPU quota (cpu.max, 100 ms by default), so that a throttled rank shows."""
WINDOWS = 6
FAIR = 0.4
"""A rank that had this part of its fair share of the processors is measured once."""
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""The quota of this container, as cgroup v2 tells it inside one."""


def measure(ranks: int) -> dict[str, Any]:
    """The fields of :class:`distdoctor.model.facts.Work` for this rank, one of ``ranks`` on its node.

    The same small piece of work is done over and over for SECONDS. A rank that was kept waiting for a processor tries
    again, and the best of its tries counts: what keeps it waiting may be the measuring of the others.
    """
    quota, processors = _quota(), len(os.sched_getaffinity(0))
    fair = min(1.0, min(processors, quota or processors) / max(ranks, 1))
    best = (0.0, 0.0)
    for _ in range(WINDOWS):
        best = max(best, _window())
        if best[1] >= FAIR * fair:
            break
    return {
        "rate": round(best[0], 1),
        "cpu": round(best[1], 3),
        "processors": processors,
        "cores": os.cpu_count() or processors,
        "quota": quota,
        "load": round(os.getloadavg()[0], 1),
    }


def _window() -> tuple[float, float]:
    """(pieces of work done per second, share of one processor that this thread had)."""
    pieces, cpu, began = 0, time.thread_time(), time.monotonic()
    while (spent := time.monotonic() - began) < SECONDS:
        sum(range(5000))  # a tenth of a millisecond: short beside the scheduler's slices
        pieces += 1
    return pieces / spent, min(1.0, (time.thread_time() - cpu) / spent)


def _quota() -> float | None:
    """``max 100000`` or ``QUOTA PERIOD``, both in microseconds (the kernel's cgroup-v2.rst)."""
    try:
        quota, period = CPU_MAX.read_text().split()
        return round(int(quota) / int(period), 2)
    except (OSError, ValueError, ZeroDivisionError):
        return None

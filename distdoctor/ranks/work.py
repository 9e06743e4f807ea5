"""How much work a rank gets done beside everything else on its host: what makes a straggler of it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

SECONDS = 0.25
"""Two and a half periods of the kernel's CPU quota (cpu.max, 100 ms by default), so that a throttled rank shows."""
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""The quota of this container, as cgroup v2 tells it inside one."""


def measure(seconds: float = SECONDS) -> dict[str, Any]:
    """Do the same small piece of work over and over for ``seconds``.

    ``rate``: pieces done per second; ``cpu``: the share of one processor that this thread got, 0 to 1; ``processors``:
    how many it may run on; ``cores``: how many the host has; ``quota``: how many its container may use, None where
    there is no limit or none is seen; ``load``: the host's load average of the last minute.
    """
    pieces, cpu, began = 0, time.thread_time(), time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        sum(range(5000))  # a tenth of a millisecond: short beside the scheduler's slices
        pieces += 1
    return {
        "rate": round(pieces / spent, 1),
        "cpu": round(min(1.0, (time.thread_time() - cpu) / spent), 3),
        "processors": len(os.sched_getaffinity(0)),
        "cores": os.cpu_count(),
        "quota": _quota(),
        "load": round(os.getloadavg()[0], 1),
    }


def _quota() -> float | None:
    """``max 100000`` or ``QUOTA PERIOD``, both in microseconds (the kernel's cgroup-v2.rst)."""
    try:
        quota, period = CPU_MAX.read_text().split()
        return round(int(quota) / int(period), 2)
    except (OSError, ValueError, ZeroDivisionError):
        return None

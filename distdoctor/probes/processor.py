"""How much of the processors this process may use, beside which of them."""

from __future__ import annotations

import resource

from distdoctor.probes import proc
from distdoctor.probes.memory import cgroups

THROTTLED = {"throttled_usec": 1e6, "throttled_time": 1e9}
"""How many of them are a second."""


def quota() -> float | None:
    """CPUs' worth of time that its cgroup, or one above it, may use (cpu.max; v1: cpu.cfs_quota_us); None: no limit, or
    none is seen."""
    found = []
    for folder in cgroups("cpu"):
        words = proc.text(f"{folder}/cpu.max").split() or [
            proc.text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def throttled() -> float:
    """For how many seconds its cgroup, or one above it, was kept from the processors since it had used up what it may
    have of them, over all processors together (throttled_usec of cpu.stat; v1: throttled_time, in nanoseconds); 0 where
    there is no limit or none is seen."""
    most = 0.0
    for folder in cgroups("cpu"):
        for line in proc.text(f"{folder}/cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in THROTTLED and value.isdecimal():
                most = max(most, int(value) / THROTTLED[name])
    return most


def seconds() -> int | None:
    """RLIMIT_CPU: after so many seconds of processor time the kernel ends a process; None where there is no limit."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[0]
    return None if most == resource.RLIM_INFINITY else most

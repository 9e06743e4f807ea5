"""What /proc shows of one process, piece by piece: None or nothing where it is gone or not ours to see. See proc(5)."""

from __future__ import annotations

import os
from dataclasses import dataclass

MOST = 1 << 20
"""Bytes that are read of a file at most; maps of a process with torch have some 200 KB."""
_ROOTS_V2, _ROOTS_V1 = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), ("/sys/fs/cgroup/freezer",)
_FROZEN = frozenset(["frozen 1", "FROZEN", "FREEZING"])
"""Lines of a frozen group's cgroup.events, or freezer.state."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stat:
    """From /proc/PID/stat, or that of a thread. Times in seconds."""

    state: str
    parent: int
    cpu: float
    started: float
    """Seconds after the start of the system."""


def text(pid: int | str, name: str, most: int = MOST) -> str | None:
    """The text of /proc/PID/NAME; None where it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(most).decode(errors="surrogateescape")
    except OSError:
        return None


def link(pid: int | str, name: str) -> str | None:
    """Where the link /proc/PID/NAME leads; None where that cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return None


def names(pid: int | str, folder: str) -> list[str]:
    """What is in a folder of /proc/PID; [] where it cannot be read."""
    try:
        return os.listdir(f"/proc/{pid}/{folder}")
    except OSError:
        return []


def stat(pid: int | str) -> Stat | None:
    """The state of a process; ``PID/task/TID`` for that of a thread."""
    line = text(pid, "stat", 4096)
    fields = (line or "").rpartition(")")[2].split()  # a process may call itself anything
    if len(fields) < 20:
        return None
    return Stat(fields[0], int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, int(fields[19]) / TICKS)


def owner(pid: int) -> int | None:
    """The user as whom a process runs (proc_pid_status(5)); None where it is gone."""
    return numbers(pid, "status").get("Uid")


def frozen(pid: int) -> str:
    """The control group with which a process is frozen (cgroups(7)); empty where it is not, or it cannot be seen."""
    for line in (text(pid, "cgroup", 65536) or "").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers not in ("", "freezer"):
            continue
        roots, name = (_ROOTS_V2, "cgroup.events") if not controllers else (_ROOTS_V1, "freezer.state")
        for folder in (f"{root}{group}" for root in roots):
            if not _FROZEN.isdisjoint(_lines(f"{folder}/{name}")):
                return folder
    return ""


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read(4096).splitlines()
    except OSError:
        return []


def environ(pid: int) -> dict[str, str] | None:
    """The variables with which the process was started; None where they cannot be read."""
    whole = text(pid, "environ")
    if whole is None:
        return None
    pairs = (entry.partition("=") for entry in whole.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def command(pid: int) -> list[str]:
    """The words of its command line."""
    return (text(pid, "cmdline", 65536) or "").rstrip("\0").split("\0")


def all_pids() -> list[int]:
    """Every process there is."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def uptime() -> float:
    """Seconds since the start of the system."""
    try:
        with open("/proc/uptime") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def last_run(pid: int | str) -> float | None:
    """When its main thread ran last, in seconds of the scheduler's own clock (kernel/sched/debug.c); None where the
    kernel was built without that."""
    for line in (text(pid, "sched", 4096) or "").splitlines():
        word, _, value = line.partition(":")
        if word.strip() == "se.exec_start":
            try:
                return float(value) / 1000.0
            except ValueError:
                return None
    return None


def last_cpu(pid: int | str) -> int | None:
    """The processor on which its main thread ran last (proc_pid_stat(5), field 39); None where it is gone."""
    fields = (text(pid, "stat", 4096) or "").rpartition(")")[2].split()
    return int(fields[36]) if len(fields) > 36 else None


def numbers(pid: int | str, name: str) -> dict[str, int]:
    """The lines ``word: number`` of a file, as of /proc/PID/io or status."""
    found = {}
    for line in (text(pid, name, 65536) or "").splitlines():
        word, _, rest = line.partition(":")
        value = rest.split()
        if value and value[0].isdecimal():
            found[word] = int(value[0])
    return found

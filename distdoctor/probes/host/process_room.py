"""Number of processes and threads against its limits: of a cgroup, a user, the machine."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple

from distdoctor.probes.host import proc

CLONE3 = 435
"""Number of clone3() on every architecture of Linux but Alpha."""
CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 21, 24
FAR = 1 << 17
"""Limit of a user above which nobody counts: Linux gives half of threads-max, and the whole of /proc would be read."""

USUAL_PIDS = 32768
"""kernel.pid_max of a small machine: a lower one was set, and since Linux 6.14 a container may have its own."""


class Room(NamedTuple):
    """Limit of a cgroup, and its use; None without a visible limit."""

    most: int | None = None
    used: int | None = None


def cgroup(root: str = "/sys/fs/cgroup", cgroups: str = "/proc/self/cgroup") -> Room:
    """Return the tightest limit (pids.max) of this process's cgroup and those above it (cgroup v2, or v1)."""
    rooms = []
    for line in proc.text(cgroups).splitlines():
        number, controllers, place = [*line.split(":", 2), "", ""][:3]
        if number == "0" or "pids" in controllers.split(","):
            above = f"{root}/pids" if number != "0" else root
            parts = [part for part in place.split("/") if part]
            for depth in range(len(parts) + 1):
                folder = "/".join([above, *parts[:depth]])
                most = proc.number(f"{folder}/pids.max")
                if most is not None:
                    rooms.append(Room(most, proc.number(f"{folder}/pids.current")))
    return min(rooms, key=lambda room: (room.most or 0) - (room.used or 0), default=Room())


def room_of_user(limit: int) -> int | None:
    """Return the number of this user's processes and threads; None if ``limit`` does not apply.

    kernel/fork.c, copy_process(): neither root nor a process with CAP_SYS_RESOURCE or CAP_SYS_ADMIN is held to
    RLIMIT_NPROC.
    """
    user = os.getuid()
    if limit < 0 or limit >= FAR or user == 0 or proc.capabilities() & (1 << CAP_SYS_ADMIN | 1 << CAP_SYS_RESOURCE):
        return None
    return sum(threads for owner, threads in _thread_counts() if owner == str(user))


def visible_processes(pid_max: int | None) -> int | None:
    """Return the number of visible processes and threads; None unless ``pid_max`` is so small that it may be this
    container's own."""
    if pid_max is None or pid_max >= USUAL_PIDS:
        return None
    return sum(threads for _, threads in _thread_counts()) or None


def _thread_counts() -> Iterator[tuple[str, int]]:
    """Yield the user and the number of threads of each visible process (proc(5))."""
    for name in filter(str.isdecimal, proc.names("/proc")):
        rows = dict(line.partition(":")[::2] for line in proc.text(f"/proc/{name}/status").splitlines())
        if "Uid" in rows:
            yield rows["Uid"].split()[0], int(rows.get("Threads", "1"))


def room_on_machine() -> int | None:
    """Return the number of all threads (the second number of the fourth field of /proc/loadavg, proc(5))."""
    fields = proc.text("/proc/loadavg").split()
    count = fields[3].partition("/")[2] if len(fields) > 3 else ""
    return int(count) if count.isdecimal() else None


def threads_forbidden() -> bool:
    """Return whether no thread can be started because clone3() is answered with EPERM.

    glibc starts threads by it, and in another way only without it (ENOSYS; moby issue 42680). Without arguments it
    starts nothing: EINVAL.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(CLONE3, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        return False
    try:
        threading.Thread(target=int, daemon=True).start()
    except RuntimeError:
        return True
    return False

"""How many processes and threads there are where their number is limited: of a cgroup, of a user, of the machine."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple

from distdoctor.probes.host import proc

CLONE3 = 435
"""Its number on every architecture of Linux but Alpha."""
CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 21, 24
FAR = 1 << 17
"""A user's limit from which nobody counts: Linux gives half of threads-max, and the whole of /proc would be read."""

USUAL_PIDS = 32768
"""kernel.pid_max of a small machine: what is below it was set, and since Linux 6.14 a container may have its own."""


class Room(NamedTuple):
    """The limit of a cgroup, and what was there of it; None where there is no limit, or none is seen."""

    most: int | None = None
    used: int | None = None


def cgroup(root: str = "/sys/fs/cgroup", cgroups: str = "/proc/self/cgroup") -> Room:
    """The tightest limit (pids.max) of this process's cgroup and those around it (cgroup v2, or v1)."""
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
    """Return how many processes and threads this user has; None where the kernel does not hold it to ``limit``.

    kernel/fork.c, copy_process(): neither root nor who has CAP_SYS_RESOURCE or CAP_SYS_ADMIN is held to RLIMIT_NPROC.
    """
    user = os.getuid()
    if limit < 0 or limit >= FAR or user == 0 or proc.capabilities() & (1 << CAP_SYS_ADMIN | 1 << CAP_SYS_RESOURCE):
        return None
    return sum(threads for owner, threads in _seen() if owner == str(user))


def visible_processes(pid_max: int | None) -> int | None:
    """Return how many processes and threads are seen here; None where ``pid_max`` is not so small that it may be
    this container's own."""
    if pid_max is None or pid_max >= USUAL_PIDS:
        return None
    return sum(threads for _, threads in _seen()) or None


def _seen() -> Iterator[tuple[str, int]]:
    """Of each process that is seen, the user and how many threads it has (proc(5))."""
    for name in filter(str.isdecimal, proc.names("/proc")):
        rows = dict(line.partition(":")[::2] for line in proc.text(f"/proc/{name}/status").splitlines())
        if "Uid" in rows:
            yield rows["Uid"].split()[0], int(rows.get("Threads", "1"))


def room_on_machine() -> int | None:
    """Return how many there are in all (the second number of the fourth field of /proc/loadavg, proc(5))."""
    fields = proc.text("/proc/loadavg").split()
    count = fields[3].partition("/")[2] if len(fields) > 3 else ""
    return int(count) if count.isdecimal() else None


def threads_forbidden() -> bool:
    """Return whether no thread can be started because clone3() is answered with EPERM: glibc starts threads by it,
    and in another way only where there is none (ENOSYS; moby issue 42680). Without arguments it starts nothing:
    EINVAL."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(CLONE3, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        return False
    try:
        threading.Thread(target=int, daemon=True).start()
    except RuntimeError:
        return True
    return False

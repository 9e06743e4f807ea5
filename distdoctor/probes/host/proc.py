"""Processes in /proc: their state and the TCP sockets they listen on.

psutil shows no sockets for a process in another network namespace.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

STOPPED = ("T", "t")
"""States of a process that was stopped by a signal or by a tracer (proc(5))."""
_LISTEN, _SYN_SENT = "0A", "02"


def text(path: str | Path, most: int = 1 << 20) -> str:
    """Return the stripped content of a file; empty if it is unreadable. ``most``: bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode(errors="replace").strip()
    except OSError:
        return ""


def number(path: str) -> int | None:
    """Return the number in a file; None if it has none, or is unreadable."""
    held = text(path)
    return int(held) if held.isdecimal() else None


def names(folder: str | Path) -> list[str]:
    """Return the sorted names in a folder; [] if it is unreadable."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def capabilities() -> int:
    """Return the effective capabilities of this process, a bit each (capabilities(7))."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", text("/proc/self/status"), re.MULTILINE)
    return int(match[1], 16) if match else 0


def process_state(pid: int) -> str | None:
    """Return the letter of the process's state in /proc/PID/stat; None without such a process."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as stat:  # a process may call itself anything
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def waited(pid: int) -> float:
    """Return the longest time in seconds that a thread of a process was ready to run without a processor, since others
    had them (the kernel's sched-stats.rst). 0 if it is gone.

    Time for which a limit of its cgroup keeps it waiting is included by older kernels only, not by Linux 6.18:
    ``limits.throttled_seconds``.
    """
    most = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                most = max(most, int(stat.read().split()[1]))
    except (OSError, IndexError, ValueError):
        pass
    return most / 1e9


def listening(pid: int | str) -> list[tuple[str, int]]:
    """Return (address, port) of every TCP socket that process ``pid`` (or ``self``) listens on; [] if unreadable."""
    return [endpoint(columns[1]) for columns in _sockets(pid, _LISTEN)]


def unanswered(pid: int | str) -> list[tuple[str, int, int]]:
    """Return (address, port, retransmissions) of every unanswered TCP connection of process ``pid`` (or ``self``); []
    if unreadable."""
    return [(*endpoint(columns[2]), int(columns[6], 16)) for columns in _sockets(pid, _SYN_SENT)]


def _sockets(pid: int | str, state: str) -> Iterator[list[str]]:
    """Yield the columns of /proc/net/tcp (proc(5)) of a process's TCP sockets in this state."""
    mine = set(inodes(pid))
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}") as lines:
                rows = lines.readlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == state and columns[9] in mine:
                yield columns


def inodes(pid: int | str) -> tuple[str, ...]:
    """Return the inodes of the sockets that process ``pid`` has open, by descriptor; none if unreadable."""
    numbers: dict[str, None] = {}
    for name in sorted(names(f"/proc/{pid}/fd"), key=int):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            numbers[target[8:-1]] = None
    return tuple(numbers)


def endpoint(text: str) -> tuple[str, int]:
    """Return ``0100007F:7383`` as an address and a port: words in host byte order (proc_net_tcp(5))."""
    address, _, port = text.partition(":")
    words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    name = socket.inet_ntop(family, packed)
    return name.removeprefix("::ffff:") if "." in name else name, int(port, 16)

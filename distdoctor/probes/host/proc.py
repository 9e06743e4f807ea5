"""Processes as /proc shows them: their state and the TCP sockets they listen on.

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
"""The states of a process that was stopped by a signal or by a tracer (proc(5))."""
_LISTEN, _SYN_SENT = "0A", "02"


def text(path: str | Path, most: int = 1 << 20) -> str:
    """Return what a file holds, without white space around it; empty if it cannot be read. ``most``: bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode(errors="replace").strip()
    except OSError:
        return ""


def number(path: str) -> int | None:
    """Return the number that a file holds; None if it holds none, or cannot be read."""
    held = text(path)
    return int(held) if held.isdecimal() else None


def names(folder: str | Path) -> list[str]:
    """Return what is in a folder, sorted; [] if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def capabilities() -> int:
    """Return the effective capabilities of this process, a bit each (capabilities(7))."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", text("/proc/self/status"), re.MULTILINE)
    return int(found[1], 16) if found else 0


def process_state(pid: int) -> str | None:
    """The letter that /proc/PID/stat shows for the process's state; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as stat:  # a process may call itself anything
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def waited(pid: int) -> float:
    """For how many seconds the thread of a process that waited longest was ready to run and had no processor, since
    others had them (the kernel's sched-stats.rst). 0 where it is gone. What a limit of its cgroup keeps it waiting is
    counted here by older kernels only, not by Linux 6.18: ``processor.throttled``.
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
    """(address, port) of every TCP socket that process ``pid`` (or ``self``) listens on; [] where it cannot be read."""
    return [endpoint(columns[1]) for columns in _sockets(pid, _LISTEN)]


def unanswered(pid: int | str) -> list[tuple[str, int, int]]:
    """(address, port, how often it was asked again) of every TCP connection that process ``pid`` (or ``self``) asked
    for and that nobody has answered so far; [] where it cannot be read."""
    return [(*endpoint(columns[2]), int(columns[6], 16)) for columns in _sockets(pid, _SYN_SENT)]


def _sockets(pid: int | str, state: str) -> Iterator[list[str]]:
    """The columns of /proc/net/tcp (proc(5)) of the TCP sockets of a process that are in this state."""
    mine = inodes(pid)
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


def inodes(pid: int | str) -> set[str]:
    """The inodes of the sockets that process ``pid`` has open; none where that cannot be read."""
    found: set[str] = set()
    for name in names(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def endpoint(text: str) -> tuple[str, int]:
    """``0100007F:7383`` as an address and a port: words in host byte order (proc_net_tcp(5))."""
    address, _, port = text.partition(":")
    words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    name = socket.inet_ntop(family, packed)
    return name.removeprefix("::ffff:") if "." in name else name, int(port, 16)

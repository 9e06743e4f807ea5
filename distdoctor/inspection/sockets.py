"""The TCP sockets of processes, in whichever network namespace they are.

psutil asks the kernel for those of its own namespace; /proc/PID/net shows those of the process's, whole: they are told
apart by the inodes in /proc/PID/fd.
"""

from __future__ import annotations

import os

from distdoctor.inspection import proc_files
from distdoctor.model.facts import Socket
from distdoctor.probes.proc import endpoint, inodes

MOST = 4096
"""Sockets of one process that are kept."""
_BYTES = 64 << 20
_STATES = {
    "01": "ESTABLISHED",
    "02": "SYN_SENT",
    "03": "SYN_RECV",
    "04": "FIN_WAIT1",
    "05": "FIN_WAIT2",
    "06": "TIME_WAIT",
    "07": "CLOSE",
    "08": "CLOSE_WAIT",
    "09": "LAST_ACK",
    "0A": "LISTEN",
    "0B": "CLOSING",
}
"""include/net/tcp_states.h."""


class SocketTables:
    """The tables of each network namespace, read once."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Socket]] = {}

    def of(self, pid: int) -> tuple[Socket, ...] | None:
        """The TCP sockets of the process; None where they are not ours to see."""
        if not os.access(f"/proc/{pid}/fd", os.R_OK):
            return None
        table = self._of_namespace(pid)
        mine = sorted(inode for inode in inodes(pid) if inode in table)
        return tuple(table[inode] for inode in mine[:MOST])

    def at(self, pid: int, inode: str) -> Socket | None:
        """The socket with this inode, as seen by the process; None where it is none of TCP."""
        return self._of_namespace(pid).get(inode)

    def other_end(self, pid: int, mine: Socket) -> str:
        """The inode of the other end of a connection, as seen by the process; empty where that is on another host, in
        another namespace, or nobody has taken it."""
        for inode, one in self._of_namespace(pid).items():
            if (one.local, one.local_port, one.remote, one.remote_port) == (
                mine.remote, mine.remote_port, mine.local, mine.local_port,
            ):  # fmt: skip
                return inode
        return ""

    def listening(self, pid: int) -> set[tuple[str, int]]:
        """Where anybody listens, as seen by the process."""
        return {(s.local, s.local_port) for s in self._of_namespace(pid).values() if s.state == "LISTEN"}

    def _of_namespace(self, pid: int) -> dict[str, Socket]:
        namespace = proc_files.link(pid, "ns/net") or str(pid)
        if namespace not in self._tables:
            self._tables[namespace] = _table(pid)
        return self._tables[namespace]


def _table(pid: int) -> dict[str, Socket]:
    """Inode -> socket, of the namespace in which the process is."""
    found = {}
    for name in ("net/tcp", "net/tcp6"):
        for row in (proc_files.text(pid, name, _BYTES) or "").splitlines()[1:]:
            columns = row.split()
            if len(columns) > 9 and columns[9] != "0":
                found[columns[9]] = _socket(columns)
    return found


def _socket(columns: list[str]) -> Socket:
    """From ``sl local remote st tx:rx tr:when retrnsmt uid timeout inode`` (proc_net_tcp(5))."""
    local, local_port = endpoint(columns[1])
    remote, remote_port = endpoint(columns[2])
    unacknowledged = columns[4].partition(":")[0]
    state = _STATES.get(columns[3], columns[3])
    if state == "LISTEN":
        return Socket(state, local, local_port)
    return Socket(
        state,
        local,
        local_port,
        remote,
        remote_port,
        int(unacknowledged, 16),
        int(columns[6], 16),
    )

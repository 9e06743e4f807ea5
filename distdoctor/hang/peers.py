"""Processes that may answer one at a queue: they map the same memory, or have the other ends of its Unix sockets.

An engine's queue is a piece of shared memory (``/dev/shm/psm_...``, Python's ``SharedMemory``), and ZMQ's ``ipc://`` is
a Unix socket. The kernel lists both ends of a Unix connection (sock_diag(7), ``UDIAG_SHOW_PEER``).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from distdoctor.hang import namespaces, proc
from distdoctor.knowledge.live.stacks import awaited_queue
from distdoctor.model.facts import JobProcess, Peer
from distdoctor.model.text import clean
from distdoctor.probes.host.proc import inodes
from distdoctor.probes.network import netlink

_SOCK_DIAG, _BY_FAMILY, _UNIX, _SHOW_PEER, _PEER = 4, 20, 1, 4, 2
"""linux/sock_diag.h and linux/unix_diag.h: NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, AF_UNIX, UDIAG_SHOW_PEER,
UNIX_DIAG_PEER."""
_MAPS_BYTES = 8 << 20
_MEMORY = ("/dev/shm/", "/dev/zero", "/memfd:", "/SYSV")
"""Beginnings of the names of memory that processes share on purpose: POSIX's, anonymous, and System V's."""
_NOT_QUEUES = ("/dev/shm/nccl-", "/dev/shm/torch_", "/dev/shm/sem.")
"""Such memory of NCCL's channels, torch's tensors, and semaphores."""
_SECONDS, _MOST = 2.0, 32
"""Most seconds for reading other processes, and most peers of one."""


def with_peers(processes: Sequence[JobProcess], netns: str = "") -> list[JobProcess]:
    """Return the processes; one that waits at a queue gets its peers. ``netns``: network namespace of the job."""
    wanted = [one for one in processes if any(map(awaited_queue, one.threads))]
    if not wanted:
        return [*processes]
    ends = _ends([one.pid for one in wanted], netns)
    others = {pid: (shared_memory(pid) or set(), set(inodes(pid))) for pid in _readable()}
    titles = {one.pid: one.title for one in processes}
    found = {one.pid: _peers(one.pid, others, ends, titles) for one in wanted}
    return [replace(one, peers=found.get(one.pid)) for one in processes]


def shared_memory(pid: int) -> set[str] | None:
    """Return the pieces of memory that the process may share with others, as device and inode; None if unreadable."""
    maps = proc.read_text(pid, "maps", _MAPS_BYTES)
    if maps is None:
        return None
    rows = (line.split(None, 5) for line in maps.splitlines())
    return {
        f"{row[3]} {row[4]}"
        for row in rows
        if len(row) > 5 and row[1].endswith("s") and row[5].startswith(_MEMORY) and not row[5].startswith(_NOT_QUEUES)
    }


def _readable() -> list[int]:
    """Return the processes of this host that can be read within the time limit."""
    end, found = time.monotonic() + _SECONDS, []
    for pid in proc.all_pids():
        if time.monotonic() > end:
            break
        if proc.read_link(pid, "exe"):
            found.append(pid)
    return found


def _peers(
    pid: int, others: Mapping[int, tuple[set[str], set[str]]], ends: Mapping[str, str], titles: Mapping[int, str]
) -> tuple[Peer, ...] | None:
    if pid not in others:
        return None
    memory, mine = others[pid]
    far = {ends[inode] for inode in mine if inode in ends}
    found = []
    for other, (theirs, sockets) in others.items():
        shared, connected = len(memory & theirs), len(far & sockets)
        if other != pid and (shared or connected):
            name = titles.get(other) or clean((proc.read_text(other, "comm", 64) or "").strip())
            found.append(Peer(other, name, shared, connected))
    return tuple(sorted(found, key=lambda peer: -(peer.memory + peer.sockets))[:_MOST])


def _ends(pids: Collection[int], netns: str) -> dict[str, str]:
    """Return the inode of each connected Unix socket in the namespace -> that of its other end."""
    body = struct.pack("=BBHIIIII", _UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER, 0, 0)
    try:
        with namespaces.of(pids, netns):
            rows = [*netlink.dump(_BY_FAMILY, _BY_FAMILY, _SOCK_DIAG, body)]
    except OSError:
        return {}
    found = {}
    for row in rows:
        if len(row) >= 16 and (peer := netlink.number(netlink.attributes(row[16:]).get(_PEER), 0)):
            found[str(struct.unpack_from("=I", row, 4)[0])] = str(peer)
    return found

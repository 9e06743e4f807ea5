"""TCP connections of some processes whose first packet (SYN) had to be sent again, from sock_diag(7)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distdoctor.model.facts import LateConnections
from distdoctor.probes import netlink
from distdoctor.probes.proc import inodes

_BY_FAMILY, _SOCK_DIAG, _INFO = 20, 4, 2
_ESTABLISHED, _SYN_SENT, _LISTEN = 1, 2, 10
_STATES = 1 << _ESTABLISHED | 1 << _SYN_SENT | 1 << _LISTEN
_BODY, _TOTAL_RETRANS, _BYTES_RETRANS = 72, 100, 208
"""Bytes of struct inet_diag_msg; offsets in struct tcp_info, the latter since Linux 4.19."""
MOST = 64


@dataclass(frozen=True)
class _Socket:
    state: int
    port: int
    remote: str
    inode: str
    repeated: int
    """How often its SYN was sent again."""


def late_connections(pids: Iterable[int]) -> tuple[LateConnections, ...]:
    """The connections that these processes opened to other addresses, by address, where a SYN was sent again; empty
    where the kernel does not tell."""
    mine = {inode for pid in pids for inode in inodes(pid)}
    sockets = [one for family in (socket.AF_INET, socket.AF_INET6) for one in _sockets(family) if one.inode in mine]
    accepting = {one.port for one in sockets if one.state == _LISTEN}
    opened: dict[str, list[_Socket]] = {}
    for one in sockets:
        if one.state != _LISTEN and one.port not in accepting:
            opened.setdefault(one.remote, []).append(one)
    found = (
        LateConnections(address, len(ones), sum(one.repeated > 0 for one in ones), sum(one.repeated for one in ones))
        for address, ones in opened.items()
    )
    return tuple(one for one in found if one.late)[:MOST]


def _sockets(family: int) -> Iterator[_Socket]:
    asked = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES)
    for body in netlink.dump(_BY_FAMILY, _BY_FAMILY, _SOCK_DIAG, asked):
        if len(body) < _BODY:
            continue
        state, timer, retransmits = struct.unpack_from("=xBBB", body)
        (port,) = struct.unpack_from("!H", body, 4)
        length = 4 if family == socket.AF_INET else 16
        remote = socket.inet_ntop(family, body[24 : 24 + length]).removeprefix("::ffff:")
        (inode,) = struct.unpack_from("=I", body, 68)
        if state == _SYN_SENT:
            repeated = retransmits if timer == 1 else 0
        else:
            repeated = _of_first_packet(netlink.attributes(body[_BODY:]).get(_INFO, b""))
        yield _Socket(state, port, remote, str(inode), repeated)


def _of_first_packet(info: bytes) -> int:
    """The segments that were sent again, where these had no data: SYNs. 0 where data was, or that is not known."""
    if len(info) < _BYTES_RETRANS + 8 or struct.unpack_from("=Q", info, _BYTES_RETRANS)[0]:
        return 0
    return int(struct.unpack_from("=I", info, _TOTAL_RETRANS)[0])

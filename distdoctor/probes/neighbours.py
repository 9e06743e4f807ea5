"""Whether a host of an own network answers at all: the kernel's table of neighbours (ARP, and ND for IPv6)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import HardwareAddress, Neighbour, NeighbourState, TableRoute

_GETNEIGH, _NEWNEIGH, _DONE, _ERROR = 30, 28, 3, 2
_REQUEST_DUMP = 0x001 | 0x300
_DST, _LLADDR = 1, 2
_INCOMPLETE, _REACHABLE, _FAILED, _NOARP = 0x01, 0x02, 0x20, 0x40
"""The numbers are those of linux/rtnetlink.h, linux/netlink.h and linux/neighbour.h."""
_SECONDS = 1.0
_MOST = 4 * 1024 * 1024
MOST_ANSWERED = 256
"""Entries beyond which the table is left alone: a router's, and no node's."""


def neighbour(address: str, routes: Sequence[TableRoute] | None) -> Neighbour | None:
    """What is known of the next host on the way to ``address``: of itself, or of the gateway there; None: nothing."""
    hop = _next_hop(address, routes)
    if hop is None:
        return None
    entries = list(_entries())
    its = [one for one in entries if parse_address(one[0]) == parse_address(hop)]
    if not its:
        return None
    _, interface, state, hardware = its[0]
    # One that answers for several addresses, as a router or a cloud's switch does, says nothing of the host itself.
    others = {one[0] for one in entries if one[3] == hardware and hardware and not one[0].startswith("fe80:")}
    shared = any(other != its[0][0] and (":" in other) == (":" in hop) for other in others)
    return Neighbour(hop, interface, "" if state == "answers" and shared else state, hop != address)


def answered() -> tuple[HardwareAddress, ...]:
    """Which hardware address answered for which address; nothing where that is more than a node's table."""
    found = [HardwareAddress(one[0], one[3].hex(":"), one[1]) for one in _entries() if any(one[3])]
    return tuple(found) if len(found) <= MOST_ANSWERED else ()


def unanswered() -> tuple[HardwareAddress, ...]:
    """For which addresses nobody answered, and on which interface; nothing where that is more than a node's table."""
    found = [HardwareAddress(one[0], "", one[1]) for one in _entries() if one[2] == "silent" and not any(one[3])]
    return tuple(found) if len(found) <= MOST_ANSWERED else ()


def _next_hop(address: str, routes: Sequence[TableRoute] | None) -> str | None:
    number = parse_address(address)
    best, length = None, -1
    for entry in routes or ():
        its = ipaddress.ip_network(entry.network)
        if number is not None and its.version == number.version and number in its and its.prefixlen > length:
            best, length = entry, its.prefixlen
    return None if best is None or best.reject else best.gateway or address


def _entries() -> Iterator[tuple[str, str, NeighbourState, bytes]]:
    """(address, interface, state, hardware address) of each entry; none where the kernel does not tell."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asked:
            asked.settimeout(_SECONDS)
            header = struct.pack("=IHHII", 28, _GETNEIGH, _REQUEST_DUMP, 1, 0)
            asked.send(header + struct.pack("=BxHiHBB", socket.AF_UNSPEC, 0, 0, 0, 0, 0))
            read = 0
            while read < _MOST:
                data = asked.recv(65536)
                read += len(data)
                for kind, body in _messages(data):
                    if kind in (_DONE, _ERROR):
                        return
                    if kind == _NEWNEIGH and (entry := _entry(body)) is not None:
                        yield entry
    except (OSError, struct.error, ValueError):
        return


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if length < 16:
            return
        yield kind, data[16:length]
        data = data[(length + 3) & ~3 :]


def _entry(body: bytes) -> tuple[str, str, NeighbourState, bytes] | None:
    family, index, state = struct.unpack_from("=BxxxiH", body)
    attributes: dict[int, bytes] = {}
    rest = body[12:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if length < 4:
            break
        attributes[kind] = rest[4:length]
        rest = rest[(length + 3) & ~3 :]
    if family not in (socket.AF_INET, socket.AF_INET6) or _DST not in attributes:
        return None
    told: NeighbourState = "answers" if state & _REACHABLE else "silent" if state & (_INCOMPLETE | _FAILED) else ""
    address = socket.inet_ntop(family, attributes[_DST])
    # Without ARP, and of a multicast group, nobody was asked: the kernel puts an address of its own there.
    hardware = b"" if state & _NOARP else attributes.get(_LLADDR, b"")
    return address, socket.if_indextoname(index), told, hardware

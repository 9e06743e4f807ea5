"""Answers of hosts on own networks: the kernel's table of neighbours (ARP, and ND for IPv6), and its room."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import HardwareAddress, Neighbour, NeighbourState, NeighbourTable, TableRoute
from distdoctor.probes.network.netlink import attributes, dump

_GETNEIGH, _NEWNEIGH = 30, 28
_DST, _LLADDR = 1, 2
_INCOMPLETE, _REACHABLE, _FAILED, _NOARP, _PERMANENT = 0x01, 0x02, 0x20, 0x40, 0x80
"""Numbers of linux/rtnetlink.h and linux/neighbour.h."""
MOST_ANSWERED = 256
"""Limit of the entries: a longer table is a router's, and no node's."""


class _Entry(NamedTuple):
    address: str
    interface: str
    state: NeighbourState
    hardware: bytes
    permanent: bool


def neighbour(address: str, routes: Sequence[TableRoute] | None) -> Neighbour | None:
    """Return the state of the next host on the route to ``address``: itself, or the gateway; None if unknown."""
    entry = _best(address, routes)
    if entry is None or entry.reject:
        return None
    hop, entries = entry.gateway or address, list(_entries())
    its = [
        e for e in entries if parse_address(e.address) == parse_address(hop) and entry.interface in (None, e.interface)
    ]
    if not its:
        return None
    address_of, interface, state, hardware, _ = its[0]
    # A device that answers for several addresses, as a router or a cloud's switch does, says nothing of the host
    # itself.
    alike = (e.address for e in entries if e.hardware == hardware and hardware)
    others = {other for other in alike if not other.startswith("fe80:")}
    shared = any(other != address_of and (":" in other) == (":" in hop) for other in others)
    return Neighbour(hop, interface, "" if state == "answers" and shared else state, hop != address)


def answered() -> tuple[HardwareAddress, ...]:
    """Return the hardware addresses that answered for an address, or were written there by hand; none of a longer table
    than a node's."""
    entries = (e for e in _entries() if any(e.hardware))
    neighbours = [HardwareAddress(e.address, e.hardware.hex(":"), e.interface, e.permanent) for e in entries]
    return tuple(neighbours) if len(neighbours) <= MOST_ANSWERED else ()


def unanswered() -> tuple[HardwareAddress, ...]:
    """Return the addresses for which nobody answered, with the interface; none of a longer table than a node's."""
    silent = (e for e in _entries() if e.state == "silent" and not any(e.hardware))
    neighbours = [HardwareAddress(e.address, "", e.interface) for e in silent]
    return tuple(neighbours) if len(neighbours) <= MOST_ANSWERED else ()


def _best(address: str, routes: Sequence[TableRoute] | None) -> TableRoute | None:
    """Return the entry by which packets to ``address`` are sent; the first of several equally narrow ones."""
    number = parse_address(address)
    best, length = None, -1
    for entry in routes or ():
        its = ipaddress.ip_network(entry.network)
        if number is not None and its.version == number.version and number in its and its.prefixlen > length:
            best, length = entry, its.prefixlen
    return best


def _entries() -> Iterator[_Entry]:
    """Yield each entry; none if the kernel does not say."""
    for body in dump(_GETNEIGH, _NEWNEIGH):
        try:
            entry = _entry(body)
        except (OSError, struct.error, ValueError):  # an interface that has just gone away
            return
        if entry is not None:
            yield entry


def _entry(body: bytes) -> _Entry | None:
    family, index, state = struct.unpack_from("=BxxxiH", body)
    values = attributes(body[12:])
    if family not in (socket.AF_INET, socket.AF_INET6) or _DST not in values:
        return None
    observed: NeighbourState = "answers" if state & _REACHABLE else "silent" if state & (_INCOMPLETE | _FAILED) else ""
    address = socket.inet_ntop(family, values[_DST])
    # Without ARP, and of a multicast group, nobody was asked: the kernel puts an address of its own there.
    hardware = b"" if state & _NOARP else values.get(_LLADDR, b"")
    return _Entry(address, socket.if_indextoname(index), observed, hardware, bool(state & _PERMANENT))


# Room in the kernel's table of hardware addresses (ARP, and ND for IPv6).


_TABLES = {4: "arp_cache", 6: "ndisc_cache"}


def refused(proc: str = "/proc") -> dict[int, int]:
    """Return the number of refused entries since the host's start, by IP version (``table_fulls``, summed over the
    processors).

    Nothing in a container with a network of its own: the table is the host's, and only visible there.
    """
    counts = {}
    for version, name in _TABLES.items():
        try:
            heading, *rows = (line.split() for line in Path(proc, "net/stat", name).read_text().splitlines())
            place = heading.index("table_fulls")
            counts[version] = sum(int(row[place], 16) for row in rows)
        except (OSError, ValueError, IndexError):
            continue
    return counts


def filled_since(before: dict[int, int], proc: str = "/proc") -> NeighbourTable | None:
    """Return the table that was full since then; None: none, or unknown."""
    now = refused(proc)
    grown = {version: now[version] - count for version, count in before.items() if version in now}
    version = max(grown, key=lambda ip: grown[ip], default=None)
    if version is None or grown[version] <= 0:
        return None
    try:
        most = int(Path(proc, f"sys/net/ipv{version}/neigh/default/gc_thresh3").read_text())
    except (OSError, ValueError):
        most = 0
    return NeighbourTable(version, most, grown[version])

"""Whether a host of an own network answers at all: the kernel's table of neighbours (ARP, and ND for IPv6)."""

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
"""The numbers are those of linux/rtnetlink.h and linux/neighbour.h."""
MOST_ANSWERED = 256
"""Entries beyond which the table is left alone: a router's, and no node's."""


class _Entry(NamedTuple):
    address: str
    interface: str
    state: NeighbourState
    hardware: bytes
    permanent: bool


def neighbour(address: str, routes: Sequence[TableRoute] | None) -> Neighbour | None:
    """Return what is known of the next host on the way to ``address``: of itself, or of the gateway there; None:
    nothing."""
    entry = _best(address, routes)
    if entry is None or entry.reject:
        return None
    hop, entries = entry.gateway or address, list(_entries())
    its = [
        one
        for one in entries
        if parse_address(one.address) == parse_address(hop) and entry.interface in (None, one.interface)
    ]
    if not its:
        return None
    address_of, interface, state, hardware, _ = its[0]
    # One that answers for several addresses, as a router or a cloud's switch does, says nothing of the host itself.
    alike = (one.address for one in entries if one.hardware == hardware and hardware)
    others = {other for other in alike if not other.startswith("fe80:")}
    shared = any(other != address_of and (":" in other) == (":" in hop) for other in others)
    return Neighbour(hop, interface, "" if state == "answers" and shared else state, hop != address)


def answered() -> tuple[HardwareAddress, ...]:
    """Return which hardware address answered for which address, or was written there by hand; nothing where that is
    more than a node's table."""
    entries = (one for one in _entries() if any(one.hardware))
    found = [HardwareAddress(one.address, one.hardware.hex(":"), one.interface, one.permanent) for one in entries]
    return tuple(found) if len(found) <= MOST_ANSWERED else ()


def unanswered() -> tuple[HardwareAddress, ...]:
    """For which addresses nobody answered, and on which interface; nothing where that is more than a node's table."""
    silent = (one for one in _entries() if one.state == "silent" and not any(one.hardware))
    found = [HardwareAddress(one.address, "", one.interface) for one in silent]
    return tuple(found) if len(found) <= MOST_ANSWERED else ()


def _best(address: str, routes: Sequence[TableRoute] | None) -> TableRoute | None:
    """The entry by which packets to ``address`` are sent; the first of several that are as narrow."""
    number = parse_address(address)
    best, length = None, -1
    for entry in routes or ():
        its = ipaddress.ip_network(entry.network)
        if number is not None and its.version == number.version and number in its and its.prefixlen > length:
            best, length = entry, its.prefixlen
    return best


def _entries() -> Iterator[_Entry]:
    """Each entry; none where the kernel does not tell."""
    for body in dump(_GETNEIGH, _NEWNEIGH):
        try:
            entry = _entry(body)
        except (OSError, struct.error, ValueError):  # an interface that has just gone away
            return
        if entry is not None:
            yield entry


def _entry(body: bytes) -> _Entry | None:
    family, index, state = struct.unpack_from("=BxxxiH", body)
    found = attributes(body[12:])
    if family not in (socket.AF_INET, socket.AF_INET6) or _DST not in found:
        return None
    told: NeighbourState = "answers" if state & _REACHABLE else "silent" if state & (_INCOMPLETE | _FAILED) else ""
    address = socket.inet_ntop(family, found[_DST])
    # Without ARP, and of a multicast group, nobody was asked: the kernel puts an address of its own there.
    hardware = b"" if state & _NOARP else found.get(_LLADDR, b"")
    return _Entry(address, socket.if_indextoname(index), told, hardware, bool(state & _PERMANENT))


# Whether the kernel had room for one more host in its table of hardware addresses (ARP, and ND for IPv6).


_TABLES = {4: "arp_cache", 6: "ndisc_cache"}


def refused(proc: str = "/proc") -> dict[int, int]:
    """Return how often there was none since the host's start, by IP's version (``table_fulls``, summed over the
    processors); nothing in a container with a network of its own: the table is the host's, and told there alone."""
    found = {}
    for version, name in _TABLES.items():
        try:
            heading, *rows = (line.split() for line in Path(proc, "net/stat", name).read_text().splitlines())
            place = heading.index("table_fulls")
            found[version] = sum(int(row[place], 16) for row in rows)
        except (OSError, ValueError, IndexError):
            continue
    return found


def filled_since(before: dict[int, int], proc: str = "/proc") -> NeighbourTable | None:
    """The table in which there was no room since then; None: in none, or that is not known."""
    now = refused(proc)
    grown = {version: now[version] - count for version, count in before.items() if version in now}
    version = max(grown, key=lambda one: grown[one], default=None)
    if version is None or grown[version] <= 0:
        return None
    try:
        most = int(Path(proc, f"sys/net/ipv{version}/neigh/default/gc_thresh3").read_text())
    except (OSError, ValueError):
        most = 0
    return NeighbourTable(version, most, grown[version])

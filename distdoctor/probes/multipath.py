"""The routes of the main table that have several next hops (ECMP), of which /proc/net/route tells the first alone."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from distdoctor.model.facts import NextHop
from distdoctor.probes.netlink import attributes, dump, number

_GETROUTE, _NEWROUTE, _MAIN = 26, 24, 254
_DST, _GATEWAY, _METRIC, _MULTIPATH, _TABLE, _VIA = 1, 5, 6, 9, 15, 18
"""RTA_* of linux/rtnetlink.h."""
_DEAD = 0x1 | 0x10
"""RTNH_F_DEAD and RTNH_F_LINKDOWN: the interface is down or has no carrier, and the kernel may pass the hop over."""


def multipath() -> dict[tuple[str, int], tuple[NextHop, ...]]:
    """The next hops by (network, metric), of those routes that have several; nothing where the kernel does not tell."""
    found = {}
    for body in dump(_GETROUTE, _NEWROUTE):
        family, length, table = struct.unpack_from("=BBxxB", body)
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        fields = attributes(body[12:])
        if number(fields.get(_TABLE), table) != _MAIN or not (hops := next_hops(family, fields)):
            continue
        target = socket.inet_ntop(family, fields.get(_DST, bytes(4 if family == socket.AF_INET else 16)))
        found[f"{target}/{length}", number(fields.get(_METRIC), 0)] = hops
    return found


def next_hops(family: int, fields: Mapping[int, bytes]) -> tuple[NextHop, ...]:
    """Those of one route, where it has several that are in use."""
    rest, found = fields.get(_MULTIPATH, b""), []
    while len(rest) >= 8:
        length, flags, index = struct.unpack_from("=HBxi", rest)  # struct rtnexthop
        if length < 8:
            break
        its = attributes(rest[8:length])
        try:
            interface = socket.if_indextoname(index)
        except OSError:
            interface = None
        if not flags & _DEAD:
            found.append(NextHop(_gateway(family, its), interface))
        rest = rest[(length + 3) & ~3 :]
    return tuple(found) if len(found) > 1 else ()


def _gateway(family: int, fields: Mapping[int, bytes]) -> str | None:
    if _GATEWAY in fields:
        return socket.inet_ntop(family, fields[_GATEWAY])
    if (via := fields.get(_VIA)) is not None and len(via) == 18:  # struct rtvia: IPv4 by a gateway of IPv6
        return socket.inet_ntop(socket.AF_INET6, via[2:])
    return None

"""The routing table of this host, and the interfaces that drop what would be answered by another one."""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import replace
from pathlib import Path

from distdoctor.model.facts import TableRoute
from distdoctor.probes.multipath import multipath

MOST = 256
"""Routes beyond which the table is left alone: a router's, and no node's."""
_UP, _REJECT = 0x1, 0x200
_NOT_UNICAST = 0x80000000 | 0x00100000
"""RTF_LOCAL and RTF_ANYCAST (linux/ipv6_route.h)."""
_NEVER = 0xFFFFFFFF
"""The metric of the entry that stands for "no route" in IPv6's table."""


def table(proc: str = "/proc/net") -> tuple[TableRoute, ...] | None:
    """The main table, IPv4 and IPv6, best metric first; None where it cannot be read or is longer than a node's."""
    try:
        rows = [line.split() for line in Path(proc, "route").read_text().splitlines()[1:]]
    except OSError:
        return None
    try:
        rows6 = [line.split() for line in Path(proc, "ipv6_route").read_text().splitlines()]
    except OSError:
        rows6 = []
    try:
        found = [*map(_four, rows), *filter(None, map(_six, rows6))]
    except (ValueError, IndexError, struct.error):
        return None
    if len(found) > MOST:
        return None
    found.sort(key=lambda pair: pair[0])
    several = multipath()
    return tuple(replace(route, next_hops=several.get((route.network, metric), ())) for metric, route in found)


def _four(row: list[str]) -> tuple[int, TableRoute]:
    """``eth0 000A4D0A 00000000 0001 0 0 0 00FFFFFF ...``: numbers in the host's byte order."""
    target, gateway, mask = (struct.pack("=I", int(row[place], 16)) for place in (1, 2, 7))
    network = ipaddress.ip_network(f"{socket.inet_ntoa(target)}/{socket.inet_ntoa(mask)}", strict=False)
    reject = bool(int(row[3], 16) & _REJECT) or row[0] == "*"
    via = socket.inet_ntoa(gateway) if any(gateway) else None
    return int(row[6]), TableRoute(str(network), via, None if row[0] == "*" else row[0], reject)


def _six(row: list[str]) -> tuple[int, TableRoute] | None:
    """``fd77...00 40 000...00 00 000...00 00000100 00000001 00000000 00000001 eth0``: numbers as they are read."""
    flags, metric = int(row[8], 16), int(row[5], 16)
    target = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0]))
    if not flags & _UP or flags & _NOT_UNICAST or metric == _NEVER or target.startswith("ff"):
        return None
    reject = bool(flags & _REJECT)
    if row[9] == "lo" and not reject:
        return None
    gateway = bytes.fromhex(row[4])
    via = socket.inet_ntop(socket.AF_INET6, gateway) if any(gateway) else None
    return metric, TableRoute(f"{target}/{int(row[1], 16)}", via, None if reject else row[9], reject)


def strict(root: str = "/proc/sys/net/ipv4/conf") -> tuple[str, ...]:
    """The interfaces on which IPv4's reverse path filter is strict: of an interface's value and that of ``all`` the
    larger one counts, 1 is strict, 2 loose (the kernel's ip-sysctl.rst)."""
    everywhere = _value(Path(root, "all"))
    try:
        names = sorted(path.name for path in Path(root).iterdir())
    except OSError:
        return ()
    return tuple(n for n in names if n not in ("all", "default") and max(everywhere, _value(Path(root, n))) == 1)


def _value(folder: Path) -> int:
    try:
        return int((folder / "rp_filter").read_text())
    except (OSError, ValueError):
        return 0

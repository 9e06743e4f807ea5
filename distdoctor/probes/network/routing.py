"""Routing of this host: tables, strict interfaces, policy rules, multipath routes and IPsec policies."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

from distdoctor.model.facts import IpsecPolicy, NextHop, PolicyRule, TableRoute
from distdoctor.probes.network.netlink import XFRM, attributes, dump, number

MAX_ROUTES = 256
"""Limit of the routes: a longer table is a router's, and no node's."""
_UP, _REJECT = 0x1, 0x200
_NOT_UNICAST = 0x80000000 | 0x00100000
"""RTF_LOCAL and RTF_ANYCAST (linux/ipv6_route.h)."""
_NEVER = 0xFFFFFFFF
"""Metric of the entry that stands for "no route" in IPv6's table."""


def routing_table(proc: str = "/proc/net") -> tuple[TableRoute, ...] | None:
    """Return the main table, IPv4 and IPv6, best metric first; None if it is unreadable or longer than a node's."""
    try:
        rows = [line.split() for line in Path(proc, "route").read_text().splitlines()[1:]]
    except OSError:
        return None
    try:
        rows6 = [line.split() for line in Path(proc, "ipv6_route").read_text().splitlines()]
    except OSError:
        rows6 = []
    try:
        routes = [*map(_four, rows), *filter(None, map(_six, rows6))]
    except (ValueError, IndexError, struct.error):
        return None
    if len(routes) > MAX_ROUTES:
        return None
    routes.sort(key=lambda pair: pair[0])
    several = multipath()
    return tuple(replace(route, next_hops=several.get((route.network, metric), ())) for metric, route in routes)


def _four(row: list[str]) -> tuple[int, TableRoute]:
    """Parse ``eth0 000A4D0A 00000000 0001 0 0 0 00FFFFFF ...``: numbers in the host's byte order."""
    target, gateway, mask = (struct.pack("=I", int(row[place], 16)) for place in (1, 2, 7))
    network = ipaddress.ip_network(f"{socket.inet_ntoa(target)}/{socket.inet_ntoa(mask)}", strict=False)
    reject = bool(int(row[3], 16) & _REJECT) or row[0] == "*"
    via = socket.inet_ntoa(gateway) if any(gateway) else None
    return int(row[6]), TableRoute(str(network), via, None if row[0] == "*" else row[0], reject)


def _six(row: list[str]) -> tuple[int, TableRoute] | None:
    """Parse ``fd77...00 40 000...00 00 000...00 00000100 00000001 00000000 00000001 eth0``: numbers as they are
    read."""
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
    """Return the interfaces on which IPv4's reverse path filter is strict: the larger of an interface's value and that
    of ``all`` counts, 1 is strict, 2 loose (the kernel's ip-sysctl.rst)."""
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


# Policy routing: the rules that choose a routing table by a packet's addresses, ports and mark (``ip rule``).


MAX_RULES = 64
"""Limit of the rules: more are a router's, and no node's."""
_GETRULE, _NEWRULE, _GETROUTE, _NEWROUTE = 34, 32, 26, 24
_DST, _SRC, _INCOMING, _PRIORITY, _SUPPRESS_LENGTH, _TABLE, _PROTOCOL = 1, 2, 3, 6, 14, 15, 21
_IP_PROTO, _SPORT, _DPORT, _PAD, _USERS = 22, 23, 24, 18, 20
_MARK, _MASK = 10, 16
_SELECTORS = {_DST, _SRC, _IP_PROTO, _SPORT, _DPORT, _MARK, _USERS, _INCOMING}
_NOTHING = {28: b"\xff" * 2, 29: b"\xff" * 2}
"""Values for a port without ignored bits (Linux 6.15's masks)."""
_KNOWN = {*_SELECTORS, *_NOTHING, _SUPPRESS_LENGTH, _PRIORITY, _TABLE, _PROTOCOL, _PAD, _MASK}
"""FRA_*: the attributes of a rule that has no outgoing interface and no tunnel."""
_ITSELF = "lo"
"""Interface by which, to rules, packets of this host itself arrive (``iif lo``)."""
_INVERT = 0x2
_ALL_TAKEN = b"\xff" * 4
"""Value of a rule that passes no route over, however short (``suppress_prefixlength``)."""
_LOOKUP, _GOTO, _REJECTS = 1, 2, {6: "blackhole", 7: "unreachable", 8: "prohibit"}
"""FR_ACT_*; of a route's types (RTN_*) the same numbers mean the same (linux/fib_rules.h, linux/rtnetlink.h)."""
_MAIN, _LOCAL = 254, 255
_ROUTE_DST, _OIF, _GATEWAY, _METRIC, _ROUTE_TABLE = 1, 4, 5, 6, 15
_UNICAST, _THROW = 1, 9
_FAMILIES = {socket.AF_INET: 4, socket.AF_INET6: 6}


def routing_rules() -> tuple[PolicyRule, ...]:
    """Return the rules before that of the main table, IPv4's and IPv6's; none if the kernel does not say, or has more
    of them, or of routes, than any node."""
    rules_found, past = list[tuple[int, PolicyRule, int, int]](), set[int]()
    for body in dump(_GETRULE, _NEWRULE):
        family, dst_length, src_length, service, table, action, flags = struct.unpack_from("=BBBBBxxBI", body)
        fields = attributes(body[12:])
        if family not in _FAMILIES or service:  # of a type of service (tos), which torch does not ask for
            continue
        version, table = _FAMILIES[family], number(fields.get(_TABLE), table)
        if action == _GOTO and version not in past:
            return ()  # the rules that it skips are not evaluated
        if version in past or table == _LOCAL or not {*fields} <= _KNOWN:
            continue
        if any(fields.get(kind, nothing) != nothing for kind, nothing in _NOTHING.items()):
            continue
        passed_over = struct.unpack("=i", fields.get(_SUPPRESS_LENGTH, _ALL_TAKEN))[0]
        if table == _MAIN and action == _LOOKUP and not _SELECTORS & {*fields} and passed_over < 0:
            past.add(version)
            continue
        rule = _rule(version, fields, (src_length, dst_length), (table, action), bool(flags & _INVERT))
        if rule is not None:
            rules_found.append((number(fields.get(_PRIORITY), 0), rule, table if action == _LOOKUP else 0, passed_over))
    if not rules_found or len(rules_found) > MAX_RULES:
        return ()
    tables = _tables()
    if any(len(tables[rule.version, table]) > MAX_ROUTES for _, rule, table, _ in rules_found):
        return ()
    return tuple(
        replace(
            rule,
            main=table == _MAIN,
            routes=tuple(entry for entry in tables[rule.version, table] if _length(entry) > passed_over)
            if table
            else (),
        )
        for _, rule, table, passed_over in sorted(rules_found, key=lambda row: row[0])
    )


def _length(entry: TableRoute) -> int:
    return int(entry.network.rpartition("/")[2])


def _rule(
    version: int, fields: dict[int, bytes], lengths: tuple[int, int], does: tuple[int, int], inverted: bool
) -> PolicyRule | None:
    """Return one rule without its routes; None for one that neither looks up nor rejects, or is for UDP and the like,
    for other users than this process has, or for packets of other hosts.

    An inverted one with more than addresses, ports and a mark is None, too: its text does not say which of it does not
    hold.
    """
    table, action = does
    if action != _LOOKUP and action not in _REJECTS:
        return None
    incoming = fields.get(_INCOMING, b"").rstrip(b"\0").decode(errors="replace")
    if incoming not in ("", _ITSELF) or (inverted and {_INCOMING, _IP_PROTO, _USERS} & {*fields}):
        return None
    source, target = (
        _route_network(fields.get(kind), length) for kind, length in zip((_SRC, _DST), lengths, strict=True)
    )
    protocol = fields.get(_IP_PROTO, b"")
    if protocol and protocol[0] != socket.IPPROTO_TCP:
        return None
    ports = [struct.unpack("=HH", fields[kind]) if kind in fields else None for kind in (_SPORT, _DPORT)]
    words = ["not" if inverted else "", f"from {source or 'all'}", f"to {target}" if target else ""]
    words += [f"iif {incoming}" if incoming else "", "ipproto tcp" if protocol else ""]
    if users := fields.get(_USERS):
        low, high = struct.unpack("=II", users)
        if not low <= os.getuid() <= high:
            return None
        words.append(f"uidrange {low}-{high}")
    mark = (number(fields[_MARK], 0), number(fields.get(_MASK), 0xFFFFFFFF)) if _MARK in fields else None
    if mark is not None:
        words.append(f"fwmark {mark[0]:#x}" + (f"/{mark[1]:#x}" if mark[1] != 0xFFFFFFFF else ""))
    for word, pair in zip(("sport", "dport"), ports, strict=True):
        words.append(f"{word} {pair[0]}" + (f"-{pair[1]}" if pair[1] != pair[0] else "") if pair else "")
    words.append(f"lookup {table}" if action == _LOOKUP else _REJECTS[action])
    text = " ".join(filter(None, words))
    return PolicyRule(version, text, source, target, ports[0], ports[1], mark, action in _REJECTS, inverted=inverted)


def _tables() -> dict[tuple[int, int], tuple[TableRoute, ...]]:
    """Return the routes of each table, by IP version and number."""
    by_table: dict[tuple[int, int], list[tuple[int, TableRoute]]] = defaultdict(list)
    for body in dump(_GETROUTE, _NEWROUTE):
        family, length, table, kind = struct.unpack_from("=BBxxBxxB", body)
        fields = attributes(body[12:])
        if family not in _FAMILIES or kind not in (_UNICAST, _THROW, *_REJECTS):
            continue
        version, table = _FAMILIES[family], number(fields.get(_ROUTE_TABLE), table)
        network = _route_network(fields.get(_ROUTE_DST), length) or ("0.0.0.0/0" if version == 4 else "::/0")
        gateway = socket.inet_ntop(family, fields[_GATEWAY]) if _GATEWAY in fields else None
        try:
            interface = socket.if_indextoname(number(fields.get(_OIF), 0)) if kind == _UNICAST else None
        except OSError:
            interface = None
        hops = next_hops(family, fields)
        if hops:
            gateway, interface = hops[0].gateway, hops[0].interface
        network = network if "/" in network else f"{network}/{length}"
        entry = TableRoute(network, gateway, interface, kind in _REJECTS, next_hops=hops, throws=kind == _THROW)
        by_table[version, table].append((number(fields.get(_METRIC), 0), entry))
    tables = {place: tuple(entry for _, entry in sorted(its, key=lambda p: p[0])) for place, its in by_table.items()}
    return defaultdict(tuple, tables)


def _route_network(field: bytes | None, length: int) -> str:
    """Return ``10.77.0.0/24``, an address alone for a host; empty for any."""
    if field is None or length == 0:
        return ""
    number = ipaddress.ip_address(field)
    return str(number) if length == number.max_prefixlen else f"{number}/{length}"


# Routes of the main table with several next hops (ECMP), of which /proc/net/route shows the first alone.


_RTM_GETROUTE, _RTM_NEWROUTE, _MAIN_TABLE = 26, 24, 254
_RTA_DST, _RTA_GATEWAY, _RTA_METRIC, _MULTIPATH, _RTA_TABLE, _VIA = 1, 5, 6, 9, 15, 18
"""RTA_* of linux/rtnetlink.h."""
_DEAD = 0x1 | 0x10
"""RTNH_F_DEAD and RTNH_F_LINKDOWN: the interface is down or has no carrier, and the kernel may pass the hop over."""


def multipath() -> dict[tuple[str, int], tuple[NextHop, ...]]:
    """Return the next hops by (network, metric) of routes that have several; nothing if the kernel does not say."""
    by_route = {}
    for body in dump(_RTM_GETROUTE, _RTM_NEWROUTE):
        family, length, table = struct.unpack_from("=BBxxB", body)
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        fields = attributes(body[12:])
        if number(fields.get(_RTA_TABLE), table) != _MAIN_TABLE or not (hops := next_hops(family, fields)):
            continue
        target = socket.inet_ntop(family, fields.get(_RTA_DST, bytes(4 if family == socket.AF_INET else 16)))
        by_route[f"{target}/{length}", number(fields.get(_RTA_METRIC), 0)] = hops
    return by_route


def next_hops(family: int, fields: Mapping[int, bytes]) -> tuple[NextHop, ...]:
    """Return the next hops of one route, if it has several that are in use."""
    rest, hops = fields.get(_MULTIPATH, b""), []
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
            hops.append(NextHop(_gateway(family, its), interface))
        rest = rest[(length + 3) & ~3 :]
    return tuple(hops) if len(hops) > 1 else ()


def _gateway(family: int, fields: Mapping[int, bytes]) -> str | None:
    if _RTA_GATEWAY in fields:
        return socket.inet_ntop(family, fields[_RTA_GATEWAY])
    if (via := fields.get(_VIA)) is not None and len(via) == 18:  # struct rtvia: IPv4 by a gateway of IPv6
        return socket.inet_ntop(socket.AF_INET6, via[2:])
    return None


# Policies of IPsec, and whether their associations exist (linux/xfrm.h).


MAX_POLICIES = 64
"""Limit of the policies: more are a gateway's, and no node's."""
_GETPOLICY, _NEWPOLICY, _GETSA, _NEWSA = 0x15, 0x13, 0x12, 0x10
_TEMPLATES, _XFRM_MARK, _IF_ID = 5, 21, 31
"""XFRMA_TMPL: an array of struct xfrm_user_tmpl. XFRMA_MARK and XFRMA_IF_ID: the policy is for packets with a mark (of
a CNI, or by a tunnel of type vti), or for packets sent by an interface of type xfrm."""
_SELECTOR = "=16s16sHHHHHBBBxxxiI"
"""struct xfrm_selector: to, from, the ports with a mask each, the family, the lengths of the prefixes, the protocol."""
_TEMPLATE = 64
_LIFETIMES = 96
_WAYS: dict[int, Literal["in", "out"]] = {0: "in", 1: "out"}
_BLOCK = 1
_TRANSPORT = 0

Keyed = Collection[tuple[bytes, int]]
"""(target, protocol) of associations."""


def ipsec_policies() -> tuple[IpsecPolicy, ...]:
    """Return the policies for TCP in and out of this host, in the kernel's order; none if the kernel does not show them
    to this user, or has more than any node's.

    Of equal priorities the oldest comes first, which the kernel sends last.
    """
    keyed, policies = set(_associations()), list[tuple[int, IpsecPolicy]]()
    for body in dump(_GETPOLICY, _NEWPOLICY, XFRM):
        entry = _policy(body, keyed)
        if entry is not None:
            policies.insert(0, entry)
        if len(policies) > MAX_POLICIES:
            return ()
    return tuple(policy for _, policy in sorted(policies, key=itemgetter(0)))


def _policy(body: bytes, keyed: Keyed) -> tuple[int, IpsecPolicy] | None:
    """Return (priority, policy); None for one of forwarded packets, of an interface, a mark or a user, or of another
    protocol."""
    to, source, dport, dmask, sport, smask, family, dlength, slength, protocol, card, user = struct.unpack_from(
        _SELECTOR, body
    )
    at = struct.calcsize(_SELECTOR) + _LIFETIMES
    priority, _, way, action = struct.unpack_from("=IIBB", body, at)
    if way not in _WAYS or family not in (socket.AF_INET, socket.AF_INET6) or protocol not in (0, socket.IPPROTO_TCP):
        return None
    if card or user or dmask not in (0, 0xFFFF) or smask not in (0, 0xFFFF):
        return None
    fields = attributes(body[at + 16 :])
    if _XFRM_MARK in fields or _IF_ID in fields:
        return None
    wanted = list(_templates(fields.get(_TEMPLATES, b"")))
    return priority, IpsecPolicy(
        _WAYS[way],
        4 if family == socket.AF_INET else 6,
        _xfrm_network(source, slength, family),
        _xfrm_network(to, dlength, family),
        source_port=socket.ntohs(sport) if smask else None,
        target_port=socket.ntohs(dport) if dmask else None,
        tcp=protocol == socket.IPPROTO_TCP,
        block=action == _BLOCK,
        lacks=not all(_there(keyed, proto, end or to, 128 if end else dlength) for end, proto in wanted),
    )


def _templates(several: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield (target, protocol) of each required association; without a target, it is the packet's: in transport mode,
    and if the policy names none."""
    for at in range(0, len(several) - _TEMPLATE + 1, _TEMPLATE):
        end, _, protocol = struct.unpack_from("=16sIB", several, at)
        mode, _, optional = several[at + 48 : at + 51]
        if not optional:
            yield (end if mode != _TRANSPORT and any(end) else b""), protocol


def _there(keyed: Keyed, protocol: int, to: bytes, length: int) -> bool:
    """Return whether there is an association of the protocol to any address in this network; an IPv4 address is the
    first four of its sixteen bytes."""
    wanted = int.from_bytes(to, "big") >> (128 - length)
    return any(its == protocol and int.from_bytes(end, "big") >> (128 - length) == wanted for end, its in keyed)


def _associations() -> Iterator[tuple[bytes, int]]:
    """Yield (target, protocol) of existing associations; one that is only requested has no number (SPI) yet."""
    for body in dump(_GETSA, _NEWSA, XFRM):
        to, number, protocol = struct.unpack_from("=16sIB", body, struct.calcsize(_SELECTOR))
        if number:
            yield to, protocol


def _xfrm_network(number: bytes, length: int, family: int) -> str:
    size = 4 if family == socket.AF_INET else 16
    return f"{ipaddress.ip_address(number[:size])}/{length}"

"""Policy routing: the rules that choose a routing table by a packet's addresses, ports and mark (``ip rule``)."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections import defaultdict
from dataclasses import replace

from distdoctor.model.facts import PolicyRule, TableRoute
from distdoctor.probes.multipath import next_hops
from distdoctor.probes.netlink import attributes, dump, number
from distdoctor.probes.routes import MOST as MOST_ROUTES

MOST = 64
"""Rules beyond which they are left alone: a router's, and no node's."""
_GETRULE, _NEWRULE, _GETROUTE, _NEWROUTE = 34, 32, 26, 24
_DST, _SRC, _INCOMING, _PRIORITY, _SUPPRESS_LENGTH, _TABLE, _PROTOCOL = 1, 2, 3, 6, 14, 15, 21
_IP_PROTO, _SPORT, _DPORT, _PAD, _USERS = 22, 23, 24, 18, 20
_MARK, _MASK = 10, 16
_SELECTORS = {_DST, _SRC, _IP_PROTO, _SPORT, _DPORT, _MARK, _USERS, _INCOMING}
_NOTHING = {28: b"\xff" * 2, 29: b"\xff" * 2}
"""What the kernel tells where no bit of a port is passed over (Linux 6.15's masks)."""
_KNOWN = {*_SELECTORS, *_NOTHING, _SUPPRESS_LENGTH, _PRIORITY, _TABLE, _PROTOCOL, _PAD, _MASK}
"""FRA_*: the attributes of a rule that says nothing of an interface to leave by or of a tunnel."""
_ITSELF = "lo"
"""The interface by which, to rules, comes what this host sends itself (``iif lo``)."""
_INVERT = 0x2
_ALL_TAKEN = b"\xff" * 4
"""What the kernel tells of a rule that passes no route over, however short (``suppress_prefixlength``)."""
_LOOKUP, _GOTO, _REJECTS = 1, 2, {6: "blackhole", 7: "unreachable", 8: "prohibit"}
"""FR_ACT_*; of a route's types (RTN_*) the same numbers mean the same (linux/fib_rules.h, linux/rtnetlink.h)."""
_MAIN, _LOCAL = 254, 255
_ROUTE_DST, _OIF, _GATEWAY, _METRIC, _ROUTE_TABLE = 1, 4, 5, 6, 15
_UNICAST, _THROW = 1, 9
_FAMILIES = {socket.AF_INET: 4, socket.AF_INET6: 6}


def rules() -> tuple[PolicyRule, ...]:
    """The rules before that of the main table, IPv4's and IPv6's; nothing where the kernel does not tell, or where
    there are more than on any node, or more routes."""
    found, past = list[tuple[int, PolicyRule, int, int]](), set[int]()
    for body in dump(_GETRULE, _NEWRULE):
        family, dst_length, src_length, service, table, action, flags = struct.unpack_from("=BBBBBxxBI", body)
        fields = attributes(body[12:])
        if family not in _FAMILIES or service:  # of a type of service (tos), which torch does not ask for
            continue
        version, table = _FAMILIES[family], number(fields.get(_TABLE), table)
        if action == _GOTO and version not in past:
            return ()  # past which of the next ones it leads is not followed
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
            found.append((number(fields.get(_PRIORITY), 0), rule, table if action == _LOOKUP else 0, passed_over))
    if not found or len(found) > MOST:
        return ()
    tables = _tables()
    if any(len(tables[rule.version, table]) > MOST_ROUTES for _, rule, table, _ in found):
        return ()
    return tuple(
        replace(
            rule,
            main=table == _MAIN,
            routes=tuple(one for one in tables[rule.version, table] if _length(one) > passed_over) if table else (),
        )
        for _, rule, table, passed_over in sorted(found, key=lambda one: one[0])
    )


def _length(entry: TableRoute) -> int:
    return int(entry.network.rpartition("/")[2])


def _rule(
    version: int, fields: dict[int, bytes], lengths: tuple[int, int], does: tuple[int, int], inverted: bool
) -> PolicyRule | None:
    """One rule without its routes; None for one that does neither look up nor reject, or is for UDP and the
    like, for other users than this process has, or for what comes from other hosts. An inverted one that asks for more
    than addresses, ports and a mark is none either: which of it does not hold is not told by its text."""
    table, action = does
    if action != _LOOKUP and action not in _REJECTS:
        return None
    incoming = fields.get(_INCOMING, b"").rstrip(b"\0").decode(errors="replace")
    if incoming not in ("", _ITSELF) or (inverted and {_INCOMING, _IP_PROTO, _USERS} & {*fields}):
        return None
    source, target = (_network(fields.get(kind), length) for kind, length in zip((_SRC, _DST), lengths, strict=True))
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
    """The routes of each table, by IP version and number."""
    found: dict[tuple[int, int], list[tuple[int, TableRoute]]] = defaultdict(list)
    for body in dump(_GETROUTE, _NEWROUTE):
        family, length, table, kind = struct.unpack_from("=BBxxBxxB", body)
        fields = attributes(body[12:])
        if family not in _FAMILIES or kind not in (_UNICAST, _THROW, *_REJECTS):
            continue
        version, table = _FAMILIES[family], number(fields.get(_ROUTE_TABLE), table)
        network = _network(fields.get(_ROUTE_DST), length) or ("0.0.0.0/0" if version == 4 else "::/0")
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
        found[version, table].append((number(fields.get(_METRIC), 0), entry))
    tables = {place: tuple(one for _, one in sorted(its, key=lambda p: p[0])) for place, its in found.items()}
    return defaultdict(tuple, tables)


def _network(field: bytes | None, length: int) -> str:
    """``10.77.0.0/24``, an address alone where it is one; empty for any."""
    if field is None or length == 0:
        return ""
    number = ipaddress.ip_address(field)
    return str(number) if length == number.max_prefixlen else f"{number}/{length}"

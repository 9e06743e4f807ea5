"""Rules of nft, from ``nft --json list ruleset``: chains that can block, and their verdict on a new TCP connection."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from distdoctor.knowledge.firewall.iptables import INERT
from distdoctor.knowledge.firewall.packet import (
    ALL_BITS,
    FilteredPacket,
    Rule,
    Verdict,
    mark_of,
    may_pass,
    passes,
    shut,
)
from distdoctor.knowledge.firewall.packet_filter import BadRuleset, Direction, FilterHook
from distdoctor.model.facts import FirewallChain, PacketMark, ShutPort

_HOOKS: dict[str, FilterHook] = {
    "ingress": "input",
    "prerouting": "input",
    "input": "input",
    "output": "output",
    "postrouting": "output",
    "egress": "output",
}
IN = tuple(hook for hook, way in _HOOKS.items() if way == "input")
"""Hooks for packets into this host."""
OUT = tuple(hook for hook, way in _HOOKS.items() if way == "output")
_FAMILIES = ("ip", "ip6", "inet", "netdev", "bridge")
"""Families of TCP over IP; bridge counts if this host's own interface is a port of its own bridge."""
_OPERATORS = {"==": "", "in": ""}
_ARITHMETIC = frozenset(("&", "|", "^", "<<", ">>"))
_REDIRECTS = ("dnat", "redirect")
_TRANSLATED = (*_REDIRECTS, "snat")
_FOR_A_PORT = re.compile(r"\bdports?\s+[\d{]")
_TO_ITSELF = re.compile(r"\bfib\b|\baddrtype\b|\bdaddr 127\.")
_OF_OTHERS = re.compile(r"\bsaddr\b|\biif(?:name)?\b")
"""Match of an outgoing rule for forwarded packets, such as those of a container network."""
_LIMIT = re.compile(r"\b(?:limit rate|ct count) (?!over)")
_NOT_TCP = {"udp", "icmp", "icmpv6", "ipv6-icmp", "igmp", "sctp", "udplite", 1, 2, 17, 58}


def parse_nft_json(text: str) -> tuple[FirewallChain, ...]:
    """Return the base chains that can block, from ``nft -j list ruleset``. Raises BadRuleset."""
    try:
        items = json.loads(text)["nftables"]
        return tuple(_nft_chains(items))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def dormant(items: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return (family, name) of the tables whose rules have, or may have, no effect.

    They have the flag ``dormant``, for which nft 1.0.6 prints some letter. The other flags do not change the effect of
    the rules (nft(8), TABLES).
    """
    tables = (item["table"] for item in items if "table" in item)
    return {
        (table["family"], table["name"])
        for table in tables
        if not {*_listed(table.get("flags"))} <= {"owner", "persist"}
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# -- nft ------------------------------------------------------------------------------------------------------------


def _nft_chains(items: Sequence[dict[str, Any]]) -> Iterable[FirewallChain]:
    tables = NftTable.all(items)
    for item in items:
        chain = item.get("chain")
        if not chain or chain.get("family") not in _FAMILIES or chain.get("hook") not in _HOOKS:
            continue
        family, table, name = chain["family"], chain["table"], chain["name"]
        policy, rules = chain.get("policy", "accept"), tables[family, table]
        if chain["type"] == "filter":
            blocking = tuple(rules.ending(name, ("drop", "reject", "queue")))
        elif chain["type"] == "nat" and chain["hook"] in ("prerouting", "output"):
            # Redirected to another host or port: a listener on this one gets nothing. A rule for all ports is a
            # proxy's. An outgoing rule for addresses of this host (fib daddr type local, iptables-nft's addrtype, which
            # nft prints without details) keeps it from no other host.
            here = chain["hook"] == "output"
            blocking = tuple(
                rule
                for rule in rules.ending(name, _REDIRECTS)
                if _FOR_A_PORT.search(rule) and not (here and _TO_ITSELF.search(rule))
            )
        elif chain["type"] == "nat" and chain["hook"] == "postrouting":
            # Sent from another address: replies may not find the way back. masquerade takes one of the outgoing
            # interface.
            blocking = tuple(rule for rule in rules.ending(name, ("snat",)) if not _OF_OTHERS.search(rule))
        else:
            continue
        if blocking or policy == "drop":
            limited = tuple(rules.limiting(name)) if chain["type"] == "filter" else ()
            yield FirewallChain("nft", family, table, name, _HOOKS[chain["hook"]], policy, blocking, limited)


def nft_proxied(text: str) -> tuple[str, ...]:
    """Return the rules that redirect what this host sends to all ports to a port of its own. Raises BadRuleset."""
    try:
        items = json.loads(text)["nftables"]
        tables, asleep = NftTable.all(items), dormant(items)
        chains = [item["chain"] for item in items if "chain" in item]
        return tuple(
            f"nft chain {chain['family']} {chain['table']} {chain['name']}: {rule}"
            for chain in chains
            if (chain.get("type"), chain.get("hook")) == ("nat", "output") and chain["family"] in _FAMILIES
            if (chain["family"], chain["table"]) not in asleep
            for rule in tables[chain["family"], chain["table"]].ending(chain["name"], ("redirect",))
            if not _FOR_A_PORT.search(rule) and not _TO_ITSELF.search(rule)
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


@dataclass(frozen=True)
class NftTable:
    """Rules of one table, with their text."""

    chains: Mapping[str, Sequence[Sequence[Any]]]
    """Expressions of the rules of each chain."""
    sets: Mapping[str, Any]
    """Elements of each named set and map."""

    @staticmethod
    def all(items: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], NftTable]:
        """Return every table of a ruleset by family and name."""
        chains: dict[tuple[str, str], dict[str, list[Sequence[Any]]]] = {}
        sets: dict[tuple[str, str], dict[str, Any]] = {}
        for kind, entry in (pair for item in items for pair in item.items()):
            if kind == "rule":
                its = chains.setdefault((entry["family"], entry["table"]), {})
                its.setdefault(entry["chain"], []).append(entry["expr"])
            elif kind == "chain":
                chains.setdefault((entry["family"], entry["table"]), {}).setdefault(entry["name"], [])
            elif kind in ("set", "map"):
                sets.setdefault((entry["family"], entry["table"]), {})[entry["name"]] = entry.get("elem", [])
        return {place: NftTable(its, sets.get(place, {})) for place, its in chains.items()}

    def ending(self, chain: str, ends: tuple[str, ...], above: tuple[str, ...] = ()) -> list[str]:
        """Return the rules of ``chain`` with one of these ends for TCP, themselves or by a jump."""
        endings = []
        for expr in self.chains.get(chain, ()):
            if any(_harmless(part) for part in expr if isinstance(part, dict)):
                continue
            text = " ".join(filter(None, (self.text(part) for part in expr)))
            for verdict in self.verdicts(expr):
                if verdict in ends:
                    endings.append(text)
                elif verdict != chain and verdict not in above:
                    endings += [f"{text} > {inner}" for inner in self.ending(verdict, ends, (*above, chain))]
        return list(dict.fromkeys(endings))

    def limiting(self, chain: str, above: tuple[str, ...] = ()) -> list[str]:
        """Return the rules of ``chain`` that limit TCP connections, themselves or by a jump."""
        limits = []
        for expr in self.chains.get(chain, ()):
            parts = [part for part in expr if isinstance(part, dict)]
            if any(map(_harmless, parts)):
                continue
            text = " ".join(filter(None, map(self.text, expr)))
            if any("accept" in part or "return" in part for part in parts) and _LIMIT.search(text):
                limits.append(text)
            for verdict in self.verdicts(expr):
                if verdict in self.chains and verdict not in (chain, *above):
                    limits += [f"{text} > {inner}" for inner in self.limiting(verdict, (*above, chain))]
        return list(dict.fromkeys(limits))

    def verdicts(self, expr: Sequence[Any]) -> list[str]:
        """Return the possible ends of a rule: drop, reject, queue, dnat, redirect, or the name of a chain that it jumps
        to."""
        kinds: list[str] = []
        for part in expr:
            if not isinstance(part, dict):
                continue
            if "drop" in part:
                kinds.append("drop")
            elif "reject" in part or part.get("xt", {}).get("name") in ("REJECT", "DROP"):
                kinds.append("reject")
            elif _queued(part):
                kinds.append("queue")
            elif end := next((end for end in _TRANSLATED if end in part or _target(part) == end.upper()), None):
                kinds.append(end)
            elif "jump" in part or "goto" in part:
                kinds.append(str((part.get("jump") or part["goto"])["target"]))
            elif "vmap" in part:
                for _, verdict in self.elements(part["vmap"]["data"]):
                    kinds += self.verdicts([verdict])
        return kinds

    def elements(self, data: Any) -> list[Any]:
        """Return the elements of a set or map, anonymous or named."""
        if isinstance(data, str) and data.startswith("@"):
            data = self.sets.get(data[1:], [])
        if isinstance(data, dict):
            data = data.get("set", [])
        return data if isinstance(data, list) else [data]

    def text(self, part: Any) -> str:
        """Return one part of a rule as nft would print it, without counters."""
        if not isinstance(part, dict):
            return str(part)
        kind, value = next(iter(part.items()))
        if kind == "match":
            masked = isinstance(value["left"], dict) and not _ARITHMETIC.isdisjoint(value["left"])
            operator = value["op"] + " " if masked else _OPERATORS.get(value["op"], value["op"] + " ")
            return f"{self.text(value['left'])} {operator}{self.value(value['right'])}"
        if kind == "payload":
            return f"{value.get('protocol', '')} {value.get('field', 'payload')}".strip()
        if kind in ("meta", "ct"):
            return f"{kind} {value['key']}"
        if kind in _ARITHMETIC:
            return f" {kind} ".join(map(self.value, value))
        if kind == "vmap":
            return f"{self.text(value['key'])} vmap {self.value(value['data'])}"
        return self._statement_text(kind, value)

    def _statement_text(self, kind: str, value: Any) -> str:
        """Return a statement as nft would print it; of an unknown one its name."""
        if kind == "reject":
            how = f" with {value.get('type')} {value.get('expr') or ''}".rstrip() if value else ""
            return f"reject{how}"
        if kind == "queue":
            return f"queue to {self.value(value['num'])}" if isinstance(value, dict) and "num" in value else "queue"
        if kind in _TRANSLATED:
            target = value if isinstance(value, dict) else {}
            port = f":{self.value(target['port'])}" if "port" in target else ""
            return f"{kind} to {self.value(target.get('addr', ''))}{port}"
        if kind in ("jump", "goto"):
            return f"{kind} {value['target']}"
        if kind == "xt":
            return str(value.get("name", "")) if isinstance(value, dict) else ""
        if kind in ("set", "meter") and isinstance(value, dict):
            return " ".join(filter(None, map(self.text, _listed(value.get("stmt")))))
        if kind == "mangle" and value["key"] == {"meta": {"key": "mark"}}:
            return "packet mark"
        return _limit_text(kind, value) or ("" if kind in ("counter", "log", "comment") else kind)

    def value(self, value: Any) -> str:
        """Return the right side of a match."""
        if isinstance(value, str) and value.startswith("@"):
            value = {"set": self.elements(value)}
        if isinstance(value, dict):
            if "set" in value:
                return "{ " + ", ".join(self.element(one) for one in self.elements(value)) + " }"
            if "range" in value:
                return "-".join(str(end) for end in value["range"])
            if "prefix" in value:
                return f"{value['prefix']['addr']}/{value['prefix']['len']}"
            if "elem" in value:
                return self.value(value["elem"].get("val"))
            return self.text(value)
        if isinstance(value, list):
            return ",".join(self.value(item) for item in value)
        return str(value)

    def element(self, item: Any) -> str:
        """Return one element of a set, or one pair of a verdict map."""
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], dict):
            return f"{self.value(item[0])} : {self.text(item[1])}"
        return self.value(item)


def _limit_text(kind: str, value: Any) -> str:
    """Return a limit on connections as nft would print it; empty for any other statement."""
    if kind == "ct count":
        return f"ct count {'over ' if value.get('inv') else ''}{value.get('val')}"
    if kind == "limit" and isinstance(value, dict):
        return f"limit rate {'over ' if value.get('inv') else ''}{value.get('rate')}/{value.get('per')}"
    return ""


def _target(part: Mapping[str, Any]) -> str:
    """Return the target of a rule of iptables-nft, which nft does not print in its own words."""
    name = part.get("xt", {}).get("name") if isinstance(part.get("xt"), dict) else None
    return str(name or "")


def _queued(part: Mapping[str, Any]) -> bool:
    """Return whether a program decides about the packet and may drop it by not listening.

    Not for a queue with the flag ``bypass`` (nft(8), QUEUE STATEMENT).
    """
    if "queue" in part:
        flags = part["queue"].get("flags") if isinstance(part["queue"], dict) else None
        return "bypass" not in _listed(flags)
    return _target(part) == "NFQUEUE"


def _harmless(part: dict[str, Any]) -> bool:
    """Return whether a match keeps new TCP connections between hosts away from its rule."""
    match = part.get("match")
    if not isinstance(match, dict) or match["op"] not in ("==", "in"):
        return False
    left, right = match["left"], match["right"]
    values = right.get("set", [right]) if isinstance(right, dict) else right if isinstance(right, list) else [right]
    if not all(isinstance(value, (str, int)) for value in values):
        return False
    if left == {"ct": {"key": "state"}}:
        return set(values) <= {"invalid", "untracked"}
    if isinstance(left, dict) and left.get("meta", {}).get("key") in ("iif", "iifname", "oif", "oifname"):
        return set(values) == {"lo"}
    protocol_of = ({"meta": {"key": "l4proto"}}, {"payload": {"protocol": "ip", "field": "protocol"}})
    if left in protocol_of or left == {"payload": {"protocol": "ip6", "field": "nexthdr"}}:
        return set(values) <= _NOT_TCP
    return isinstance(left, dict) and left.get("payload", {}).get("protocol") in _NOT_TCP


# nft's verdict on a new TCP connection of another host.


_TCP = ("tcp", "6", 6)
_INERT = ("counter", "log", "comment", "mangle", "ct helper", "notrack")
VERSIONS = {4: ("ip", "inet"), 6: ("ip6", "inet")}
"""Families whose chains see packets of an IP version. Those of netdev are each on a device, which need not be the one
of the other nodes' packets."""
_INTERFACES = {"iif": "in", "iifname": "in", "oif": "out", "oifname": "out"}
_MARK = ("meta", {"key": "mark"})
_SAME = (ALL_BITS, 0)
_FLAGS = {"protocol": "tcp", "field": "flags"}
_NOT_TCP_NAMES = {"udp", "udplite", "sctp", "dccp", "icmp", "icmpv6", "igmp", "ah", "esp", "comp", "arp"}
"""Protocols of nft's payload expressions that no TCP connection has (nft(8), PAYLOAD EXPRESSIONS). A TCP packet has an
Ethernet header, and may have a VLAN's."""


def opaque(text: str) -> bool:
    """Return whether it contains matches of iptables' modules, which nft does not print."""
    return '"xt":' in text.replace(" ", "")


def nft_shut(text: str, port: int, but: Sequence[tuple[str, str]] = ()) -> tuple[ShutPort, ...]:
    """Return the base chains that let no new connection of another host in to ``port``. Raises BadRuleset.

    ``but``: tables (family, name) that are left out.
    """
    try:
        return tuple(_shut(_items(text), port, but))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def nft_passes(text: str, version: int, packet: FilteredPacket, but: tuple[tuple[str, str], ...] = ()) -> bool:
    """Return whether all base chains certainly let a packet of this version of IP through. Raises BadRuleset."""
    try:
        for name, policy, table, lines in _met_by(text, version, replace(packet, other=None), but):
            meets = _Met(packet, version, table)
            chains = {
                chain: [rule for expr, known in its for rule in (meets.rules(expr) if known is None else known)]
                for chain, its in lines.items()
            }
            if not passes(name, chains, policy):
                return False
        return True
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def nft_marks(text: str, port: int, interface: str | None) -> tuple[PacketMark, ...]:
    """Return the marks on packets that this host sends to and from ``port``, set by chains after which the kernel
    routes again.

    ``interface``: the outgoing one, None if unknown. Raises BadRuleset.
    """
    try:
        return tuple(_marks(_items(text), port, interface))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


@lru_cache(maxsize=1)
def _items(text: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(text)["nftables"]
    return items


Lines = dict[str, list[tuple[Sequence[Any], tuple[Rule, ...] | None]]]
"""By chain, the rules as nft prints them, and their meaning for any other address; None if it depends on the
address."""


@lru_cache(maxsize=64)
def _met_by(
    text: str, version: int, packet: FilteredPacket, but: tuple[tuple[str, str], ...]
) -> list[tuple[str, str, NftTable, Lines]]:
    """Return each base chain that a packet meets, with its policy and its table's rules: read once for all
    addresses."""
    items, found = _items(text), []
    tables, asleep = NftTable.all(items), dormant(items)
    for chain in (item["chain"] for item in items if "chain" in item):
        place, hook = (chain["family"], chain["table"]), chain.get("hook")
        if hook not in (IN if packet.way == "in" else OUT) or place in but or place in asleep:
            continue
        if chain["family"] not in (*VERSIONS[version], "netdev", "bridge"):
            continue
        if chain["type"] == "nat" and (packet.reply or hook not in ("prerouting", "output")):
            continue  # the source only is translated there, or it is not consulted
        meets = _Met(packet, version, tables[place])
        lines = {name: list(meets.lines(exprs)) for name, exprs in tables[place].chains.items()}
        found.append((chain["name"], chain.get("policy", "accept"), tables[place], lines))
    return found


def _shut(items: Sequence[dict[str, Any]], port: int, but: Sequence[tuple[str, str]]) -> Iterator[ShutPort]:
    tables, asleep = NftTable.all(items), dormant(items)
    chains_met = []
    for chain in (item["chain"] for item in items if "chain" in item):
        place = chain["family"], chain["table"]
        if chain.get("hook") not in IN or chain["hook"] == "ingress" or place in but or place in asleep:
            continue
        table = tables[place]
        for version, families in VERSIONS.items():
            if chain["family"] not in families:
                continue
            rules = _rules(table, FilteredPacket(port), version)
            if chain.get("type") == "nat" and may_pass(chain["name"], rules):
                return  # possibly sent to another port before the filter sees it
            end = shut(chain["name"], rules, chain.get("policy", "accept")) if chain.get("type") == "filter" else None
            if end is not None:
                where = f"nft chain {chain['family']} {chain['table']} {chain['name']}"
                chains_met.append(ShutPort(port, version, end.how, f"{where}: {end.text}"))
    yield from chains_met


def _marks(items: Sequence[dict[str, Any]], port: int, interface: str | None) -> Iterator[PacketMark]:
    tables, asleep = NftTable.all(items), dormant(items)
    chains = [item["chain"] for item in items if "chain" in item]
    routing = [chain for chain in chains if (chain.get("hook"), chain.get("type")) == ("output", "route")]
    routing = [chain for chain in routing if (chain["family"], chain["table"]) not in asleep]
    routing.sort(key=lambda chain: chain["prio"] if isinstance(chain.get("prio"), int) else 0)
    sides: tuple[Direction, ...] = ("dport", "sport")
    for version, side in product(VERSIONS, sides):
        own = [chain for chain in routing if chain["family"] in VERSIONS[version]]
        packet = FilteredPacket(port, "out", side == "sport", interface=interface)
        mark = mark_of(
            [(chain["name"], _rules(tables[chain["family"], chain["table"]], packet, version)) for chain in own]
        )
        if mark is not None and mark[0]:
            where = f"nft chain {own[-1]['family']} {own[-1]['table']} {own[-1]['name']}"
            yield PacketMark(port, side, version, mark[0], f"{where}: {mark[1]}")


def _rules(table: NftTable, packet: FilteredPacket, version: int) -> dict[str, list[Rule]]:
    """Return all chains of a table, as the packet meets them."""
    meets = _Met(packet, version, table)
    return {name: [rule for expr in exprs for rule in meets.rules(expr)] for name, exprs in table.chains.items()}


class _Met:
    """Rules of a table, as a packet meets them."""

    def __init__(self, packet: FilteredPacket, version: int, table: NftTable) -> None:
        self._packet, self._version, self._table = packet, version, table

    def rules(self, expr: Sequence[Any]) -> Iterator[Rule]:
        """Yield one rule of nft as evaluated for this packet; a verdict map yields each of its elements."""
        parts = [part for part in expr if isinstance(part, dict)]
        matches = _all([self._matches(part) for part in parts])
        if matches is False:
            return
        text = " ".join(filter(None, map(self._table.text, parts)))
        for part in parts:
            if "mangle" in part and _only(part["mangle"]["key"]) == _MARK:
                mark = _mark(part["mangle"]["value"])
                full_text = f"{text} set {mark[1]:#x}" if mark else text
                yield Rule(matches if mark else None, "", full_text, mark=mark or _SAME)
            if "vmap" in part:
                for value, verdict in self._table.elements(part["vmap"]["data"]):
                    its = self._holds(part["vmap"]["key"], "==", value)
                    name, target = _verdict(verdict)
                    yield Rule(_all([matches, its]), name, text, target)
        for name, target in map(_verdict, parts):
            if name:
                yield Rule(matches, name, text, target)

    def lines(self, exprs: Sequence[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], tuple[Rule, ...] | None]]:
        """Yield each rule of a chain with its meaning for this packet, whose other address is unknown.

        Rules that match it with no address are left out.
        """
        for expr in exprs:
            rules = tuple(rule for rule in self.rules(expr) if rule.matches is not False)
            unknown = any(rule.matches is None for rule in rules)
            if rules:
                yield expr, None if unknown and "addr'" in repr(expr) else rules

    def _matches(self, part: Mapping[str, Any]) -> bool | None:
        if "match" in part:
            match = part["match"]
            return self._holds(match["left"], match["op"], match["right"])
        if "xt" in part:
            return True if part["xt"].get("type") == "target" else None
        return True if _verdict(part)[0] or next(iter(part)) in (*_INERT, "vmap") else None

    def _holds(self, left: Any, operator: str, right: Any) -> bool | None:
        """Return whether ``left`` of the packet equals ``right``, None if unknown."""
        holds = self._equals(left, right)
        if operator not in ("==", "in", "!=") or holds is None:
            return None
        return holds if operator != "!=" else not holds

    def _equals(self, left: Any, right: Any) -> bool | None:
        kind, value = _only(left)
        values = self._values(right)
        if kind == "ct" and value.get("key") in ("state", "status"):
            return value["key"] == "state" and self._packet.state in values
        if kind == "meta" and value["key"] in _INTERFACES:
            return _any([self._packet.goes_by(_INTERFACES[value["key"]], str(item)) for item in values])
        if kind == "meta" and value["key"] in ("l4proto", "protocol", "nfproto"):
            return bool({*map(str, values)} & {"tcp", "6"} if value["key"] == "l4proto" else self._is_family(values))
        if kind == "&" and _only(value[0]) == ("payload", _FLAGS):
            return None if self._packet.reply else {"syn"} & {*self._values(value[1])} == {*values}
        return self._payload(value, values) if kind == "payload" else None

    def _is_family(self, values: Sequence[Any]) -> bool:
        return bool({*map(str, values)} & ({"ipv4", "ip"} if self._version == 4 else {"ipv6", "ip6"}))

    def _payload(self, value: Mapping[str, Any], values: Sequence[Any]) -> bool | None:
        protocol, field = value.get("protocol"), value.get("field")
        if protocol in ("ip", "ip6"):
            if (protocol == "ip") is not (self._version == 4):
                return False
            if field in ("saddr", "daddr"):
                return _any([self._is_of(field, item) for item in values])
            return any(item in _TCP for item in values) if field in ("protocol", "nexthdr") else None
        if value == _FLAGS:
            return None if self._packet.reply else values == ["syn"] if "syn" in values else False
        if protocol in ("tcp", "th"):
            return self._packet.has_port(str(field), lambda port: any(_holds_port(item, port) for item in values))
        return False if protocol in _NOT_TCP_NAMES else None

    def _is_of(self, side: str, item: Any) -> bool | None:
        if isinstance(item, str):
            return self._packet.is_of(side, item)
        kind, value = _only(item)
        if kind == "prefix":
            return self._packet.is_of(side, f"{value['addr']}/{value['len']}")
        if kind != "range":
            return None
        networks = ipaddress.summarize_address_range(*map(ipaddress.ip_address, value))
        return _any([self._packet.is_of(side, str(network)) for network in networks])

    def _values(self, right: Any) -> list[Any]:
        """Return the values of a right side, one by one."""
        if isinstance(right, str) and right.startswith("@"):
            right = {"set": self._table.elements(right)}
        if isinstance(right, dict) and "|" in right:
            right = right["|"]
        if isinstance(right, dict) and "set" in right:
            return [v for item in self._table.elements(right) for v in self._values(item)]
        if isinstance(right, dict) and "elem" in right:
            return self._values(right["elem"].get("val"))
        return [v for item in right for v in self._values(item)] if isinstance(right, list) else [right]


def _holds_port(item: Any, port: int) -> bool:
    low, high = item["range"] if isinstance(item, dict) else (item, item)
    return int(low) <= port <= int(high)


def _only(part: Any) -> tuple[str, Any]:
    """Return the single key in a part of a rule, and its value."""
    return next(iter(part.items())) if isinstance(part, dict) else ("", {})


_REDIRECT_STATEMENTS = ("queue", "tproxy", "synproxy", "redirect", "dnat", "snat", "masquerade", "fwd")
"""Statements after which another chain or program decides about the packet."""
_ENDS: dict[str, Verdict] = {"accept": "accept", "drop": "drop", "return": "return"}
_JUMPS: dict[str, Verdict] = {"jump": "jump", "goto": "goto"}


def _mark(value: Any) -> tuple[int, int] | None:
    """Return the bits that a rule keeps and those that it sets, None if unknown.

    Forms: ``meta mark set 0x1``, ``... set meta mark and 0xff or 0x10``.
    """
    if isinstance(value, int):
        return 0, value
    added, kept = 0, ALL_BITS
    if isinstance(value, dict) and "|" in value and isinstance(value["|"][1], int):
        value, added = value["|"]
    if isinstance(value, dict) and "&" in value and isinstance(value["&"][1], int):
        value, kept = value["&"]
    return (kept & ~added, added) if _only(value) == _MARK else None


def _verdict(part: Any) -> tuple[Verdict, str]:
    """Return (the verdict, the chain of a jump) of one part of a rule."""
    kind, value = _only(part)
    if kind in _ENDS:
        return _ENDS[kind], ""
    if kind in _JUMPS:
        return _JUMPS[kind], str(value["target"])
    if kind == "reject":
        return ("reset" if value and value.get("type") == "tcp reset" else "reject"), ""
    if kind == "xt" and value.get("type") == "target" and value.get("name") not in INERT:
        # The answer of REJECT is not printed; by default it is an ICMP error.
        return ("reject" if value.get("name") == "REJECT" else "elsewhere"), ""
    return ("elsewhere", "") if kind in _REDIRECT_STATEMENTS else ("", "")


def _any(several: Sequence[bool | None]) -> bool | None:
    if True in several:
        return True
    return None if None in several or not several else False


def _all(several: Sequence[bool | None]) -> bool | None:
    if False in several:
        return False
    return None if None in several else True

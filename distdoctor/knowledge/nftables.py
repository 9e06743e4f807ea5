"""nft's ruleset, as ``nft --json list ruleset`` prints it: the chains that can block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distdoctor.knowledge.ruleset import BadRuleset, FilterHook
from distdoctor.model.facts import FirewallChain

_HOOKS: dict[str, FilterHook] = {
    "ingress": "input",
    "prerouting": "input",
    "input": "input",
    "output": "output",
    "postrouting": "output",
    "egress": "output",
}
IN = tuple(hook for hook, way in _HOOKS.items() if way == "input")
"""The hooks on the way into this host."""
OUT = tuple(hook for hook, way in _HOOKS.items() if way == "output")
_FAMILIES = ("ip", "ip6", "inet", "netdev", "bridge")
"""Those of TCP over IP. Of bridge: where this host's own interface is a port of a bridge of its own."""
_OPERATORS = {"==": "", "in": ""}
_ARITHMETIC = frozenset(("&", "|", "^", "<<", ">>"))
_ELSEWHERE = ("dnat", "redirect")
_TRANSLATED = (*_ELSEWHERE, "snat")
_FOR_A_PORT = re.compile(r"\bdports?\s+[\d{]")
_TO_ITSELF = re.compile(r"\bfib\b|\baddrtype\b|\bdaddr 127\.")
_OF_OTHERS = re.compile(r"\bsaddr\b|\biif(?:name)?\b")
"""Of a rule on the way out: it is for what is forwarded, as a network's of containers."""
_LIMIT = re.compile(r"\b(?:limit rate|ct count) (?!over)")
_OTHER_PROTOCOLS = {"udp", "icmp", "icmpv6", "ipv6-icmp", "igmp", "sctp", "udplite", 1, 2, 17, 58}


def parse_nft_json(text: str) -> tuple[FirewallChain, ...]:
    """The base chains that can block, out of ``nft -j list ruleset``. Raises BadRuleset."""
    try:
        items = json.loads(text)["nftables"]
        return tuple(_nft_chains(items))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def dormant(items: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(family, name) of the tables whose rules do nothing, or may: they have the flag ``dormant``, for which nft 1.0.6
    prints some letter. The other flags change nothing of what the rules do (nft(8), TABLES)."""
    tables = (item["table"] for item in items if "table" in item)
    return {(one["family"], one["name"]) for one in tables if not {*_listed(one.get("flags"))} <= {"owner", "persist"}}


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
            # To another host or port: who listens on this one gets nothing. A rule for all ports is a proxy's. On the
            # way out one for addresses of this host (fib daddr type local, iptables-nft's addrtype, of which nft does
            # not tell more) keeps it from no other.
            here = chain["hook"] == "output"
            blocking = tuple(
                rule
                for rule in rules.ending(name, _ELSEWHERE)
                if _FOR_A_PORT.search(rule) and not (here and _TO_ITSELF.search(rule))
            )
        elif chain["type"] == "nat" and chain["hook"] == "postrouting":
            # From another address: answers may not find back to it. masquerade takes one of the way's own interface.
            blocking = tuple(rule for rule in rules.ending(name, ("snat",)) if not _OF_OTHERS.search(rule))
        else:
            continue
        if blocking or policy == "drop":
            limited = tuple(rules.limiting(name)) if chain["type"] == "filter" else ()
            yield FirewallChain("nft", family, table, name, _HOOKS[chain["hook"]], policy, blocking, limited)


def nft_proxied(text: str) -> tuple[str, ...]:
    """The rules, out of the same, by which a port of this host gets what it sends to all ports. Raises BadRuleset."""
    try:
        items = json.loads(text)["nftables"]
        tables, asleep = NftTable.all(items), dormant(items)
        chains = [item["chain"] for item in items if "chain" in item]
        return tuple(
            f"nft chain {one['family']} {one['table']} {one['name']}: {rule}"
            for one in chains
            if (one.get("type"), one.get("hook")) == ("nat", "output") and one["family"] in _FAMILIES
            if (one["family"], one["table"]) not in asleep
            for rule in tables[one["family"], one["table"]].ending(one["name"], ("redirect",))
            if not _FOR_A_PORT.search(rule) and not _TO_ITSELF.search(rule)
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


@dataclass(frozen=True)
class NftTable:
    """The rules of one table, and what they say as text."""

    chains: Mapping[str, Sequence[Sequence[Any]]]
    """The expressions of the rules of each chain."""
    sets: Mapping[str, Any]
    """The elements of each named set and map."""

    @staticmethod
    def all(items: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], NftTable]:
        """Every table of a ruleset, by its family and name."""
        chains: dict[tuple[str, str], dict[str, list[Sequence[Any]]]] = {}
        sets: dict[tuple[str, str], dict[str, Any]] = {}
        for kind, one in (pair for item in items for pair in item.items()):
            if kind == "rule":
                its = chains.setdefault((one["family"], one["table"]), {})
                its.setdefault(one["chain"], []).append(one["expr"])
            elif kind == "chain":
                chains.setdefault((one["family"], one["table"]), {}).setdefault(one["name"], [])
            elif kind in ("set", "map"):
                sets.setdefault((one["family"], one["table"]), {})[one["name"]] = one.get("elem", [])
        return {place: NftTable(its, sets.get(place, {})) for place, its in chains.items()}

    def ending(self, chain: str, ends: tuple[str, ...], above: tuple[str, ...] = ()) -> list[str]:
        """The text of the rules of ``chain`` with one of these ends for TCP, themselves or by a jump."""
        found = []
        for expr in self.chains.get(chain, ()):
            if any(_harmless(part) for part in expr if isinstance(part, dict)):
                continue
            text = " ".join(filter(None, (self.text(part) for part in expr)))
            for verdict in self.verdicts(expr):
                if verdict in ends:
                    found.append(text)
                elif verdict != chain and verdict not in above:
                    found += [f"{text} > {inner}" for inner in self.ending(verdict, ends, (*above, chain))]
        return list(dict.fromkeys(found))

    def limiting(self, chain: str, above: tuple[str, ...] = ()) -> list[str]:
        """The text of the rules of ``chain`` that let in only so many TCP connections, themselves or by a jump."""
        found = []
        for expr in self.chains.get(chain, ()):
            parts = [part for part in expr if isinstance(part, dict)]
            if any(map(_harmless, parts)):
                continue
            text = " ".join(filter(None, map(self.text, expr)))
            if any("accept" in part or "return" in part for part in parts) and _LIMIT.search(text):
                found.append(text)
            for verdict in self.verdicts(expr):
                if verdict in self.chains and verdict not in (chain, *above):
                    found += [f"{text} > {inner}" for inner in self.limiting(verdict, (*above, chain))]
        return list(dict.fromkeys(found))

    def verdicts(self, expr: Sequence[Any]) -> list[str]:
        """What a rule can end in: drop, reject, queue, dnat, redirect, or the name of a chain that it jumps to."""
        found: list[str] = []
        for part in expr:
            if not isinstance(part, dict):
                continue
            if "drop" in part:
                found.append("drop")
            elif "reject" in part or part.get("xt", {}).get("name") in ("REJECT", "DROP"):
                found.append("reject")
            elif _queued(part):
                found.append("queue")
            elif end := next((end for end in _TRANSLATED if end in part or _target(part) == end.upper()), None):
                found.append(end)
            elif "jump" in part or "goto" in part:
                found.append(str((part.get("jump") or part["goto"])["target"]))
            elif "vmap" in part:
                for _, verdict in self.elements(part["vmap"]["data"]):
                    found += self.verdicts([verdict])
        return found

    def elements(self, data: Any) -> list[Any]:
        """The elements of a set or map, anonymous or named."""
        if isinstance(data, str) and data.startswith("@"):
            data = self.sets.get(data[1:], [])
        if isinstance(data, dict):
            data = data.get("set", [])
        return data if isinstance(data, list) else [data]

    def text(self, part: Any) -> str:
        """One part of a rule as nft would print it, without counters."""
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
        if kind == "reject":
            how = f" with {value.get('type')} {value.get('expr') or ''}".rstrip() if value else ""
            return f"reject{how}"
        if kind == "queue":
            return f"queue to {self.value(value['num'])}" if isinstance(value, dict) and "num" in value else "queue"
        if kind == "ct count":
            return f"ct count {'over ' if value.get('inv') else ''}{value.get('val')}"
        if kind in _TRANSLATED:
            where = value if isinstance(value, dict) else {}
            port = f":{self.value(where['port'])}" if "port" in where else ""
            return f"{kind} to {self.value(where.get('addr', ''))}{port}"
        if kind in ("jump", "goto"):
            return f"{kind} {value['target']}"
        if kind in _ARITHMETIC:
            return f" {kind} ".join(map(self.value, value))
        if kind == "vmap":
            return f"{self.text(value['key'])} vmap {self.value(value['data'])}"
        if kind == "xt":
            return str(value.get("name", "")) if isinstance(value, dict) else ""
        if kind == "limit" and isinstance(value, dict):
            return f"limit rate {'over ' if value.get('inv') else ''}{value.get('rate')}/{value.get('per')}"
        if kind in ("set", "meter") and isinstance(value, dict):
            return " ".join(filter(None, map(self.text, _listed(value.get("stmt")))))
        if kind == "mangle" and value["key"] == {"meta": {"key": "mark"}}:
            return "packet mark"
        return "" if kind in ("counter", "log", "comment") else kind

    def value(self, value: Any) -> str:
        """The right side of a match."""
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
            return ",".join(self.value(one) for one in value)
        return str(value)

    def element(self, one: Any) -> str:
        """One element of a set, or one pair of a verdict map."""
        if isinstance(one, list) and len(one) == 2 and isinstance(one[1], dict):
            return f"{self.value(one[0])} : {self.text(one[1])}"
        return self.value(one)


def _target(part: Mapping[str, Any]) -> str:
    """The target of a rule of iptables-nft, which nft does not print in its own words."""
    name = part.get("xt", {}).get("name") if isinstance(part.get("xt"), dict) else None
    return str(name or "")


def _queued(part: Mapping[str, Any]) -> bool:
    """Whether a program is asked what becomes of the packet: without one that listens it is dropped, but for a queue
    with the flag ``bypass`` (nft(8), QUEUE STATEMENT)."""
    if "queue" in part:
        flags = part["queue"].get("flags") if isinstance(part["queue"], dict) else None
        return "bypass" not in _listed(flags)
    return _target(part) == "NFQUEUE"


def _harmless(part: dict[str, Any]) -> bool:
    """Whether a match keeps new TCP connections between hosts away from its rule."""
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
        return set(values) <= _OTHER_PROTOCOLS
    return isinstance(left, dict) and left.get("payload", {}).get("protocol") in _OTHER_PROTOCOLS

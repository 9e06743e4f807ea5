"""The marks of nft's rules, out of ``nft --json list ruleset``. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from distdoctor.knowledge.marks import ALL, Chains, Change, Step, Way, all_of, both_ways, by_interface
from distdoctor.knowledge.nftables import NftTable, dormant
from distdoctor.knowledge.ruleset import BadRuleset
from distdoctor.model.facts import PacketMark

_FAMILIES = {4: ("ip", "inet"), 6: ("ip6", "inet")}
_INERT = ("counter", "log", "comment", "limit")


def nft_marks(text: str, port: int, interface: str | None) -> tuple[PacketMark, ...]:
    """What nft's rules mark. Raises BadRuleset."""
    try:
        return tuple(_nft(json.loads(text)["nftables"], port, interface))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def _nft(items: Sequence[dict[str, Any]], port: int, interface: str | None) -> Iterator[PacketMark]:
    tables, asleep = NftTable.all(items), dormant(items)
    bases = sorted((item["chain"] for item in items if "hook" in item.get("chain", {})), key=_priority)
    bases = [one for one in bases if (one["family"], one["table"]) not in asleep]
    for version, families in _FAMILIES.items():
        own = [one for one in bases if one["family"] in families]
        filters = [one for one in own if one["type"] == "filter"]
        into = [one for hook in ("prerouting", "input") for one in filters if one["hook"] == hook]
        out = [one for one in own if (one["hook"], one["type"]) == ("output", "route")]  # only these route anew
        if out:
            where = f"nft chain {out[-1]['family']} {out[-1]['table']} {out[-1]['name']}"
            way_in, way_out = (partial(_bases, tables, which) for which in (into, out))
            yield from both_ways(way_in, way_out, port, interface, version, where)


def _bases(
    tables: Mapping[tuple[str, str], NftTable], which: Sequence[Mapping[str, Any]], way: Way
) -> list[tuple[Chains, str]]:
    return [(_nft_steps(tables[one["family"], one["table"]], way), one["name"]) for one in which]


def _priority(chain: Mapping[str, Any]) -> int:
    priority = chain.get("prio")
    return priority if isinstance(priority, int) else 0


def _nft_steps(table: NftTable, way: Way) -> dict[str, list[Step]]:
    return {name: [_expression(table, one, way) for one in rules] for name, rules in table.chains.items()}


def _expression(table: NftTable, expr: Sequence[Any], way: Way) -> Step:
    parts = [part for part in expr if isinstance(part, dict)]
    held: list[bool | None] = []
    changes: list[Change] = []
    verdict, target = "", ""
    for kind, value in (next(iter(part.items())) for part in parts):
        if kind == "match":
            one = _nft_equals(table, value["left"], value["right"], way)
            held.append(one if one is None or value["op"] in ("==", "in") else not one if value["op"] == "!=" else None)
        elif kind == "mangle":
            change = _nft_change(value)
            if change is not None:
                changes.append(change)
            elif _key(value["key"]) in (("meta", "mark"), ("ct", "mark")):
                verdict = "unknown"
        elif kind in ("accept", "drop", "return"):
            verdict = verdict or kind
        elif kind in ("jump", "goto"):
            verdict, target = verdict or kind, str(value["target"])
        elif kind not in _INERT:
            verdict = "unknown"
    text = " ".join(filter(None, (table.text(part) for part in parts if "mangle" not in part)))
    text += " ".join(f" {one.of} mark set {_told(one)}" for one in changes)
    return Step(all_of(held), tuple(changes), verdict, target, text.strip())


def _told(change: Change) -> str:
    return hex(change.value) if isinstance(change.value, int) else f"{change.value}'s"


def _key(part: Any) -> tuple[str, str]:
    kind, value = next(iter(part.items())) if isinstance(part, dict) and part else ("", {})
    return kind, str(value.get("key", "")) if isinstance(value, dict) else ""


_OWNERS: dict[tuple[str, str], Literal["packet", "connection"]] = {
    ("meta", "mark"): "packet",
    ("ct", "mark"): "connection",
}


def _nft_change(mangle: Mapping[str, Any]) -> Change | None:
    """``meta mark set 0x1``, ``... set ct mark``, ``... set meta mark and 0xff or 0x10``; None: not known."""
    of, value = _OWNERS.get(_key(mangle["key"])), mangle["value"]
    if of is None:
        return None
    if isinstance(value, int):
        return Change(of, 0, value)
    if _key(value) in _OWNERS:
        return Change(of, 0, _OWNERS[_key(value)])
    added = 0
    if isinstance(value, dict) and "|" in value and isinstance(value["|"][1], int):
        value, added = value["|"]
    kept = ALL & ~added
    if isinstance(value, dict) and "&" in value and isinstance(value["&"][1], int):
        value, kept = value["&"][0], value["&"][1] & kept
    return Change(of, kept, added) if _OWNERS.get(_key(value)) == of else None


def _nft_equals(table: NftTable, left: Any, right: Any, way: Way) -> bool | None:
    values = table.elements(right) if isinstance(right, str | dict) else right
    values = values if isinstance(values, list) and values else [right]
    kind, value = next(iter(left.items())) if isinstance(left, dict) else ("", {})
    if kind == "payload" and value.get("protocol") in ("tcp", "th"):
        if value.get("field") == way.side:
            return any(_in(one, way.port) for one in values)
        return False if value.get("field") in ("dport", "sport") and all(isinstance(v, int) for v in values) else None
    if kind == "payload" and value.get("protocol") in ("udp", "icmp", "icmpv6", "sctp"):
        return False
    if kind == "payload" and value.get("field") in ("protocol", "nexthdr"):
        return any(one in ("tcp", "6", 6) for one in values)
    key = value.get("key") if isinstance(value, dict) else None
    if kind == "meta" and key == "l4proto":
        return any(one in ("tcp", "6", 6) for one in values)
    if kind == "meta" and key in ("iif", "iifname", "oif", "oifname"):
        return by_interface([str(one) for one in values], way)
    if kind == "ct" and key == "state":
        return ("new" if way.new else "established") in values
    if kind == "ct" and key == "direction":
        return ("original" if way.new else "reply") in values
    return None


def _in(one: Any, port: int) -> bool:
    low, high = one["range"] if isinstance(one, dict) and "range" in one else (one, one)
    return isinstance(low, int) and isinstance(high, int) and low <= port <= high

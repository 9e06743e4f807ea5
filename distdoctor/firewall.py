"""Packet filters: from a ruleset to the chains that can block, and from those to the commands that open them.

Pure. :func:`parse_nft_json` reads what ``nft -j list ruleset`` prints (rules made by iptables-nft are among them),
:func:`parse_iptables` what ``iptables-legacy-save`` prints; :func:`open_commands` writes the commands. Only chains
that see whole TCP connections between hosts count: base chains on the way in (hooks ingress, prerouting, input) and
out (output, postrouting).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from distdoctor.cluster import parse
from distdoctor.facts import Firewall, FirewallChain

Hook = Literal["input", "output"]
Direction = Literal["dport", "sport"]

_HOOKS: dict[str, Hook] = {
    "ingress": "input",
    "prerouting": "input",
    "input": "input",
    "output": "output",
    "postrouting": "output",
}
_FAMILIES = ("ip", "ip6", "inet", "netdev")
_BUILT_IN: dict[str, Hook] = {"PREROUTING": "input", "INPUT": "input", "OUTPUT": "output", "POSTROUTING": "output"}
_OPERATORS = {"==": "", "in": ""}
_OTHER_PROTOCOLS = {"udp", "icmp", "icmpv6", "ipv6-icmp", "igmp", "sctp", "udplite", 1, 2, 17, 58}


class BadRuleset(ValueError):
    """A ruleset that is not in the form its tool prints."""


def parse_nft_json(text: str) -> tuple[FirewallChain, ...]:
    """The base chains that can block, out of ``nft -j list ruleset``. Raises BadRuleset."""
    try:
        items = json.loads(text)["nftables"]
        return tuple(_nft_chains(items))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        raise BadRuleset(f"nft -j list ruleset: {type(err).__name__}: {err}") from None


def parse_iptables(text: str, tool: Literal["iptables", "ip6tables"]) -> tuple[FirewallChain, ...]:
    """The base chains that can block, out of ``iptables-legacy-save`` (or ip6tables'). Raises BadRuleset."""
    family = "ip" if tool == "iptables" else "ip6"
    found: list[FirewallChain] = []
    for table, policies, rules in _iptables_tables(text):
        if table not in ("filter", "raw", "mangle"):
            continue
        for chain, policy in policies.items():
            if chain not in _BUILT_IN:
                continue
            blocking = tuple(_iptables_blocking(chain, rules, policies, ()))
            if blocking or policy == "DROP":
                hook = _BUILT_IN[chain]
                found.append(FirewallChain(tool, family, table, chain, hook, policy.lower(), blocking))
    return tuple(found)


def concerns(chain: FirewallChain, port: int | None, way: Direction = "dport") -> bool:
    """Whether ``chain`` can block TCP packets whose destination port (or source port, by ``way``) is ``port``.

    By its policy, or by a rule that names that port or none at all. ``port`` None: any port.
    """
    if chain.policy != "accept":
        return True
    return any(_rule_concerns(rule, port, way) for rule in chain.blocking_rules)


def blocks(firewall: Firewall | None, hook: Hook, port: int | None, way: Direction = "dport") -> bool | None:
    """Whether a chain of ``hook`` can block that port (see :func:`concerns`); None: the rules were not readable."""
    if firewall is None or not firewall.readable:
        return None
    return any(chain.hook == hook and concerns(chain, port, way) for chain in firewall.chains)


def open_commands(firewall: Firewall | None, hook: Hook, peers: Sequence[str], port: int | None) -> tuple[str, ...]:
    """Commands that accept TCP between this host and ``peers`` in every chain that blocks it.

    ``hook`` input: connections from the peers to this host's ``port``; output: from this host to the peers' ``port``.
    ``port`` None: all ports. The way back of the same connections is opened too where a chain blocks it. Each command
    puts its rule first in its chain. Empty where the rules were not readable or none of them blocks.
    """
    if firewall is None or not firewall.readable:
        return ()
    commands = []
    for chain in firewall.chains:
        way: Direction = "dport" if chain.hook == hook else "sport"
        if not concerns(chain, port, way):
            continue
        for version in (4, 6):
            addresses = _of_version(peers, version)
            if addresses and chain.family in ("inet", "netdev", "ip" if version == 4 else "ip6"):
                commands.append(_command(chain, addresses, version, port, way))
    return tuple(commands)


def _of_version(peers: Iterable[str], version: int) -> list[str]:
    parsed = [address for peer in peers if (address := parse(peer)) is not None and address.version == version]
    return [str(address) for address in dict.fromkeys(parsed)]


def _command(chain: FirewallChain, peers: Sequence[str], version: int, port: int | None, way: Direction) -> str:
    side = "saddr" if chain.hook == "input" else "daddr"
    if chain.tool == "nft":
        place = " ".join(shlex.quote(part) for part in (chain.family, chain.table, chain.name))
        family = "ip" if version == 4 else "ip6"
        match = f"tcp {way} {port}" if port is not None else "meta l4proto tcp"
        # Braces are quoted: bash expands {a,b}. nft puts its arguments together again.
        return f"nft insert rule {place} {family} {side} '{{ {', '.join(peers)} }}' {match} accept"
    table = "" if chain.table == "filter" else f"-t {chain.table} "
    match = f" --{way} {port}" if port is not None else ""
    address = f"-{side[0]} {','.join(peers)}"
    return f"{chain.tool}-legacy {table}-I {shlex.quote(chain.name)} {address} -p tcp{match} -j ACCEPT"


def opening_port(firewall: Firewall | None, hook: Hook, port: int) -> int | None:
    """``port`` where rules for that port alone are what blocks; None where whatever blocks it blocks other ports too,

    so that the random ports of gloo and NCCL need opening with it.
    """
    for chain in firewall.chains if firewall else ():
        way: Direction = "dport" if chain.hook == hook else "sport"
        if not concerns(chain, port, way):
            continue
        rules = [rule for rule in chain.blocking_rules if _rule_concerns(rule, port, way)]
        if chain.policy != "accept" or not all(re.search(rf"\b{way}s?\s+{port}(?![\d:,-])", rule) for rule in rules):
            return None
    return port


def _rule_concerns(rule: str, port: int | None, way: Direction) -> bool:
    if port is None:
        return True
    # The last part of a chain of jumps is the rule that drops; the parts before it say who gets there.
    return all(_port_matches(part, port, way) for part in rule.split(" > "))


def _port_matches(rule: str, port: int, way: Direction) -> bool:
    other = "sport" if way == "dport" else "dport"
    match = re.search(rf"\b{way}s?\s+(!=\s*)?(\{{[^}}]*\}}|[\d:,-]+)", rule)
    if match is None:
        # A rule for one port number of the other side's range does not meet this packet, whose port there is random.
        return re.search(rf"\b{other}s?\s+\d", rule) is None
    if match[1] or "! --" in rule:
        return True
    ranges = re.findall(r"(\d+)(?:\s*[-:]\s*(\d+))?", match[2])
    return any(int(low) <= port <= int(high or low) for low, high in ranges)


# -- nft ------------------------------------------------------------------------------------------------------------


def _nft_chains(items: Sequence[dict[str, Any]]) -> Iterable[FirewallChain]:
    rules: dict[tuple[str, str, str], list[list[Any]]] = {}
    sets: dict[tuple[str, str, str], Any] = {}
    for item in items:
        if "rule" in item:
            rule = item["rule"]
            rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule["expr"])
        for kind in ("set", "map"):
            if kind in item:
                one = item[kind]
                sets[one["family"], one["table"], one["name"]] = one.get("elem", [])
    for item in items:
        chain = item.get("chain")
        if (
            not chain
            or chain.get("type") != "filter"
            or chain["family"] not in _FAMILIES
            or chain["hook"] not in _HOOKS
        ):
            continue
        family, table, name = chain["family"], chain["table"], chain["name"]
        policy = chain.get("policy", "accept")
        blocking = tuple(_Nft(family, table, rules, sets).blocking(name, ()))
        if blocking or policy == "drop":
            yield FirewallChain("nft", family, table, name, _HOOKS[chain["hook"]], policy, blocking)


class _Nft:
    """The rules of one table, as text."""

    def __init__(
        self,
        family: str,
        table: str,
        rules: dict[tuple[str, str, str], list[list[Any]]],
        sets: dict[tuple[str, str, str], Any],
    ) -> None:
        self.family, self.table, self.rules, self.sets = family, table, rules, sets

    def blocking(self, chain: str, above: tuple[str, ...]) -> list[str]:
        """The text of the rules of ``chain`` that drop or reject TCP, themselves or by a jump."""
        found = []
        for expr in self.rules.get((self.family, self.table, chain), []):
            if any(_harmless(part) for part in expr if isinstance(part, dict)):
                continue
            text = " ".join(filter(None, (self.text(part) for part in expr)))
            for verdict in self.verdicts(expr):
                if verdict in ("drop", "reject"):
                    found.append(text)
                elif verdict != chain and verdict not in above:
                    found += [f"{text} > {inner}" for inner in self.blocking(verdict, (*above, chain))]
        return list(dict.fromkeys(found))

    def verdicts(self, expr: Sequence[Any]) -> list[str]:
        """What a rule can end in: drop, reject, or the name of a chain that it jumps to."""
        found: list[str] = []
        for part in expr:
            if not isinstance(part, dict):
                continue
            if "drop" in part:
                found.append("drop")
            elif "reject" in part or part.get("xt", {}).get("name") in ("REJECT", "DROP"):
                found.append("reject")
            elif "jump" in part or "goto" in part:
                found.append(str((part.get("jump") or part["goto"])["target"]))
            elif "vmap" in part:
                for _, verdict in self.elements(part["vmap"]["data"]):
                    found += self.verdicts([verdict])
        return found

    def elements(self, data: Any) -> list[Any]:
        """The elements of a set or map, anonymous or named."""
        if isinstance(data, str) and data.startswith("@"):
            data = self.sets.get((self.family, self.table, data[1:]), [])
        if isinstance(data, dict):
            data = data.get("set", [])
        return data if isinstance(data, list) else [data]

    def text(self, part: Any) -> str:
        """One part of a rule as nft would print it, without counters."""
        if not isinstance(part, dict):
            return str(part)
        kind, value = next(iter(part.items()))
        if kind == "match":
            operator = _OPERATORS.get(value["op"], value["op"] + " ")
            return f"{self.text(value['left'])} {operator}{self.value(value['right'])}"
        if kind == "payload":
            return f"{value.get('protocol', '')} {value.get('field', 'payload')}".strip()
        if kind in ("meta", "ct"):
            return f"{kind} {value['key']}"
        if kind == "reject":
            how = f" with {value.get('type')} {value.get('expr') or ''}".rstrip() if value else ""
            return f"reject{how}"
        if kind in ("jump", "goto"):
            return f"{kind} {value['target']}"
        if kind == "vmap":
            return f"{self.text(value['key'])} vmap {self.value(value['data'])}"
        if kind == "xt":
            return str(value.get("name", "")) if isinstance(value, dict) else ""
        return "" if kind in ("counter", "log", "limit", "comment") else kind

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


# -- iptables -------------------------------------------------------------------------------------------------------


def _iptables_tables(text: str) -> Iterable[tuple[str, dict[str, str], dict[str, list[str]]]]:
    """(table, chain -> policy, chain -> its rules) for each table."""
    table, policies, rules = "", dict[str, str](), dict[str, list[str]]()
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("*"):
            table, policies, rules = line[1:], {}, {}
        elif match := re.match(r":(\S+)\s+(\S+)", line):
            policies[match[1]] = match[2]
        elif match := re.match(r"(?:\[\d+:\d+\]\s+)?-A (\S+)\s*(.*)", line):
            rules.setdefault(match[1], []).append(match[2])
        elif line == "COMMIT":
            yield table, policies, rules
        elif line and not line.startswith("#"):
            raise BadRuleset(f"iptables-save, line {number}: {line[:80]!r}")


def _iptables_blocking(
    chain: str, rules: dict[str, list[str]], policies: dict[str, str], above: tuple[str, ...]
) -> Iterable[str]:
    for rule in rules.get(chain, []):
        target = re.search(r"(?:-j|-g) (\S+)", rule)
        if target is None or _iptables_harmless(rule):
            continue
        if target[1] in ("DROP", "REJECT"):
            yield rule
        elif target[1] in policies and target[1] != chain and target[1] not in above:
            for inner in _iptables_blocking(target[1], rules, policies, (*above, chain)):
                yield f"{rule} > {inner}"


def _iptables_harmless(rule: str) -> bool:
    protocol = re.search(r"(?<!! )-p (\S+)", rule)
    if protocol and protocol[1] not in ("tcp", "all"):
        return True
    return bool(re.search(r"(?<!! )-[io] lo\b|(?<!! )--(?:ct)?state (?:INVALID|UNTRACKED)\b(?!,)", rule))

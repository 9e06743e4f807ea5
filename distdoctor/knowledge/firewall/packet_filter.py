"""Blocking rules of a packet filter, and the commands that open it.

The chains that can block are read by ``nftables`` (rules made by iptables-nft are among nft's) and ``iptables`` (the
legacy tools'). Only those count that see whole TCP connections between hosts: base chains on the way in (hooks ingress,
prerouting, input) and out (output, postrouting).
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import Firewall, FirewallChain, Passage

MOST_RULES = 300
"""Most rules of a chain that are kept."""
WAYS: tuple[Direction, ...] = ("dport", "sport")
_PORTS = {way: re.compile(rf"\b{way}s?\s+(!=\s*)?(\{{[^}}]*\}}|[\d:,-]+)") for way in WAYS}
_ONE_OF_OTHER = {"dport": re.compile(r"\bsports?\s+\d"), "sport": re.compile(r"\bdports?\s+\d")}
_NEW_ALONE = re.compile(
    r"\bct state (?:new|invalid|\{?[a-z, ]*\bnew\b)|--ctstate \S*(?:NEW|INVALID)|\bsyn\b", re.IGNORECASE
)
"""Match for the first packet of a connection: no reply meets it."""
_WIDE = 128
"""Fewest ports of a range that counts: a narrower one is shut for something else, and hardly ever met."""
_RANGE = re.compile(r"(\d+)(?:\s*[-:]\s*(\d+))?")


def concerns(chain: FirewallChain, port: int | None, way: Direction = "dport") -> bool:
    """Return whether ``chain`` can block TCP packets whose destination port (or source port, by ``way``) is ``port``.

    It blocks by its policy, or by a rule for that port or for all ports. ``port`` None: any port.
    """
    if chain.policy != "accept":
        return True
    return any(_rule_concerns(rule, port, way) for rule in chain.blocking_rules)


def with_few_rules(chain: FirewallChain, ports: Collection[int]) -> FirewallChain:
    """Return the chain with only the rules for these ports, and the first MOST_RULES of each kind.

    A chain with fewer rules is returned whole. A node of Kubernetes has some for every port of every service.
    """

    def kept(rules: tuple[str, ...]) -> tuple[str, ...]:
        if len(rules) <= MOST_RULES:
            return rules
        concern = (rule for rule in rules if any(_rule_concerns(rule, port, way) for port in ports for way in WAYS))
        return tuple(islice(concern, MOST_RULES))

    return replace(chain, blocking_rules=kept(chain.blocking_rules), limited=kept(chain.limited))


def blocks(firewall: Firewall | None, hook: FilterHook, port: int | None, way: Direction = "dport") -> bool | None:
    """Return whether a chain of ``hook`` can block that port (see :func:`concerns`), None if the rules were
    unreadable."""
    if firewall is None or not firewall.readable:
        return None
    return any(chain.hook == hook and concerns(chain, port, way) for chain in firewall.chains)


def shuts_answers(firewall: Firewall | None, picked: tuple[int, int]) -> list[tuple[FirewallChain, str]]:
    """Return the incoming rules that shut a range of the ports that the kernel picks for this host's own connections.

    ``picked``: ip_local_port_range. Replies to such a port are blocked, unless an earlier rule accepts established
    connections.
    """
    answers = []
    for chain in firewall.chains if firewall is not None else ():
        for rule in chain.blocking_rules if chain.hook == "input" else ():
            ports = _PORTS["dport"].search(rule)
            if ports is None or ports[1] or "! --" in rule or _NEW_ALONE.search(rule):
                continue
            parts = [(int(low), int(high or low)) for low, high in _RANGE.findall(ports[2])]
            if any(min(high, picked[1]) - max(low, picked[0]) >= _WIDE for low, high in parts):
                answers.append((chain, rule))
    return answers


def lets_through(firewall: Firewall | None, hook: FilterHook, others: Sequence[str], port: int | None) -> bool:
    """Return whether the rules certainly let connections from each of these addresses in to ``port`` (``hook`` input).

    With ``hook`` output: this host's connections to them. ``port`` None: any port that the kernel picks. False if
    unknown, and without addresses.
    """
    way = "in" if hook == "input" else "out"
    wanted = [parse_address(other) for other in others]
    rows = (
        [passage for passage in firewall.passages if (passage.way, passage.port) == (way, port)]
        if firewall is not None
        else []
    )
    return bool(wanted) and all(at is not None and any(_within(at, passage) for passage in rows) for at in wanted)


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, passage: Passage) -> bool:
    first, last = parse_address(passage.first), parse_address(passage.last)
    if first is None or last is None or first.version != address.version:
        return False
    return int(first) <= int(address) <= int(last)


def open_commands(
    firewall: Firewall | None, hook: FilterHook, peers: Sequence[str], port: int | None
) -> tuple[str, ...]:
    """Return commands that accept TCP between this host and ``peers`` (addresses or networks) in every chain that
    blocks it.

    ``hook`` input: connections from the peers to this host's ``port``; output: from this host to the peers' ``port``.
    ``port`` None: all ports. Replies are accepted, too, if a chain blocks them. Each command puts its rule first in its
    chain; for firewalld, the peers become trusted. Empty if the rules were unreadable or none of them blocks.
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
            if addresses and chain.family in ("inet", "netdev", "bridge", "ip" if version == 4 else "ip6"):
                commands.append(_command(chain, addresses, version, port, way))
    return tuple(dict.fromkeys(commands))


def _of_version(peers: Iterable[str], version: int) -> list[str]:
    parsed = [place for peer in peers if (place := _place(peer)) is not None and place.version == version]
    return [str(place) for place in dict.fromkeys(parsed)]


def _place(
    peer: str,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return an address or a network as a number, None for neither."""
    address = parse_address(peer)
    if address is not None or "/" not in peer:
        return address
    try:
        return ipaddress.ip_network(peer)
    except ValueError:
        return None


def _command(chain: FirewallChain, peers: Sequence[str], version: int, port: int | None, way: Direction) -> str:
    side = "saddr" if chain.hook == "input" else "daddr"
    if (chain.tool, chain.table, chain.hook) == ("nft", "firewalld", "input"):
        # firewalld owns its tables since 2.1 (flags owner): nft may not change them.
        return " ".join(("firewall-cmd --zone=trusted", *(f"--change-source={peer}" for peer in peers)))
    if chain.tool == "nft":
        place = " ".join(shlex.quote(part) for part in (chain.family, chain.table, chain.name))
        family = "ip" if version == 4 else "ip6"
        match = f"tcp {way} {port}" if port is not None else "meta l4proto tcp"
        # Braces are quoted: bash expands {a,b}. nft joins its arguments again.
        return f"nft insert rule {place} {family} {side} '{{ {', '.join(peers)} }}' {match} accept"
    table = "" if chain.table == "filter" else f"-t {chain.table} "
    match = f" --{way} {port}" if port is not None else ""
    address = f"-{side[0]} {','.join(peers)}"
    return f"{chain.tool}-legacy {table}-I {shlex.quote(chain.name)} {address} -p tcp{match} -j ACCEPT"


def opening_port(firewall: Firewall | None, hook: FilterHook, port: int) -> int | None:
    """Return ``port`` if only rules for that port block it.

    None if other ports are blocked, too, so that the random ports of gloo and NCCL must be opened with it.
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
    # The last part of a chain of jumps is the rule that drops; the parts before it select its packets.
    return all(_port_matches(part, port, way) for part in rule.split(" > "))


def _port_matches(rule: str, port: int, way: Direction) -> bool:
    match = _PORTS[way].search(rule)
    if match is None:
        # A rule for one port number of the other side does not match this packet, whose port there is random.
        return _ONE_OF_OTHER[way].search(rule) is None
    if match[1] or "! --" in rule:
        return True
    return any(int(low) <= port <= int(high or low) for low, high in _RANGE.findall(match[2]))


# Error of the readers of nft's and iptables' rulesets.


FilterHook = Literal["input", "output"]
Direction = Literal["dport", "sport"]


class BadRuleset(ValueError):
    """Ruleset that is not in the form that its tool prints."""

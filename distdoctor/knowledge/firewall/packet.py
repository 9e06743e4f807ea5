"""Verdict of a packet filter's chain on a new TCP connection of another host. Pure.

A match holds, does not hold, or is unknown: the other host and the incoming interface are not known. So a chain has
several possible ends, and shuts a port for certain only if none of them lets the packet through.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

How = Literal["drop", "reject", "reset"]
ALL_BITS = 0xFFFFFFFF
"""All bits of a packet's mark."""
Verdict = Literal["accept", "drop", "reject", "reset", "return", "jump", "goto", "elsewhere", ""]


@dataclass(frozen=True)
class Rule:
    """Rule, evaluated for this packet."""

    matches: bool | None
    """True, False, or None if unknown."""
    verdict: Verdict
    """Verdict; empty if the rule only counts or logs, ``elsewhere`` if another program or chain decides."""
    text: str = ""
    target: str = ""
    """Chain of a jump or goto."""
    mark: tuple[int, int] | None = None
    """Bits of the packet's mark that the rule keeps, and the mark that it sets in the others."""


@dataclass(frozen=True)
class Shut:
    """Refusal of a packet, and the rule that refuses it."""

    how: How
    text: str


@dataclass(frozen=True)
class FilteredPacket:
    """Packet between this host and another one, of a connection to ``port`` on either of them."""

    port: int
    way: Literal["in", "out"] = "in"
    reply: bool = False
    """True for a reply: it comes from the port rather than goes to it."""
    other: str | None = None
    """Address of the other host, None if unknown."""
    interface: str | None = None
    """Interface by which it comes or goes, None if unknown."""

    @property
    def state(self) -> str:
        """Return its state in connection tracking, in lower case."""
        return "established" if self.reply else "new"

    def has_port(self, side: str, holds: Callable[[int], bool]) -> bool | None:
        """Return whether this holds for its port on that side (``dport``, ``sport``); None for a port that the kernel
        picked."""
        return holds(self.port) if side == ("sport" if self.reply else "dport") else None

    def is_of(self, side: str, network: str) -> bool | None:
        """Return whether its address on that side (``saddr``, ``daddr``) is in a network, ``10.0.0.0/8``; None if
        unknown."""
        try:
            wanted = _network(network)
            if side != ("saddr" if self.way == "in" else "daddr"):
                return False if wanted.is_loopback else None
            return None if self.other is None else _address(self.other) in wanted
        except ValueError:
            return None

    def goes_by(self, side: str, pattern: str) -> bool | None:
        """Return whether its interface on that side (``in``, ``out``) has this name, which may end in ``*``."""
        if pattern == "lo":
            return False
        if side != self.way or self.interface is None:
            return None
        return self.interface == pattern or (pattern.endswith("*") and self.interface.startswith(pattern[:-1]))


@lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text, strict=False)


@lru_cache(maxsize=256)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


Chains = Mapping[str, Sequence[Rule]]
End = Shut | Literal["let through", "fallen through", "sent elsewhere"]


def shut(chain: str, chains: Chains, policy: str) -> Shut | None:
    """Return how a base chain refuses the packet for certain, None if it may let it through."""
    ends = _ends(chain, chains, ())
    refused = [end for end in ends if isinstance(end, Shut)]
    if "fallen through" in ends and policy == "drop":
        refused.append(Shut("drop", f"policy {policy}"))
    elif "fallen through" in ends:
        return None
    if "let through" in ends or "sent elsewhere" in ends or not refused:
        return None
    hows = {end.how for end in refused}
    # The last end is the one for packets that no earlier rule matches.
    return Shut(hows.pop() if len(hows) == 1 else "drop", refused[-1].text)


def may_pass(chain: str, chains: Chains) -> bool:
    """Return whether some rule of the chain may accept the packet, or send it elsewhere."""
    return not {"let through", "sent elsewhere"}.isdisjoint(_ends(chain, chains, ()))


def passes(chain: str, chains: Chains, policy: str) -> bool:
    """Return whether a base chain certainly lets the packet through to its destination."""
    through = {"let through"} if policy == "drop" else {"let through", "fallen through"}
    return through.issuperset(_ends(chain, chains, ()))


def mark_of(base_chains: Sequence[tuple[str, Chains]]) -> tuple[int, str] | None:
    """Return the mark on a packet after these base chains, and the last rule that set it.

    Each chain comes with its table's chains. None if unknown, as for a rule for some peer or user.
    """
    mark: tuple[int, str] = 0, ""
    for name, chains in base_chains:
        done = _marked(name, chains, mark, ())
        if done is None:
            return None
        mark = done[0]
    return mark


def _marked(
    chain: str, chains: Chains, mark: tuple[int, str], above: tuple[str, ...]
) -> tuple[tuple[int, str], bool] | None:
    """Return (the mark after the chain, whether the packet has passed the base chain), None if unknown."""
    if chain not in chains or chain in above or len(above) > 16:
        return None
    for rule in chains[chain]:
        if rule.matches is False or not (rule.verdict or rule.mark):
            continue
        if rule.matches is None or rule.verdict == "elsewhere":
            return None
        if rule.mark is not None:
            mark = (mark[0] & rule.mark[0]) ^ rule.mark[1], rule.text
        if rule.verdict in ("jump", "goto"):
            inner = _marked(rule.target, chains, mark, (*above, chain))
            if inner is None or inner[1] or rule.verdict == "goto":
                return inner
            mark = inner[0]
        elif rule.verdict:
            return mark, rule.verdict != "return"
    return mark, False


def _ends(chain: str, chains: Chains, above: tuple[str, ...]) -> list[End]:
    """Return every possible end of the packet in ``chain``, each once."""
    if chain not in chains or chain in above or len(above) > 16:
        return ["sent elsewhere"]
    ends_found: dict[End, None] = {}
    for rule in chains[chain]:
        if rule.matches is False or not rule.verdict:
            continue
        ends, goes_on = _taken(rule, chains, (*above, chain))
        ends_found.update(dict.fromkeys(ends))
        if rule.matches and not goes_on:
            return list(ends_found)
    ends_found["fallen through"] = None
    return list(ends_found)


def _taken(rule: Rule, chains: Chains, above: tuple[str, ...]) -> tuple[list[End], bool]:
    """Return the ends that the rule itself makes, and whether the next rule may apply all the same."""
    if rule.verdict == "accept":
        return ["let through"], False
    if rule.verdict == "elsewhere":
        return ["sent elsewhere"], False
    if rule.verdict == "return":
        return ["fallen through"], False
    if rule.verdict == "drop" or rule.verdict == "reject" or rule.verdict == "reset":
        return [Shut(rule.verdict, rule.text)], False
    inner = _ends(rule.target, chains, above)
    if rule.verdict == "goto":
        return inner, False
    return [end for end in inner if end != "fallen through"], "fallen through" in inner


# Rules that exempt packets from connection tracking, or track them in a zone: replies may then not be recognized
# (nft(8), notrack; iptables-extensions(8), CT).


_UNTRACKED = re.compile(r'notrack|--zone|"zone"|"name":\s?"CT"', re.IGNORECASE)
_RULES = re.compile(r'\n|(?=\{"rule")')
"""Separator of rules in iptables-save and in ``nft --json``."""
_UDP = re.compile(r'-p (?:udp|17) |"protocol":\s?"udp"|"l4proto"\}\},\s?"right":\s?"udp"')
_PORT = re.compile(r'--[ds]port (\d{1,5})(?![\d:])|"[ds]port"\}\},\s?"right":\s?(\d{1,5})\b')
_NOT = re.compile(r'! |"!="')


def untracks(text: str, port: int, picked: tuple[int, int] | None) -> bool:
    """Return whether a rule may do so with packets to or from ``port``, or a port that the kernel picks.

    Rules for UDP, or for one other port, such as a node's own DNS server, do not count.
    """
    first, last = picked or (port, port)

    def for_others(rule: str) -> bool:
        ports = (int(match[1] or match[2]) for match in _PORT.finditer(rule))
        others = any(number != port and not first <= number <= last for number in ports)
        return not _NOT.search(rule) and (others or bool(_UDP.search(rule)))

    return any(_UNTRACKED.search(rule) and not for_others(rule) for rule in _RULES.split(text))


# TCP ports that a packet filter lets in, if it shuts others.


PORTS = (1, 65535)
MOST_NUMBERS = 64
"""Most numbers in a ruleset for which its open ports are searched: each takes a walk through all rules."""
_NUMBER = re.compile(r"\b\d{1,5}\b")


def open_ranges(ruleset: str, shuts: Callable[[int], bool]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of ports that ``shuts`` does not shut, which can change only at numbers in the ruleset.

    Empty if there are too many of these.
    """
    named = {number for digits in _NUMBER.findall(ruleset) if PORTS[0] < (number := int(digits)) <= PORTS[1]}
    starts = sorted({PORTS[0], *named, *(number + 1 for number in named if number < PORTS[1])})
    if len(starts) > 2 * MOST_NUMBERS:
        return ()
    ranges: list[tuple[int, int]] = []
    for start, after in zip(starts, [*starts[1:], PORTS[1] + 1], strict=True):
        if shuts(start):
            continue
        if ranges and ranges[-1][1] == start - 1:
            ranges[-1] = (ranges[-1][0], after - 1)
        else:
            ranges.append((start, after - 1))
    return tuple(ranges)


# Addresses that a packet filter certainly lets in.


MOST_CELLS = 64
"""Most ranges of addresses between those in a ruleset that are tried one by one."""
_NAMED = re.compile(r'([0-9a-fA-F:.]*[:.][0-9a-fA-F:.]*)(?:/(\d{1,3})|",\s*"len":\s*(\d{1,3}))?')
"""Address or network, as iptables-save and nft's JSON print it."""


def open_sources(ruleset: str, version: int, lets_in: Callable[[str], bool]) -> tuple[tuple[str, str], ...]:
    """Return the ranges of addresses of IP ``version`` that ``lets_in`` accepts, which can change only at addresses in
    the ruleset.

    Empty if it has too many.
    """
    family = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    last = (1 << (32 if version == 4 else 128)) - 1
    starts = sorted({0, *(start for start in _starts(ruleset, version) if start <= last)})
    if len(starts) > MOST_CELLS:
        return ()
    ranges: list[tuple[int, int]] = []
    for start, after in zip(starts, [*starts[1:], last + 1], strict=True):
        if not lets_in(str(family(start))):
            continue
        if ranges and ranges[-1][1] == start - 1:
            ranges[-1] = (ranges[-1][0], after - 1)
        else:
            ranges.append((start, after - 1))
    return tuple((str(family(network)), str(family(other))) for network, other in ranges)


@lru_cache(maxsize=4)
def _starts(ruleset: str, version: int) -> tuple[int, ...]:
    return tuple(_network_edges(ruleset, version))


def _network_edges(ruleset: str, version: int) -> Iterator[int]:
    """Yield the first address of each network in the ruleset, and the one after its last."""
    for pair in {(match[1], match[2] or match[3]) for match in _NAMED.finditer(ruleset)}:
        try:
            network = ipaddress.ip_network("/".join(filter(None, pair)), strict=False)
        except ValueError:
            continue
        if network.version == version:
            yield int(network.network_address)
            yield int(network.broadcast_address) + 1

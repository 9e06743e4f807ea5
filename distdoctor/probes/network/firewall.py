"""Packet filter of this host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Literal

from distdoctor.knowledge.firewall.iptables import (
    iptables_marks,
    iptables_passes,
    iptables_proxied,
    iptables_shut,
    parse_iptables,
)
from distdoctor.knowledge.firewall.nftables import nft_marks, nft_passes, nft_proxied, nft_shut, opaque, parse_nft_json
from distdoctor.knowledge.firewall.packet import FilteredPacket, open_ranges, open_sources, untracks
from distdoctor.knowledge.firewall.packet_filter import with_few_rules
from distdoctor.model.facts import Firewall, FirewallChain, PacketMark, Passage, ShutPort

READ_SECONDS = 3.0
NFT = ("nft", "-j", "list", "ruleset")
_COUNTS = re.compile(r'"(?:handle|packets|bytes)":\s*\d+|\[\d+:\d+\]')
"""Numbers in a ruleset that are none of the rules' own."""
_DENIED = re.compile("Operation not permitted|Permission denied")
"""Errors of a root without CAP_NET_ADMIN, as in a container. Without tables of its own, iptables-legacy-save prints
nothing and ends well instead."""
_WITHOUT_TARGET = re.compile(r"\b(?:DNAT|REDIRECT|SNAT)$")
_PORT = re.compile(r"\b\d{4,5}\b")
MOST_PORTS = 8
"""Limit of the numbers in a ruleset among the ports that the kernel picks, beyond which these are not evaluated."""
LONGEST = 100_000
"""Limit of the characters of a ruleset, beyond which it is not evaluated for each source and port."""
ASKING_SECONDS = 0.5
"""Limit of processor time for the evaluation; after it, passages are unknown."""
IPTABLES: tuple[Literal["iptables", "ip6tables"], ...] = ("iptables", "ip6tables")


Marking = Callable[[int], tuple[PacketMark, ...]]
"""Marks that one ruleset sets on packets to and from a port."""
Shutting = Callable[[int], Iterable[ShutPort]]
"""Rules of one ruleset that block a port."""


@dataclass(frozen=True)
class Read:
    """One ruleset, and its evaluation."""

    text: str
    shutting: Shutting
    passes: Callable[[int, FilteredPacket], bool]
    """Return whether the ruleset passes a packet of an IP version for certain."""


UNREAD = Read("", lambda port: (), lambda version, packet: False)
"""Rules of which nothing is known."""


@dataclass
class _Rules:
    """Rules of this host, as far as they are understood, for one port and the ports that the kernel picks."""

    port: int
    picked: tuple[int, int] | None
    interface: str | None
    chains: list[FirewallChain] = field(default_factory=list)
    read: list[Read] = field(default_factory=list)
    marks: list[PacketMark] = field(default_factory=list)
    proxied: list[str] = field(default_factory=list)

    def add_nft(self, ruleset: str) -> None:
        """Add the ruleset of nft."""
        with suppress(ValueError):
            self.chains += _with_targets(parse_nft_json(ruleset))
            self.proxied += nft_proxied(ruleset)
            self.read += _of_nft(ruleset)
            self.marks += _marks(_nft_marks(ruleset, self.interface), self.port, self.picked, ruleset)

    def add_legacy(self, saved: str, tool: Literal["iptables", "ip6tables"]) -> None:
        """Add the rules of iptables-legacy."""
        with suppress(ValueError):
            self.chains += parse_iptables(saved, tool)
            self.proxied += iptables_proxied(saved)
            self.read.append(_of_iptables(saved, tool))
            marking = partial(iptables_marks, saved, tool, interface=self.interface)
            self.marks += _marks(marking, self.port, self.picked, saved)

    def shutting(self, number: int) -> tuple[ShutPort, ...]:
        """Return the rules that block a port. Raises ValueError."""
        return tuple(rule for ruleset in self.read for rule in ruleset.shutting(number))

    def open_ports(self) -> tuple[tuple[int, int], ...]:
        """Return the open ports, if a port among those that the kernel picks is blocked. Raises ValueError."""

        def shuts(number: int) -> bool:
            return any(rule.version == 4 for rule in self.shutting(number))

        if self.picked is None or not any(map(shuts, (self.picked[0], sum(self.picked) // 2, self.picked[1]))):
            return ()
        return open_ranges(" ".join(ruleset.text for ruleset in self.read), shuts)


def firewall(port: int, picked: tuple[int, int] | None = None, interface: str | None = None) -> Firewall:
    """Return the packet filter of this host, if this user may read it.

    It has the chains that can block packets in or out; those that block ``port``; the open ports if they block ports of
    ``picked``, the range that the kernel picks from; and the marks of packets to or from ``port`` and those of
    ``picked``. ``interface``: the only one by which others are reached, if there is one.
    """
    if os.geteuid() != 0:
        return Firewall(False, "only root may read the firewall's rules")
    rules = _Rules(port, picked, interface)
    try:
        ruleset, saved_by = _output_of(*NFT), {tool: _output_of(f"{tool}-legacy-save") for tool in IPTABLES}
    except PermissionError:
        return Firewall(False, "root may not read the firewall's rules without CAP_NET_ADMIN, as in a container")
    if ruleset is not None:
        rules.add_nft(ruleset)
    for tool, saved in saved_by.items():
        if saved is not None:
            rules.add_legacy(saved, tool)
    if not rules.read:
        return Firewall(False, "neither nft nor iptables can be run here")
    ports = {port, *picked, sum(picked) // 2} if picked is not None else {port}
    chains = tuple(with_few_rules(chain, ports) for chain in rules.chains)
    try:
        open_ports, shut = rules.open_ports(), rules.shutting(port)
    except ValueError:
        return Firewall(True, chains=chains, proxied=tuple(rules.proxied))
    free: tuple[Passage, ...] = ()
    if chains and ruleset is not None:
        with suppress(ValueError):
            free = tuple(_passages(rules.read, port, picked, interface))
    return Firewall(True, None, chains, shut, open_ports, tuple(rules.marks), free, tuple(rules.proxied))


def _passages(read: list[Read], port: int, picked: tuple[int, int] | None, interface: str | None) -> Iterator[Passage]:
    """Yield the passages of all rulesets to ``port`` and to any port of ``picked``; none if unknown."""
    text = " ".join(ruleset.text for ruleset in read)
    if len(text) > LONGEST or untracks(text, port, picked):
        return
    named = {number for digits in _PORT.findall(text) for number in (int(digits), int(digits) + 1)}
    inside = [number for number in named if picked is not None and picked[0] <= number <= picked[1]]
    wanted: list[tuple[int | None, set[int]]] = [(port, {port})]
    if picked is not None and len(inside) <= MOST_PORTS:
        wanted.append((None, {*picked, *inside}))
    directions: tuple[Literal["in", "out"], ...] = ("in", "out")
    until = time.thread_time() + ASKING_SECONDS
    for direction, version, (one_port, numbers) in product(directions, (4, 6), wanted):
        made = partial(_passes_both_ways, read, until, direction, version, numbers, interface)
        yield from (Passage(direction, *ends, port=one_port) for ends in open_sources(text, version, made))


def _passes_both_ways(
    read: list[Read],
    until: float,
    direction: Literal["in", "out"],
    version: int,
    ports: set[int],
    interface: str | None,
    other: str,
) -> bool:
    """Return whether connections in that direction with the ``other`` address pass: their requests and their answers.

    Raises ValueError if this thread has used the processor until ``until``.
    """
    if time.thread_time() > until:
        raise ValueError("too many rules")
    back: Literal["in", "out"] = "out" if direction == "in" else "in"
    packets = [
        FilteredPacket(port, side, reply, other, interface)
        for port in ports
        for side, reply in ((direction, False), (back, True))
    ]
    return all(ruleset.passes(version, packet) for packet in packets for ruleset in read)


def _with_targets(chains: Iterable[FirewallChain]) -> Iterator[FirewallChain]:
    """Yield the chains with iptables-nft-save's text of those of iptables-nft that redirect packets: nft does not show
    the target."""
    saved: dict[str, tuple[FirewallChain, ...]] = {}
    for chain in chains:
        tool: Literal["iptables", "ip6tables"] = "ip6tables" if chain.family == "ip6" else "iptables"
        if chain.table == "nat" and any(map(_WITHOUT_TARGET.search, chain.blocking_rules)):
            if tool not in saved:
                with suppress(ValueError, PermissionError):  # nft has listed the chains all the same
                    saved[tool] = parse_iptables(_output_of(f"{tool}-nft-save", "-t", "nat") or "", tool)
            rules = next(
                (saved_chain.blocking_rules for saved_chain in saved.get(tool, ()) if saved_chain.name == chain.name),
                (),
            )
            yield replace(chain, blocking_rules=rules or chain.blocking_rules)
        else:
            yield chain


def _of_nft(ruleset: str) -> Iterator[Read]:
    """Yield the rulesets. nft does not show the matches of tables with iptables' modules; iptables-nft does."""
    text = _COUNTS.sub("", ruleset)
    other = (("ip", "filter"), ("ip6", "filter")) if opaque(ruleset) else ()
    yield Read(
        text,
        lambda port: nft_shut(ruleset, port, but=other),
        lambda version, packet: nft_passes(ruleset, version, packet, but=other),
    )
    for tool in IPTABLES if other else ():
        saved = _output_of(f"{tool}-nft-save", "-t", "filter")
        yield UNREAD if saved is None else _of_iptables(saved, tool)


def _marks(of: Marking, port: int, picked: tuple[int, int] | None, text: str) -> tuple[PacketMark, ...]:
    """Return the marks of packets to and from ``port``; and to and from the first and the last of ``picked``, if those
    and a port between them have the same: then all have."""
    if picked is None or len(text) > LONGEST:
        return of(port)
    first, middle, last = map(of, (picked[0], sum(picked) // 2, picked[1]))
    alike = {*map(_kind, first)} & {*map(_kind, middle)} & {*map(_kind, last)}
    return (*of(port), *(mark for mark in (*first, *last) if _kind(mark) in alike))


def _kind(mark: PacketMark) -> tuple[str, int, int]:
    return mark.side, mark.version, mark.mark


def _nft_marks(ruleset: str, interface: str | None) -> Marking:
    if not opaque(ruleset):
        return partial(nft_marks, ruleset, interface=interface)
    tables = [(tool, _output_of(f"{tool}-nft-save", "-t", "mangle")) for tool in IPTABLES]
    saved = [(tool, text) for tool, text in tables if text is not None]
    return lambda port: tuple(mark for tool, text in saved for mark in iptables_marks(text, tool, port, interface))


def _of_iptables(saved: str, tool: Literal["iptables", "ip6tables"]) -> Read:
    version = 4 if tool == "iptables" else 6
    return Read(
        _COUNTS.sub("", saved),
        lambda port: iptables_shut(saved, tool, port),
        lambda asked, packet: asked != version or iptables_passes(saved, packet),
    )


def _output_of(*command: str) -> str | None:
    """Return a command's output; None if it is missing, fails, or takes too long.

    Raises PermissionError if it may not read the rules: another tool's rules are then incomplete.
    """
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *command[1:]],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
            timeout=READ_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode and _DENIED.search(done.stderr):
        raise PermissionError(done.stderr)
    return done.stdout if done.returncode == 0 else None

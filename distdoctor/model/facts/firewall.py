"""Facts about the packet filter of a host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_PORTS = re.compile(r"(! --)?\bdports?\s+(!=\s*)?(\{[^}]*\}|[@\w:,-]+)")
_BY_CHANCE = re.compile(r"numgen|statistic|random|limit rate|hashlimit")
_BY_RATE = re.compile(r"\b(?:hash)?limit\b|\brecent\b")


@dataclass(frozen=True)
class FirewallChain:
    """One chain on the way in or out of this host that can drop packets."""

    tool: Literal["nft", "iptables", "ip6tables"]
    family: str
    table: str
    name: str
    hook: Literal["input", "output"]
    policy: str = "accept"
    blocking_rules: tuple[str, ...] = ()
    """The text of its rules that drop or reject."""
    limited: tuple[str, ...] = ()
    """The text of its rules that let in only so many connections, at once or in a time: the rest go on to those, or to
    its policy."""

    @property
    def by_chance(self) -> tuple[str, ...]:
        """Those of its rules that drop some packets and not others that are like them, on whatever port."""
        chance = (rule for rule in self.blocking_rules if _BY_CHANCE.search(rule))
        return tuple(rule for rule in chance if not self.single_ports(rule))

    @property
    def by_rate(self) -> tuple[str, ...]:
        """Rules that let in only so many new connections in a time, on whatever port: later SYNs get through."""
        rates = (rule for rule in (*self.blocking_rules, *self.limited) if _BY_RATE.search(rule))
        return tuple(rule for rule in rates if not self.single_ports(rule))

    @staticmethod
    def single_ports(rule: str) -> list[str]:
        """The ports that a rule is for, as it names them, where they are single ones (ssh's), and no range of them nor
        all others."""
        named = [ports for *but, ports in _PORTS.findall(rule) if not any(but)]
        return [
            port for ports in named if not re.search(r"\d\s*[-:]\s*\d", ports) for port in re.findall(r"[@\w-]+", ports)
        ]


@dataclass(frozen=True)
class ShutPort:
    """A chain of this host that lets no new connection of another host in to a port, whichever host that is."""

    port: int
    version: int
    """Of IP: 4 or 6."""
    how: Literal["drop", "reject", "reset"]
    """No answer; an ICMP error; a TCP reset, as where nobody listens."""
    rule: str
    """The chain, and its rule that does it."""


@dataclass(frozen=True)
class Passage:
    """Other hosts' addresses between which and this host the packet filter lets connections be made, by all that is
    known of its rules: what asks for them, and what answers."""

    way: Literal["in", "out"]
    """They connect to the port here; this host connects to it there."""
    first: str
    last: str
    port: int | None = None
    """None: each port that the kernel may pick (net.ipv4.ip_local_port_range)."""


@dataclass(frozen=True)
class PacketMark:
    """The mark that this host's packet filter puts on what it sends from or to a port, whichever host it is for."""

    port: int
    side: Literal["dport", "sport"]
    """It goes to that port; it comes from it, as the answers of a store do."""
    version: int
    """Of IP: 4 or 6."""
    mark: int
    rule: str
    """The chain, and its rule that does it."""


@dataclass(frozen=True)
class Firewall:
    """The packet filter of this host, as far as this user may read it."""

    readable: bool
    why_not: str | None = None
    chains: tuple[FirewallChain, ...] = ()
    """Only chains that can block: a policy of drop, or a rule that drops or rejects."""
    shut: tuple[ShutPort, ...] = ()
    """The chains that shut MASTER_PORT for every other host, by all that is known of their rules."""
    open_ports: tuple[tuple[int, int], ...] = ()
    """Where it shuts ports of net.ipv4.ip_local_port_range for every other host (IPv4): the ranges of TCP ports that
    it does not shut. Empty where it shuts none of these, or where that is not known."""
    marks: tuple[PacketMark, ...] = ()
    """What it marks of the packets to and from MASTER_PORT; and to and from the first and the last port of
    net.ipv4.ip_local_port_range, where it marks those of all ports between them so."""
    passages: tuple[Passage, ...] = ()
    """What it lets through for certain, though it has chains that can block; empty where it has none, or where that is
    not known."""
    proxied: tuple[str, ...] = ()
    """The rules by which a port of this host gets what it sends to all ports of others, as those of a service mesh."""

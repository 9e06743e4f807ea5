"""How this host sends: its routing tables, the rules that choose among them, and its policies of IPsec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Route:
    """How this node would send to ``target``: the source address and interface that the kernel picks."""

    target: str
    source: str | None = None
    interface: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class NextHop:
    """One of several next hops of a route."""

    gateway: str | None
    """None: the network is on the interface's own link."""
    interface: str | None


@dataclass(frozen=True)
class TableRoute:
    """One entry of the routing table."""

    network: str
    """``10.77.0.0/24``; ``0.0.0.0/0`` is the default route."""
    gateway: str | None
    """None: the network is on the interface's own link."""
    interface: str | None
    reject: bool = False
    """Packets are not sent but refused, or dropped (``ip route add unreachable``, ``prohibit``, ``blackhole``)."""
    rule: str = ""
    """The rule of policy routing that leads to it, as ``ip rule`` takes it; empty where that is one of every host's."""
    marked: str = ""
    """The rule of the packet filter for whose mark that rule of policy routing is; empty where it is for none."""
    next_hops: tuple[NextHop, ...] = ()
    """Where there are several (ECMP), all of them; ``gateway`` and ``interface`` are the first one's. Empty where there
    is one. The kernel picks one for each pair of addresses, or for each connection (fib_multipath_hash_policy 0 and 1
    of net.ipv4), whether or not anybody answers there."""
    throws: bool = False
    """It is no way: the next rule of policy routing is asked (``ip route add throw``)."""


@dataclass(frozen=True)
class PolicyRule:
    """A rule of policy routing that comes before the main table, in the kernel's order (``ip rule``).

    Only what is known by a packet's addresses, ports and mark: a rule for another user or for what comes from other
    hosts is not listed.
    """

    version: int
    """Of IP: 4 or 6."""
    text: str
    """As ``ip rule`` takes it: ``from 10.77.0.11 ipproto tcp dport 29500 lookup 100``."""
    source: str = ""
    """The network that packets come from; empty: any."""
    target: str = ""
    source_ports: tuple[int, int] | None = None
    target_ports: tuple[int, int] | None = None
    mark: tuple[int, int] | None = None
    """(value, mask): the packets with this mark (``fwmark``)."""
    reject: bool = False
    """Packets are refused or dropped by the rule itself."""
    routes: tuple[TableRoute, ...] = ()
    """The table that it leads to, best metric first, without the routes that it passes over
    (``suppress_prefixlength``)."""
    inverted: bool = False
    """It is about the packets that are not all that it says (``not``)."""
    main: bool = False
    """The table that it leads to is the main one."""


@dataclass(frozen=True)
class IpsecPolicy:
    """What IPsec does with the packets between two networks (``ip xfrm policy``); the first that is for one counts."""

    way: Literal["in", "out"]
    version: int
    """Of IP: 4 or 6."""
    source: str
    """``10.77.0.11/32``; ``0.0.0.0/0`` is any."""
    target: str
    source_port: int | None = None
    """None: any."""
    target_port: int | None = None
    tcp: bool = False
    """It is for TCP alone."""
    block: bool = False
    """The packets are dropped."""
    lacks: bool = False
    """They are to be encrypted or signed, and there is no association that could: the kernel drops what it is to send
    so, and what comes otherwise."""

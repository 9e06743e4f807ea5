"""Facts of a node's network: the master, routes, packet filter, IPsec, and the links to the other nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from distdoctor.model.facts.host import AddressChoice, HostsLine, Resolution
from distdoctor.model.plan import Plan

ConnectOutcome = Literal[
    "open",  # the connection was made
    "refused",  # ECONNREFUSED: nothing listens there, or a firewall resets
    "reset",  # connected, then reset or closed before anything was read
    "no-answer",  # no packet came back before the deadline
    "rejected",  # an ICMP error came back at once: a firewall answered
    "unreachable",  # no route, or nobody answers ARP/ND for the address
    "wrong-node",  # connected, but another process than the one meant answered
    "stalled",  # connected and small payloads pass, but larger ones never arrive
    "error",  # anything else; see errno
]


NeighbourState = Literal[
    "answers",  # a host answers for the address: it is up, on this link
    "silent",  # nobody does
    "",  # not known: it did before, or what answers does so for other addresses as well
]
AnswerKind = Literal["distdoctor", "tcpstore", "silent", "closed", "foreign"]


@dataclass(frozen=True)
class Contact:
    """One attempt to connect to address:port and its result."""

    address: str
    port: int
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False
    """True if an ICMP error, hence a router or firewall and not the host's TCP, gave the answer."""
    icmp_from: str = ""
    """Address that sent it (SO_EE_OFFENDER, ip(7)): one of this host's own if its own filter rejects."""

    @property
    def answered(self) -> bool:
        """True if something answers for the host, if only to refuse: the path works in both directions."""
        return self.outcome in ("open", "refused", "reset")


@dataclass(frozen=True)
class Answer:
    """Answer of an open port to the handshakes that are safe for a live TCPStore."""

    kind: AnswerKind
    generation: str | None = None
    """For a TCPStore: ``2.5+``, ``2.2-2.4`` or ``<=2.1``."""
    sample: str = ""
    """First printable bytes of another service's answer, at most 80."""
    empty: bool = False
    """True for a TCPStore without a single key until this node stopped waiting: its host has not begun to use it."""


@dataclass(frozen=True)
class PortHolder:
    """Process that has a port of this host. Fields are None if the OS does not show them to this user."""

    address: str
    pid: int | None = None
    name: str | None = None
    user: str | None = None
    peer: str = ""
    """Without a listener: the other end (``address:port``) of a connection whose own end has the port."""
    hosts_store: bool = False
    """True if it listens there, and has a thread that serves a TCPStore: it belongs to a job, whether or not that store
    answers."""


@dataclass(frozen=True)
class Bind:
    """Attempt to bind a port: node 0's for the TCPStore on MASTER_PORT, or a node's for its engine."""

    ok: bool
    port: int
    errno: int | None = None
    error: str | None = None
    holders: tuple[PortHolder, ...] = ()
    answer: Answer | None = None
    """Answer on the port, if the bind failed because it is in use."""
    free_port: int | None = None
    """Port that can be bound, for the fix."""
    after: float = 0.0
    """Seconds from this process's start until the store was there."""
    files: tuple[int, int] | None = None
    """Open descriptors of the store's process and their limit, if none was left."""


@dataclass(frozen=True)
class Neighbour:
    """State of the next host on the route to an address, by the kernel (ARP; IPv6: neighbour discovery)."""

    address: str
    interface: str
    state: NeighbourState
    gateway: bool = False
    """True if it is the gateway on the route, not the host itself."""


@dataclass(frozen=True)
class HardwareAddress:
    """Hardware address that answered for an address of this host's own network (ARP; IPv6: neighbour discovery)."""

    address: str
    mac: str
    interface: str
    permanent: bool = False
    """True if nobody answered: it was written there by hand, and stays (``ip neigh add ... nud permanent``, ``arp
    -s``)."""


@dataclass(frozen=True)
class NeighbourTable:
    """Kernel's table of hardware addresses without room for one more host. Containers share it."""

    version: int
    """IP version: 4 or 6."""
    most: int
    """Limit of its entries (``gc_thresh3``); 0: unknown."""
    refused: int
    """Number of refused entries while the links were tried."""


@dataclass(frozen=True)
class InterfaceContact:
    """Result of a connection to the master's port by another interface than the one that the routes name."""

    interface: str
    contact: Contact


@dataclass(frozen=True)
class StoreOnOtherPort:
    """Store of a check that waits for a node, on another port of the master's host than this node's MASTER_PORT."""

    address: str
    port: int
    host: str
    """Hostname by the host itself."""
    plan: Plan
    """Plan of the node 0 that is there."""


@dataclass(frozen=True)
class LateConnections:
    """Connections that the ranks of this node opened to one address, some of which needed more than one SYN."""

    address: str
    opened: int
    """Number of connections."""
    late: int
    """Number of connections without an answer to their first SYN."""
    repeated: int
    """Retransmitted SYNs of all connections."""
    established: int = 0
    """Number of connections that were answered."""


@dataclass(frozen=True)
class ServerContact:
    """Attempt to reach a server that the ranks of an engine ask at their start."""

    host: str
    port: int
    resolution: Resolution | None = None
    """Look-up of the host; None for an address."""
    contact: Contact | None = None
    """Result at its last tried address; None: it has none, or the time was over."""
    holders: tuple[PortHolder, ...] = ()
    """Processes that listen on this port of this node, if it was not reached."""


@dataclass(frozen=True)
class NetworkFacts:
    """Names, routes and the master's port, as seen from this node."""

    master: Resolution | None = None
    master_is_own: bool | None = None
    """True if an address of MASTER_ADDR is on an interface of this host; None if it did not resolve."""
    route: Route | None = None
    primary: AddressChoice | None = None
    """Address by which the others reach this node: the source of its route to the master, or for the owner of
    MASTER_ADDR that address itself. None on a node that uses loopback only."""
    bind: Bind | None = None
    engine_binds: tuple[Bind, ...] = ()
    """Ports of the plan's engine that cannot be bound on this node."""
    engine_servers: tuple[ServerContact, ...] = ()
    """Attempts to reach the servers of the plan's engine."""
    contact: Contact | None = None
    """Last attempt to reach MASTER_ADDR:MASTER_PORT."""
    refused_before: bool = False
    """True if an earlier attempt of this run was refused, so that no filter dropped all packets then."""
    passed_over: tuple[Contact, ...] = ()
    """Failed attempts just before it, on addresses of MASTER_ADDR that a TCPStore tries first."""
    control: Contact | None = None
    """Attempt on a port of the same host that should be closed: a refusal shows that the host is up and not silent."""
    answer: Answer | None = None
    """Answer on MASTER_ADDR:MASTER_PORT, if it was open."""
    master_name: str | None = None
    """Name of MASTER_ADDR's address in /etc/hosts, if it is not this host's own."""
    own_port: Contact | None = None
    """Result of a connection of this host to a port of its own, at the address that gloo will pick; None if not
    tried."""
    firewall: Firewall | None = None
    late_connections: tuple[LateConnections, ...] = ()
    """Read if the ranks' stage store or gloo took as long as a retransmitted SYN (1 s); else empty."""
    resolved_after: float = 0.0
    """Seconds after which MASTER_ADDR had an address, if it had none at first; else 0."""
    reverse: Resolution | None = None
    """Reverse look-up of the master's address, which every store client makes (``addresses`` holds the name)."""
    rendezvous_name: Resolution | None = None
    """Name by which torchrun's ranks will look up their store, as it resolves here; None if not looked up."""
    rendezvous_contact: Contact | None = None
    """Connection to a listener of that node by its name; None if not tried."""
    routes: tuple[TableRoute, ...] | None = None
    """Main routing table; None if it was not read, or is too long for a node's."""
    policy: tuple[PolicyRule, ...] = ()
    """Rules before the main routing table, in the kernel's order."""
    ipsec: tuple[IpsecPolicy, ...] = ()
    """Policies of IPsec, read as ``hardware_addresses`` if a route to another node failed; empty if this user may not
    read them."""
    strict: tuple[str, ...] = ()
    """Interfaces whose rp_filter is strict: they drop packets whose answer would leave by another interface."""
    intercepted: tuple[int, ...] = ()
    """Unserved ports of the master's host on which connections were accepted all the same, tried if the listener on
    MASTER_PORT gave no answer. Empty if one of them was not accepted."""
    intercepted_here: bool = False
    """True if the other end of these connections is a socket of this host."""
    hardware_addresses: tuple[HardwareAddress, ...] = ()
    """Hardware addresses of the own networks, read at the last attempt to reach the master, or after a failed link.
    Empty if the table was not read or is too long for a node's."""
    unanswered: tuple[HardwareAddress, ...] = ()
    """Addresses for which nobody answered there, with the interface and no hardware address, read at these times and on
    node 0 at the end of the rendezvous."""
    neighbour_table: NeighbourTable | None = None
    """None: there was room, or that is unknown, as in a container."""
    other_ways: tuple[InterfaceContact, ...] = ()
    """Results by each other interface that has the master's address in its own network, too, if nothing answered."""
    master_lines: tuple[HostsLine, ...] = ()
    """Lines of /etc/hosts that name MASTER_ADDR, if it does not resolve all the same, or nobody is there."""
    neighbour: Neighbour | None = None
    """Next host on the route to MASTER_ADDR, if nothing answered a connection there."""
    elsewhere: StoreOnOtherPort | None = None
    """Store on another port that may be this run's, while nothing listens on MASTER_PORT."""

    @property
    def let_through(self) -> bool:
        """True if an earlier attempt of this run reached MASTER_PORT, so that no filter dropped all packets then.

        Silence after it may be that of a process that accepts none of its connections: once its backlog is full, the
        kernel drops further SYNs (tcp_abort_on_overflow in the kernel's ip-sysctl.rst).
        """
        return self.refused_before or (self.answer is not None and self.answer.kind == "silent")


# Packet filter of a host.


_PORTS = re.compile(r"(! --)?\bdports?\s+(!=\s*)?(\{[^}]*\}|[@\w:,-]+)")
_BY_CHANCE = re.compile(r"numgen|statistic|random|limit rate|hashlimit")
_BY_RATE = re.compile(r"\b(?:hash)?limit\b|\brecent\b")
_RATE = re.compile(r"(?:\blimit rate (?:over )?|--limit |--hashlimit-(?:above|upto) )(\d{1,9})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class FirewallChain:
    """One chain for packets in or out of this host that can drop some."""

    tool: Literal["nft", "iptables", "ip6tables"]
    family: str
    table: str
    name: str
    hook: Literal["input", "output"]
    policy: str = "accept"
    blocking_rules: tuple[str, ...] = ()
    """Texts of its rules that drop or reject."""
    limited: tuple[str, ...] = ()
    """Texts of its rules that limit connections, at once or per time: the others reach the blocking rules, or its
    policy."""

    @property
    def by_chance(self) -> tuple[str, ...]:
        """Rules that drop some packets and not others like them, on whatever port."""
        chance = (rule for rule in self.blocking_rules if _BY_CHANCE.search(rule))
        return tuple(rule for rule in chance if not self.single_ports(rule))

    @property
    def by_rate(self) -> tuple[str, ...]:
        """Rules that limit new connections per time, on whatever port: later SYNs get through."""
        rates = (rule for rule in (*self.blocking_rules, *self.limited) if _BY_RATE.search(rule))
        return tuple(rule for rule in rates if not self.single_ports(rule))

    @staticmethod
    def connections_per_second(rule: str) -> float | None:
        """Return the new connections per second that a rule lets through, None if it does not show a rate."""
        rates = [int(number) / _SECONDS[unit] for number, unit in _RATE.findall(rule)]
        return min(rates, default=None)

    @staticmethod
    def single_ports(rule: str) -> list[str]:
        """Return the ports of a rule as it names them, if they are single ones (ssh's), and no range nor an
        exclusion."""
        named = [ports for *but, ports in _PORTS.findall(rule) if not any(but)]
        return [
            port for ports in named if not re.search(r"\d\s*[-:]\s*\d", ports) for port in re.findall(r"[@\w-]+", ports)
        ]


@dataclass(frozen=True)
class ShutPort:
    """Chain of this host that blocks all new connections of other hosts to a port."""

    port: int
    version: int
    """IP version: 4 or 6."""
    how: Literal["drop", "reject", "reset"]
    """No answer; an ICMP error; a TCP reset, as without a listener."""
    rule: str
    """Chain, and its blocking rule."""


@dataclass(frozen=True)
class Passage:
    """Range of other hosts' addresses whose connections the packet filter passes in both directions, by all known
    rules."""

    way: Literal["in", "out"]
    """``in``: they connect to the port here; ``out``: this host connects to it there."""
    first: str
    last: str
    port: int | None = None
    """None: each port that the kernel may pick (net.ipv4.ip_local_port_range)."""


@dataclass(frozen=True)
class PacketMark:
    """Mark that this host's packet filter sets on packets that it sends from or to a port, whatever the other host."""

    port: int
    side: Literal["dport", "sport"]
    """``dport``: sent to that port; ``sport``: sent from it, as the answers of a store are."""
    version: int
    """IP version: 4 or 6."""
    mark: int
    rule: str
    """Chain, and its marking rule."""


@dataclass(frozen=True)
class Firewall:
    """Packet filter of this host, as far as this user may read it."""

    readable: bool
    why_not: str | None = None
    chains: tuple[FirewallChain, ...] = ()
    """Chains that can block: a policy of drop, or a rule that drops or rejects."""
    shut: tuple[ShutPort, ...] = ()
    """Chains that block MASTER_PORT for every other host, by all known rules."""
    open_ports: tuple[tuple[int, int], ...] = ()
    """TCP port ranges that stay open if it blocks ports of net.ipv4.ip_local_port_range for every other host (IPv4).
    Empty if it blocks none of these, or that is unknown."""
    marks: tuple[PacketMark, ...] = ()
    """Marks of the packets to and from MASTER_PORT; and to and from the first and the last port of
    net.ipv4.ip_local_port_range, if all ports between them have the same."""
    passages: tuple[Passage, ...] = ()
    """Connections that it passes for certain, though it has chains that can block; empty if it has none, or that is
    unknown."""
    proxied: tuple[str, ...] = ()
    """Rules that redirect packets to all ports of others to a port of this host, as those of a service mesh."""


# Routing of a host: its tables, the rules that choose among them, and its policies of IPsec.


@dataclass(frozen=True)
class Route:
    """Source address and interface that the kernel picks for ``target``."""

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
    """True if packets are refused or dropped (``ip route add unreachable``, ``prohibit``, ``blackhole``)."""
    rule: str = ""
    """Rule of policy routing that leads to it, as ``ip rule`` takes it; empty for a default rule."""
    marked: str = ""
    """Rule of the packet filter that sets the mark of that policy rule; empty if there is none."""
    next_hops: tuple[NextHop, ...] = ()
    """All next hops if there are several (ECMP); ``gateway`` and ``interface`` are the first one's. Empty if there is
    one. The kernel picks one for each pair of addresses, or for each connection (fib_multipath_hash_policy 0 and 1 of
    net.ipv4), whether or not anybody answers there."""
    throws: bool = False
    """True if it is no route: the next rule of policy routing applies (``ip route add throw``)."""


@dataclass(frozen=True)
class PolicyRule:
    """Rule of policy routing that comes before the main table, in the kernel's order (``ip rule``).

    Only rules on a packet's addresses, ports and mark: a rule for another user or for packets of other hosts is not
    listed.
    """

    version: int
    """IP version: 4 or 6."""
    text: str
    """Text as ``ip rule`` takes it: ``from 10.77.0.11 ipproto tcp dport 29500 lookup 100``."""
    source: str = ""
    """Network of the packets' source; empty: any."""
    target: str = ""
    source_ports: tuple[int, int] | None = None
    target_ports: tuple[int, int] | None = None
    mark: tuple[int, int] | None = None
    """(value, mask) of the packets' mark (``fwmark``)."""
    reject: bool = False
    """True if the rule itself refuses or drops packets."""
    routes: tuple[TableRoute, ...] = ()
    """Routes of its table, best metric first, without those that it passes over (``suppress_prefixlength``)."""
    inverted: bool = False
    """True if it applies to the packets that do not match (``not``)."""
    main: bool = False
    """True if its table is the main one."""


@dataclass(frozen=True)
class IpsecPolicy:
    """Policy of IPsec for the packets between two networks (``ip xfrm policy``); the first matching one counts."""

    way: Literal["in", "out"]
    version: int
    """IP version: 4 or 6."""
    source: str
    """``10.77.0.11/32``; ``0.0.0.0/0`` is any."""
    target: str
    source_port: int | None = None
    """None: any."""
    target_port: int | None = None
    tcp: bool = False
    """True if it applies to TCP alone."""
    block: bool = False
    """True if the packets are dropped."""
    lacks: bool = False
    """True if it requires encryption or signatures without an association for them: the kernel drops what it is to send
    so, and what arrives otherwise."""


# Links of a node to the others.


HEAVY = 0.2

MAX_RATES = 8
SAMPLED_PORTS = (2000, 5000, 10000, 15000, 20000, 25000, 30000, 40000, 50000, 60000)
"""Ports tried on a host on which a random one gives no answer."""
ROW_MOST = 64
_LONGEST_WAIT = 100.0
"""Seconds: far more than the limit for any payload, far less than the bytes of one."""


@dataclass(frozen=True, slots=True)
class Link:
    """Connection from this node to another that did not work. Good links are counted, not listed.

    It has slots: of a thousand nodes there may be half a million.
    """

    to: str
    """Key (``hostname pid``) of the process that should be reached."""
    address: str
    port: int
    use: tuple[str, ...]
    """Users of the address: ``gloo``, ``nccl``, ``primary``."""
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    """Seconds until it ended so. In the facts of 0.1.0 a stalled link has the size of the payload here."""
    icmp: bool = False
    payload: int | None = None
    """Bytes of the smallest payload that never arrived, if the outcome is ``stalled``."""
    accepted: bool = False
    """With ``no-answer``: True if the peer's kernel accepted the connection and the data, and its process, stopped or
    starved, gave no reply. No packet filter does that."""
    passing: tuple[int, ...] = ()
    """With ``no-answer``: other ports of the same address, of SAMPLED_PORTS, on which something answered, if only to
    refuse: the path between passes these."""
    dead_after: int | None = None
    """Bytes that had arrived when a working connection was reset, or passed nothing more of any size; None: it never
    worked, or only for small payloads, or that is unknown."""

    @property
    def swallowed(self) -> int | None:
        """Bytes of the smallest payload that never arrived; None if unknown."""
        if self.payload is None and self.outcome == "stalled" and self.seconds > _LONGEST_WAIT:
            return int(self.seconds)
        return self.payload


@dataclass(frozen=True)
class LinkRate:
    """Measured transfer to one other node, on the address that its backends use."""

    to: str
    bytes_per_second: float | None
    """Received bytes per second; None if throughput was not measured on this link."""
    delivery_rate: float | None = None
    """Kernel's own estimate, in bytes per second (TCP_INFO): without the time a busy process lost."""
    receiver_limited: float = 0.0
    """Share of the time in which the receiver's window, hence a busy receiver, held the sender up."""
    retransmitted: int = 0
    """Segments that TCP retransmitted, at either end, during an exchange of small messages, or could not send at once
    because of the own packet filter: without load, only loss does that."""
    segments: int = 0
    """Segments sent in that time; 0 if the kernel does not say."""
    rtt: float | None = None
    """Median round trip of these small messages, in seconds."""

    @property
    def heavy_loss(self) -> bool:
        """True if a fifth of the segments was retransmitted, and three at least: a node behind such a link may be
        silent for seconds, and a new connection to it may get no answer to any of its first packets."""
        return self.retransmitted >= max(3, HEAVY * self.segments)


@dataclass(frozen=True)
class LinkRow:
    """Figures of this node's links to all others, as entries in an order of the nodes that all of them know.

    Up to ROW_MOST nodes have an entry each; of more, neighbours share one, which has the worst of theirs. The figures
    are empty if nothing of the kind was measured, and None in an entry without a measurement.
    """

    place: int
    """Position of this node in that order, from 0."""
    nodes: int
    """Number of nodes in it."""
    rtt: tuple[float | None, ...] = ()
    """Median round trip of small messages, in seconds."""
    rates: tuple[float | None, ...] = ()
    """Bytes per second that arrived there."""
    lost: tuple[float | None, ...] = ()
    """Share of segments that TCP retransmitted during an exchange of small messages."""

    @property
    def size(self) -> int:
        """Number of nodes that share an entry."""
        return max(1, -(-self.nodes // ROW_MOST))

    @property
    def entries(self) -> int:
        return -(-self.nodes // self.size)

    def entry(self, place: int) -> int:
        """Return the index of the entry of the node at ``place``."""
        return place // self.size


@dataclass(frozen=True)
class Translated:
    """Connection of this node that arrived from another address than it was sent from: a device on the route
    substitutes its own (NAT), as the machine of a container does."""

    to: str
    """Key of the process that reports it."""
    own: str
    """Address of this node's end of the connection."""
    seen: str
    """Address from which it arrived."""


@dataclass(frozen=True)
class MeshFacts:
    """Connections of this node to every other on ephemeral ports."""

    good: int = 0
    bad: tuple[Link, ...] = ()
    rtt_median: float | None = None
    rtt_max: float | None = None
    rates: tuple[LinkRate, ...] = ()
    """Slowest and lossiest measured links, at most MAX_RATES of them; the others are in the medians."""
    rate_median: float | None = None
    """Bytes per second, over all measured links of this node."""
    busy: float = 0.0
    """Share of this host's processors in use meanwhile, 0 to 1."""
    clock_offset: float | None = None
    """Node 0's clock minus this node's, in seconds."""
    clock_error: float | None = None
    """Error bound of ``clock_offset``: half the round trip it was measured with."""
    row: LinkRow | None = None
    """Figures of all links of this node; None in older facts."""
    translated: tuple[Translated, ...] = ()
    """Address-translated connections, at most MAX_RATES."""

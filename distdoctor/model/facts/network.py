"""What a node sees of the way to its master."""

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
    """One attempt to connect to address:port and how it ended."""

    address: str
    port: int
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False
    """True where an ICMP error, hence a router or firewall and not the host's TCP, gave the answer."""
    icmp_from: str = ""
    """The address that sent it (SO_EE_OFFENDER, ip(7)): one of this host's own where its own filter rejects."""

    @property
    def answered(self) -> bool:
        """Return whether something answers for the host, if only to refuse: the way there and back is not silent."""
        return self.outcome in ("open", "refused", "reset")


@dataclass(frozen=True)
class Answer:
    """What an open port answers to the handshakes that are safe for a live TCPStore."""

    kind: AnswerKind
    generation: str | None = None
    """For a TCPStore: ``2.5+``, ``2.2-2.4`` or ``<=2.1``."""
    sample: str = ""
    """The first printable bytes of something else's answer, at most 80."""


@dataclass(frozen=True)
class PortHolder:
    """The process that has a port of this host. Fields are None where the OS does not show them to this user."""

    address: str
    pid: int | None = None
    name: str | None = None
    user: str | None = None
    peer: str = ""
    """Where nobody listens there: the other end (``address:port``) of a connection whose own end has the port."""
    hosts_store: bool = False
    """It listens there, and has a thread that serves a TCPStore: it is of a job, whether or not that store answers."""


@dataclass(frozen=True)
class Bind:
    """Node 0 trying to host a TCPStore on MASTER_PORT."""

    ok: bool
    port: int
    errno: int | None = None
    error: str | None = None
    holders: tuple[PortHolder, ...] = ()
    answer: Answer | None = None
    """What answers on the port, where the bind failed because it is in use."""
    free_port: int | None = None
    """A port that can be bound, for the fix."""
    after: float = 0.0
    """Seconds after this process's start from which the store was there, where it is."""
    files: tuple[int, int] | None = None
    """How many descriptors the store's process had open, and how many it may, where it had none left."""


@dataclass(frozen=True)
class Neighbour:
    """What the kernel knows of the next host on the way to an address (ARP; IPv6: neighbour discovery)."""

    address: str
    interface: str
    state: NeighbourState
    gateway: bool = False
    """It is the gateway on the way there, and not the host itself."""


@dataclass(frozen=True)
class HardwareAddress:
    """The hardware address that answered for an address of this host's own network (ARP; IPv6: neighbour discovery)."""

    address: str
    mac: str
    interface: str
    permanent: bool = False
    """Nobody answered: it was written there by hand, and stays (``ip neigh add ... nud permanent``, ``arp -s``)."""


@dataclass(frozen=True)
class NeighbourTable:
    """The kernel's table of hardware addresses, in which there was no room for one more host. Containers share it."""

    version: int
    """Of IP: 4 or 6."""
    most: int
    """Entries that it may have (``gc_thresh3``); 0: not known."""
    refused: int
    """How often there was none while the links were tried."""


@dataclass(frozen=True)
class OtherWay:
    """What became of a connection to the master's port by another interface than the one that the routes name."""

    interface: str
    contact: Contact


@dataclass(frozen=True)
class Elsewhere:
    """A store of a check that waits for a node, on another port of the master's host than this node's MASTER_PORT."""

    address: str
    port: int
    host: str
    """What the host calls itself."""
    plan: Plan
    """The plan of the node 0 that is there."""


@dataclass(frozen=True)
class LateConnections:
    """The connections that the ranks of this node opened to one address, some of which needed more than one SYN."""

    address: str
    opened: int
    """How many there are."""
    late: int
    """How many of them had no answer to their first SYN."""
    repeated: int
    """SYNs that were sent again, of all of them."""


@dataclass(frozen=True)
class NetworkFacts:
    """Names, routes and the master's port, as seen from this node."""

    master: Resolution | None = None
    master_is_own: bool | None = None
    """Whether an address of MASTER_ADDR is on an interface of this host; None where it did not resolve."""
    route: Route | None = None
    primary: AddressChoice | None = None
    """The address by which this node is reached from the others: the source of its route to the master, or for the
    owner of MASTER_ADDR that address itself. None on a node that talks over loopback only."""
    bind: Bind | None = None
    contact: Contact | None = None
    """The last attempt to reach MASTER_ADDR:MASTER_PORT."""
    refused_before: bool = False
    """An earlier attempt of this run was refused, so that no filter kept all packets back then."""
    passed_over: tuple[Contact, ...] = ()
    """The attempts just before it, on addresses of MASTER_ADDR that a TCPStore tries first, where these failed."""
    control: Contact | None = None
    """The same host on a port that should be closed: a refusal there says that the host is up and not silent."""
    answer: Answer | None = None
    """What answered on MASTER_ADDR:MASTER_PORT, where it was open."""
    master_name: str | None = None
    """What /etc/hosts calls the address of MASTER_ADDR, where it is not this host's own."""
    own_port: Contact | None = None
    """How a connection of this host's to a port of its own ended, at the address that gloo will pick; None where it was
    not tried."""
    firewall: Firewall | None = None
    late_connections: tuple[LateConnections, ...] = ()
    """Read where the ranks' stage store or gloo took as long as a repeated SYN (1 s); empty where it did not."""
    resolved_after: float = 0.0
    """Seconds after which MASTER_ADDR had an address, where it had none at first; else 0."""
    reverse: Resolution | None = None
    """The reverse look-up of the master's address, which every store client makes (``addresses`` holds the name)."""
    rendezvous_name: Resolution | None = None
    """The name by which torchrun's ranks will look for their store, as it is found here; None where not looked up."""
    rendezvous_contact: Contact | None = None
    """How a listener of that node was reached by it; None where that was not tried."""
    routes: tuple[TableRoute, ...] | None = None
    """The main routing table; None where it was not read, or is too long for a node's."""
    policy: tuple[PolicyRule, ...] = ()
    """What comes before the main routing table, in the kernel's order."""
    ipsec: tuple[IpsecPolicy, ...] = ()
    """The policies of IPsec, where a way to another node failed, at these times of ``hardware_addresses``; empty where
    this user may not read them."""
    strict: tuple[str, ...] = ()
    """The interfaces whose rp_filter is strict: they drop what would be answered by another interface."""
    intercepted: tuple[int, ...] = ()
    """Ports of the master's host that nobody serves, on which connections were accepted all the same: tried where what
    accepts them on MASTER_PORT gave no answer. Empty where one of them was not accepted."""
    intercepted_here: bool = False
    """The other end of these connections is a socket of this host."""
    hardware_addresses: tuple[HardwareAddress, ...] = ()
    """Who answered for which address of the own networks, at the last attempt to reach the master, or after the links
    were tried where one failed. Empty where the table was not read or is too long for a node's."""
    unanswered: tuple[HardwareAddress, ...] = ()
    """The addresses, with the interface and no hardware address, for which nobody answered there, at these times and
    on node 0 when the meeting was over."""
    neighbour_table: NeighbourTable | None = None
    """None: there was room, or that is not known, as in a container."""
    other_ways: tuple[OtherWay, ...] = ()
    """Where nothing answered: each other interface that has the master's address in its own network, too."""
    master_lines: tuple[HostsLine, ...] = ()
    """The lines of /etc/hosts that name MASTER_ADDR, where it has no address all the same, or nobody is there."""
    neighbour: Neighbour | None = None
    """The next host on the way to MASTER_ADDR, where nothing answered a connection there."""
    elsewhere: Elsewhere | None = None
    """Where a store waits that may be this run's, while nothing listens on MASTER_PORT."""

    @property
    def let_through(self) -> bool:
        """An earlier attempt of this run got to MASTER_PORT, so that no filter kept all packets back then.

        Silence after it may be that of a process which takes none of its connections: once as many wait as it has room
        for, the kernel drops what more is asked for (tcp_abort_on_overflow in the kernel's ip-sysctl.rst).
        """
        return self.refused_before or (self.answer is not None and self.answer.kind == "silent")


# Facts about the packet filter of a host.


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


# How this host sends: its routing tables, the rules that choose among them, and its policies of IPsec.


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


# What a node sees of its links to the others.


HEAVY = 0.2

MAX_RATES = 8
SAMPLED_PORTS = (2000, 5000, 10000, 15000, 20000, 25000, 30000, 40000, 50000, 60000)
"""Ports tried on a host on which a random one gives no answer."""
ROW_MOST = 64
_LONGEST_WAIT = 100.0
"""Seconds: far more than is waited for any payload, far less than the bytes of one."""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection from this node to another that did not work. Good links are counted, not listed.

    In slots: of a thousand nodes there may be half a million."""

    to: str
    """The key (``hostname pid``) of the process meant to be reached."""
    address: str
    port: int
    use: tuple[str, ...]
    """Who would use the address: ``gloo``, ``nccl``, ``primary``."""
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    """How long it took to end so. In the facts of 0.1.0 a stalled link has the size of the payload here."""
    icmp: bool = False
    payload: int | None = None
    """Bytes: the smallest payload that never arrived, where the outcome is ``stalled``."""
    accepted: bool = False
    """With ``no-answer``: the other's kernel made the connection and took what was sent; its process, stopped or
    starved, gave no reply. That is no packet filter's doing."""
    passing: tuple[int, ...] = ()
    """With ``no-answer``: other ports of the same address, of SAMPLED_PORTS, on which something answered, if only to
    refuse: what is between lets these through."""
    dead_after: int | None = None
    """Bytes that had come through when a connection that worked was reset, or nothing came through any more whatever
    its size; None: it never worked, or only for small payloads, or that is not known."""

    @property
    def swallowed(self) -> int | None:
        """Bytes of the smallest payload that never arrived; None where that is not known."""
        if self.payload is None and self.outcome == "stalled" and self.seconds > _LONGEST_WAIT:
            return int(self.seconds)
        return self.payload


@dataclass(frozen=True)
class LinkRate:
    """The measured transfer to one other node, on the address that its backends use."""

    to: str
    bytes_per_second: float | None
    """What arrived, over the time it took; None where throughput was not measured on this link."""
    delivery_rate: float | None = None
    """The kernel's own estimate, in bytes per second (TCP_INFO): free of the time a busy process lost."""
    receiver_limited: float = 0.0
    """The share of the time in which the receiver's window, hence a busy receiver, held the sender up."""
    retransmitted: int = 0
    """Segments that TCP sent again, at either end, while small messages went to and fro, or could not send at once for
    a packet filter of the own host: without load, only loss does that."""
    segments: int = 0
    """Segments sent in that time; 0 where the kernel does not tell."""
    rtt: float | None = None
    """The median round trip of these small messages, in seconds."""

    @property
    def heavy_loss(self) -> bool:
        """Return whether a fifth of the segments was sent again, and three at least: who is behind such a link may
        not be heard for seconds, and a new connection to it may find none of its first packets answered."""
        return self.retransmitted >= max(3, HEAVY * self.segments)


@dataclass(frozen=True)
class LinkRow:
    """What this node measured of its links to all others, as entries in an order of the nodes that all of them know.

    Up to ROW_MOST nodes have an entry each; of more as many neighbours as it takes share one, which has the worst of
    theirs. The figures are empty where nothing of the kind was measured, and None in an entry where that one was not.
    """

    place: int
    """This node's own in that order, from 0."""
    nodes: int
    """How many nodes there are in it."""
    rtt: tuple[float | None, ...] = ()
    """Seconds: the median round trip of small messages."""
    rates: tuple[float | None, ...] = ()
    """Bytes per second that arrived there."""
    lost: tuple[float | None, ...] = ()
    """The share of segments that TCP sent again while small messages went to and fro."""

    @property
    def size(self) -> int:
        """Return how many nodes share an entry."""
        return max(1, -(-self.nodes // ROW_MOST))

    @property
    def entries(self) -> int:
        """Return how many entries there are."""
        return -(-self.nodes // self.size)

    def entry(self, place: int) -> int:
        """The entry of the node that stands at ``place``."""
        return place // self.size


@dataclass(frozen=True)
class Translated:
    """A connection of this node that arrived from another address than it was sent from: something on the way puts its
    own address on it (NAT), as the machine of a container does."""

    to: str
    """The key of the process that says so."""
    own: str
    """The address that this node's end of the connection has."""
    seen: str
    """The address from which it arrived."""


@dataclass(frozen=True)
class MeshFacts:
    """The connections this node made to every other on ephemeral ports."""

    good: int = 0
    bad: tuple[Link, ...] = ()
    rtt_median: float | None = None
    rtt_max: float | None = None
    rates: tuple[LinkRate, ...] = ()
    """The slowest and the lossiest measured links, at most MAX_RATES of them; the others are in the medians."""
    rate_median: float | None = None
    """Bytes per second, over all measured links of this node."""
    busy: float = 0.0
    """The share of this host's processors that was in use meanwhile, 0 to 1."""
    clock_offset: float | None = None
    """Node 0's clock minus this node's, in seconds."""
    clock_error: float | None = None
    """How far off ``clock_offset`` may be: half the round trip it was measured with."""
    row: LinkRow | None = None
    """The figures of all links of this node; None in facts of before."""
    translated: tuple[Translated, ...] = ()
    """At most MAX_RATES of those connections."""

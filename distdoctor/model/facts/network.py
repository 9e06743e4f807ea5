"""What a node sees of the way to its master."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from distdoctor.model.facts.firewall import Firewall
from distdoctor.model.facts.host import AddressChoice, HostsLine, Resolution
from distdoctor.model.facts.routes import IpsecPolicy, PolicyRule, Route, TableRoute
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
        """Whether something answers for the host, if only to refuse: the way there and back is not silent."""
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

"""What a node sees of its links to the others."""

from __future__ import annotations

from dataclasses import dataclass

from distdoctor.model.facts.network import ConnectOutcome

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
        """Whether a fifth of the segments was sent again, and three at least: who is behind such a link may not be
        heard for seconds, and a new connection to it may find none of its first packets answered."""
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
        """How many nodes share an entry."""
        return max(1, -(-self.nodes // ROW_MOST))

    @property
    def entries(self) -> int:
        """How many entries there are."""
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

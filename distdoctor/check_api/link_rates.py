"""Measured links: which are slow or lossy, and whom that is to be blamed on."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from distdoctor.check_api.pairs import common, hanging_together
from distdoctor.check_api.table_lookup import lookup
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import LinkRate

FLOOR = 5e6
"""Bytes per second (40 Mbit/s) that any working data network has; all that can be said of two nodes, without peers."""
SLOWER = 5.0
"""How many times slower than the usual link of the cluster a link must be to count as slow."""
SLOWER_BUSY = 20.0
FLOOR_BUSY = 50e6
"""The same where a processor at either end was busy: what was measured may then be the processor."""
BUSY = 0.8
RECEIVER_LIMITED = 0.5
"""The share of the time above which it was the receiver that held the sender up, and not the link."""
LOST_SEGMENTS = 3
LOST_SHARE = 0.02
ALL_PAIRS_UP_TO = 32
"""Nodes: beyond it each measured its two neighbours only (see ``distdoctor.mesh.measurement``)."""
NEARLY_ALL = 0.75
"""The share of a node's peers with which it must have the trouble to be blamed for it."""


@dataclass(frozen=True)
class MeasuredLink:
    """One direction of one link, as its sender measured it."""

    source: Node
    target: Node
    rate: LinkRate

    @property
    def speed(self) -> float | None:
        """Bytes per second: what arrived, or the kernel's own estimate where that is better: a busy process spoils it
        less."""
        if self.rate.bytes_per_second is None:
            return None
        return max(self.rate.bytes_per_second, self.rate.delivery_rate or 0.0)

    @property
    def routers(self) -> tuple[str, ...]:
        """The gateways by which its two ends send to each other; empty where neither does, or that is not known."""
        ways = [lookup(a, b.reached_at) for a, b in self._both_ways() if b.reached_at is not None]
        return tuple(dict.fromkeys(way.gateway for way in ways if way is not None and way.gateway is not None))

    def _both_ways(self) -> tuple[tuple[Node, Node], tuple[Node, Node]]:
        return (self.source, self.target), (self.target, self.source)


def measured_links(cluster: Cluster) -> list[MeasuredLink]:
    """All links that the nodes list: their slowest and their lossiest ones."""
    found = []
    for node in cluster.nodes:
        for rate in node.mesh.rates:
            target = cluster.by_key.get(rate.to)
            if target is not None and target is not node:
                found.append(MeasuredLink(node, target, rate))
    return found


def usual_link_speed(cluster: Cluster) -> float | None:
    """Bytes per second of the usual link: the median of the nodes' medians; None below three nodes that measured."""
    medians = [m for node in cluster.nodes if (m := node.mesh.rate_median) is not None]
    return statistics.median(medians) if len(medians) > 2 else None


def slow_links(links: Sequence[MeasuredLink], usual: float | None) -> list[MeasuredLink]:
    """The links that are far slower than the usual one, and not for want of processors."""
    return [link for link in links if _is_slow(link, usual)]


def _is_slow(link: MeasuredLink, usual: float | None) -> bool:
    speed = link.speed
    if speed is None or link.rate.receiver_limited > RECEIVER_LIMITED:
        return False
    if usual is None:
        return speed < FLOOR
    busy = max(link.source.mesh.busy, link.target.mesh.busy)
    if busy > BUSY:
        return speed < usual / SLOWER_BUSY and speed < FLOOR_BUSY
    return speed < usual / SLOWER


def lossy_links(links: Sequence[MeasuredLink]) -> list[MeasuredLink]:
    """The links on which TCP had to send small messages again, more often than chance has it."""
    return [
        link
        for link in links
        if link.rate.retransmitted >= LOST_SEGMENTS
        and link.rate.retransmitted >= LOST_SHARE * max(link.rate.segments, link.rate.retransmitted)
    ]


class Ends(Protocol):
    """A link from one node to another."""

    @property
    def source(self) -> Node:
        """Who connects."""

    @property
    def target(self) -> Node:
        """To whom."""


T = TypeVar("T", bound=Ends)


def blamed_for_links(
    cluster: Cluster, links: Sequence[T], all_pairs: bool = False
) -> list[tuple[tuple[Node, ...], list[T], bool]]:
    """(nodes to blame, their links, whether it cannot be told which of them it is) for links with one kind of trouble.

    Nodes that have the trouble with nearly all their peers are blamed, and these peers are not. Of what is left, links
    that hang together: the node common to all, else both ends. ``all_pairs``: every node tried every other, however
    many there are.
    """
    peers: dict[Node, set[Node]] = {}
    for link in links:
        peers.setdefault(link.source, set()).add(link.target)
        peers.setdefault(link.target, set()).add(link.source)
    count = sum(1 for node in cluster.nodes if node.saw("mesh"))
    partners = count - 1 if all_pairs or count <= ALL_PAIRS_UP_TO else 2
    hubs = [  # of two nodes with one trouble neither is a hub
        node for node in cluster.nodes if len(peers.get(node, ())) >= max(2.0, NEARLY_ALL * partners)
    ]
    if 2 * len(hubs) > count:
        hubs = []
    found: list[tuple[tuple[Node, ...], list[T], bool]] = []
    if hubs:
        their = set(hubs)
        theirs = [link for link in links if link.source in their or link.target in their]
        found.append((tuple(hubs), theirs, False))
    number_of = {node: number for number, node in enumerate(cluster.nodes)}
    left = {
        (number_of[link.source], number_of[link.target]): link
        for link in links
        if link.source not in hubs and link.target not in hubs
    }
    for gathered in hanging_together(left):
        hub = common(gathered)
        ends = {number for pair in gathered for number in pair} if hub is None else {hub}
        nodes = tuple(cluster.nodes[number] for number in sorted(ends))
        found.append((nodes, [left[pair] for pair in gathered], hub is None))
    return found

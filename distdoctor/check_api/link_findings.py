"""Shared parts of the checks of links between nodes: the node to blame, evidence and fixes."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from distdoctor.check_api.firewall import filter_evidence, shut_answers, suspect
from distdoctor.check_api.fixes import open_firewall_fix
from distdoctor.check_api.links import FailingLink, Star, common, hanging_together
from distdoctor.check_api.nodes import gloo_dials, reachable_address
from distdoctor.check_api.ranks import by_luck, gloo_errors_name
from distdoctor.check_api.route_findings import TITLE, repair_route_fix, route_obstacle_evidence
from distdoctor.check_api.routes import NO_ENTRY, RoutedPacket, RouteObstacle, lookup, route_obstacle
from distdoctor.check_api.text import some_of
from distdoctor.knowledge.firewall.packet_filter import FilterHook
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import LinkRate
from distdoctor.model.findings import Finding, Fix, Severity

MAX_LINKS_LISTED = 64
"""Most links that a finding lists; the others are counted."""
MAX_LINES = 12
"""Most links whose outcome a finding's evidence shows."""
MAX_FIXES = 32
CUT_OFF_TITLE = "Nodes of one network cannot reach each other at all"
_PLACE = re.compile(r"\b[io]if(?:name)?\b|\b[sd]addr\b|(?:^|\s)-[iosd] ")
"""Matches that restrict a rule to some interfaces or addresses."""
EHOSTUNREACH = 113
UNANSWERED = 1.0
"""Seconds within which an ICMP message of a router or a filter comes."""
SPARED_BY_GLOO = " gloo does not connect in that direction; NCCL may."


def link_needed(edge: FailingLink) -> bool:
    """Return whether the job connects in this direction: nccl in any, gloo from the larger address to the smaller."""
    node, target, link = edge.source, edge.target, edge.link
    if "nccl" in node.plan.backends(gpus=node.gpus or target.gpus) and set(link.use) & {"nccl", "primary"}:
        return True
    return "gloo" in link.use and gloo_dials(node, target, link.address)


def link_severity(cluster: Cluster, edges: Sequence[FailingLink]) -> Severity:
    """Return ``fail`` if the job makes one of these connections, or gloo reported that one of them failed; else
    ``warn``."""
    if any(link_needed(edge) for edge in edges) or gloo_errors_name(cluster, {edge.link.address for edge in edges}):
        return "fail"
    return "warn"


def cut_after_accept(edges: Sequence[FailingLink]) -> bool:
    """Return whether each of these connections was accepted, then cut: by a proxy in place of the node, since a packet
    filter accepts none."""
    return bool(edges) and all(edge.link.outcome == "reset" for edge in edges)


def unanswered_below_ip(edges: Sequence[FailingLink]) -> bool:
    """Return whether no host answered ARP or neighbour discovery for any of these addresses.

    The kernel then returns EHOSTUNREACH by itself, after three requests, a second each (arp(7): mcast_solicit,
    retrans_time_ms). To the socket it looks like an ICMP message. No packet of TCP was sent, and no port or rule is the
    cause. Not so if the host answered the same node for that address at the store's port: those packets took another
    route.
    """
    return bool(edges) and all(
        edge.link.errno == EHOSTUNREACH
        and edge.link.seconds >= UNANSWERED
        and not _answered_before(edge)
        and (entry := lookup(edge.source, edge.link.address, RoutedPacket(target_port=edge.link.port))) is not None
        and entry is not NO_ENTRY
        and entry.gateway is None
        for edge in edges
    )


def _answered_before(edge: FailingLink) -> bool:
    contact = edge.source.network.contact
    return contact is not None and contact.outcome == "open" and contact.address == edge.link.address


def _by_discovery(edges: Sequence[FailingLink]) -> bool:
    """Return whether the addresses are resolved by ICMPv6 neighbour discovery rather than ARP."""
    return all(":" in edge.link.address for edge in edges)


def how_links_fail(edges: Sequence[FailingLink]) -> str:
    """Return how these connections end, for the summary."""
    if unanswered_below_ip(edges):
        return f"get no answer, not even to {'neighbour discovery' if _by_discovery(edges) else 'ARP'}"
    if cut_after_accept(edges):
        return "are accepted on random ports and then cut, by another program than the node's"
    return "fail on random ports"


def link_arrows(edges: Sequence[FailingLink]) -> str:
    """Return ``host1 to host0 and host2 to host0``."""
    return some_of(dict.fromkeys(f"{edge.source.name} to {edge.target.name}" for edge in edges), 6)


def link_culprits(cluster: Cluster, star: Star) -> tuple[tuple[Node, ...], bool]:
    """Return (nodes to blame for connected links, whether it is one of them).

    Blame by packet filters if their rules show it, else the node common to all links.
    """
    ruled, unknown = links_blocked_by_rules(star.edges)
    known = [node for node in cluster.nodes if node in ruled]
    # A link of a node that is already blamed needs no other culprit.
    unknown = [edge for edge in unknown if edge.source not in ruled and edge.target not in ruled]
    if not unknown:
        return tuple(known), False
    if star.hub is not None and not known:
        return (star.hub,), False
    names = {node for edge in unknown for node in (edge.source, edge.target)} | ruled
    return tuple(node for node in cluster.nodes if node in names), True


def links_blocked_by_rules(
    edges: Sequence[FailingLink], most: int = MAX_LINKS_LISTED
) -> tuple[set[Node], list[FailingLink]]:
    """Return (nodes with packet filters that block links, links that no rule explains).

    Only the first ``most`` links are examined: rules that block a thousand links show in these.
    """
    known: set[Node] = set()
    unknown: list[FailingLink] = []
    for edge in edges[:most]:
        obstacle = route_obstacle(edge.source, edge.target, edge.link.address, edge.link.port)
        if obstacle is not None:
            known.add(obstacle.node)
            continue
        side = suspect(edge.source, edge.target, edge.link.port)
        if side == "either" and edge.link.passing and shut_answers(edge.source, edge.target):
            side = "from"
        if side == "either":
            unknown.append(edge)
        else:
            known.add(edge.target if side == "to" else edge.source)
    return known, [*unknown, *edges[most:]]


def link_finding(
    cluster: Cluster,
    summary: str,
    edges: Sequence[FailingLink],
    blamed: Sequence[Node],
    *,
    unsure: bool = False,
    severity: Severity = "fail",
    fixes: tuple[Fix, ...] | None = None,
) -> Finding:
    """Return a finding about these links."""
    blocks = link_obstacles(edges[:MAX_LINKS_LISTED])
    ruled = [edge for edge in edges[:MAX_LINKS_LISTED] if edge not in blocks]
    apart = not blocks and unanswered_below_ip(edges)
    shown = [_line(edge) for edge in edges[:MAX_LINES]]
    if len(edges) > len(shown):
        shown.append(f"and {len(edges) - len(shown)} other links")
    return Finding(
        summary=summary,
        nodes=tuple(node.name for node in blamed),
        links=tuple(dict.fromkeys((edge.source.name, edge.target.name) for edge in edges[:MAX_LINKS_LISTED])),
        blame="one-of" if unsure else "all",
        severity=severity,
        matters=by_luck(cluster),
        title=TITLE if len(blocks) == len(edges[:MAX_LINKS_LISTED]) > 0 else CUT_OFF_TITLE if apart else "",
        evidence=tuple(
            dict.fromkeys(
                (*shown, *map(route_obstacle_evidence, blocks.values()), *(() if apart else _rules(ruled, blamed)))
            )
        ),
        fixes=tuple(open_links_fixes(cluster, edges, blamed, unsure)) if fixes is None else fixes,
    )


def link_finding_by_need(
    cluster: Cluster, summary: str, edges: Sequence[FailingLink], blamed: Sequence[Node], unsure: bool = False
) -> Finding:
    """Return the same for links that the job may not need: then it is a warning."""
    severity = link_severity(cluster, edges)
    text = summary if severity == "fail" else summary + SPARED_BY_GLOO
    return link_finding(cluster, text, edges, blamed, unsure=unsure, severity=severity)


def _line(edge: FailingLink) -> str:
    link = edge.link
    number = f" (errno {link.errno})" if link.errno else ""
    after = f" after {link.seconds:.1f} s" if link.seconds >= 0.1 else ""
    outcome = link.outcome.replace("-", " ")
    return f"{edge.source.name} to {edge.target.name}: {link.address}, a random port: {outcome}{number}{after}"


def _rules(edges: Sequence[FailingLink], blamed: Sequence[Node]) -> Iterator[str]:
    """Yield the chains that block these links on the blamed nodes, each once."""
    accused, listed = set(blamed), set[tuple[Node, FilterHook]]()
    for edge in edges:
        sides: tuple[tuple[Node, FilterHook, Node], ...] = (
            (edge.target, "input", edge.source),
            (edge.source, "output", edge.target),
        )
        for node, hook, peer in sides:
            if node in accused and (node, hook) not in listed and len(listed) < MAX_LINES:
                listed.add((node, hook))
                answers = shut_answers(node, peer) if hook == "output" and edge.link.passing else ()
                yield from answers or filter_evidence(node, hook, edge.link.port, [peer])


def link_obstacles(edges: Sequence[FailingLink]) -> dict[FailingLink, RouteObstacle]:
    """Return the obstacles in the nodes' own routing tables, for the links that have one."""
    tried = {edge: route_obstacle(edge.source, edge.target, edge.link.address, edge.link.port) for edge in edges}
    return {edge: obstacle for edge, obstacle in tried.items() if obstacle is not None}


def open_links_fixes(
    cluster: Cluster, edges: Sequence[FailingLink], blamed: Sequence[Node], unsure: bool
) -> Iterator[Fix]:
    """Yield the fixes: accept the peers' connections on each blamed node, or correct its wrong route."""
    obstacles = link_obstacles(edges[:MAX_LINKS_LISTED])
    first = {obstacle.node: obstacle for obstacle in reversed(obstacles.values())}
    yield from (repair_route_fix(cluster, obstacle) for obstacle in list(first.values())[:MAX_FIXES])
    if cut_after_accept(edges) and not links_blocked_by_rules(edges)[0]:
        targets = some_of(dict.fromkeys(edge.target.name for edge in edges))
        text = (
            f"Exclude the job's ports from the proxy, redirect or service mesh sidecar that answers for {targets}. "
            "Confirm with: `nft list ruleset`, `ss -ltnp` on both ends."
        )
        yield Fix(text, tuple(node.name for node in blamed[:MAX_FIXES]))
        return
    if not obstacles and unanswered_below_ip(edges):
        names = some_of(node.name for node in blamed)
        text = (
            f"Allow traffic between {names} in their (virtual) switch: no isolated ports, one VLAN, no private VLAN or "
            "macvlan private mode."
        )
        if _by_discovery(edges):
            text += " Or accept ICMPv6 (neighbour discovery) on both ends."
        yield Fix(text, tuple(node.name for node in blamed[:MAX_FIXES]))
        return
    peers: dict[Node, dict[str, None]] = {}
    sources: dict[Node, list[str]] = {}
    hooks: dict[Node, FilterHook] = {}
    for edge in edges:
        if edge in obstacles:
            continue
        for node, peer in ((edge.target, edge.source), (edge.source, edge.target)):
            if peer not in sources:
                sources[peer] = source_addresses(cluster, peer)
            peers.setdefault(node, {}).update(dict.fromkeys(sources[peer]))
        hooks[edge.target] = "input"
        hooks.setdefault(edge.source, "output")
    left = [node for node in blamed if node in peers and node not in first]
    for number, node in enumerate(left[:MAX_FIXES], start=1):
        addresses = [*peers[node], *own_addresses_filtered(cluster, node)]
        yield open_firewall_fix(
            node, node.name, hooks.get(node, "input"), addresses, None, option=number if unsure else 1
        )


def own_addresses_filtered(cluster: Cluster, node: Node) -> list[str]:
    """Return the node's own addresses if its rules also block traffic among its own ranks."""
    rules = [rule for chain in node.filter_chains for rule in chain.blocking_rules]
    return source_addresses(cluster, node) if any(not _PLACE.search(rule) for rule in rules) else []


def source_addresses(cluster: Cluster, node: Node) -> list[str]:
    """Return the source addresses of a node's connections."""
    return [a for a in dict.fromkeys((reachable_address(node, cluster), node.gloo_address)) if a and not is_loopback(a)]


# Measured links: slow and lossy ones, and the nodes to blame.


FLOOR = 5e6
"""Bytes per second (40 Mbit/s) of any working data network; the only bound for two nodes, without peers."""
SLOWER = 5.0
"""Factor below the cluster's usual link from which a link counts as slow."""
SLOWER_BUSY = 20.0
FLOOR_BUSY = 50e6
"""The same if a processor at either end was busy: the measurement may then show the processor."""
BUSY = 0.8
RECEIVER_LIMITED = 0.5
"""The share of the time above which the receiver delayed the sender, and not the link."""
LOST_SEGMENTS = 3
LOST_SHARE = 0.02
ALL_PAIRS_UP_TO = 32
"""Most nodes for which all pairs are measured: beyond it each measured its two neighbours only (see
``distdoctor.mesh.measurement``)."""
NEARLY_ALL = 0.75
"""The share of a node's peers that must be affected to blame the node."""


@dataclass(frozen=True)
class MeasuredLink:
    """One direction of one link, as measured by its sender."""

    source: Node
    target: Node
    rate: LinkRate

    @property
    def speed(self) -> float | None:
        """Return bytes per second: received bytes, or the kernel's own estimate if that is higher, as a busy process
        lowers it less."""
        if self.rate.bytes_per_second is None:
            return None
        return max(self.rate.bytes_per_second, self.rate.delivery_rate or 0.0)

    @property
    def routers(self) -> tuple[str, ...]:
        """Return the gateways by which its two ends send to each other; empty if none, or unknown."""
        routes = [lookup(a, b.reached_at) for a, b in self._directions() if b.reached_at is not None]
        return tuple(
            dict.fromkeys(route.gateway for route in routes if route is not None and route.gateway is not None)
        )

    def _directions(self) -> tuple[tuple[Node, Node], tuple[Node, Node]]:
        return (self.source, self.target), (self.target, self.source)


def measured_links(cluster: Cluster) -> list[MeasuredLink]:
    """Return all links that the nodes report: their slowest and lossiest ones."""
    links = []
    for node in cluster.nodes:
        for rate in node.mesh.rates:
            target = cluster.by_key.get(rate.to)
            if target is not None and target is not node:
                links.append(MeasuredLink(node, target, rate))
    return links


def usual_link_speed(cluster: Cluster) -> float | None:
    """Return bytes per second of the usual link: the median of the nodes' medians; None below three nodes that
    measured."""
    medians = [m for node in cluster.nodes if (m := node.mesh.rate_median) is not None]
    return statistics.median(medians) if len(medians) > 2 else None


def slow_links(links: Sequence[MeasuredLink], usual: float | None) -> list[MeasuredLink]:
    """Return the links that are far slower than usual, except those limited by processors."""
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
    """Return the links on which TCP retransmitted small messages more often than by chance."""
    return [
        link
        for link in links
        if link.rate.retransmitted >= LOST_SEGMENTS
        and link.rate.retransmitted >= LOST_SHARE * max(link.rate.segments, link.rate.retransmitted)
    ]


class LinkEnds(Protocol):
    """Link from one node to another."""

    @property
    def source(self) -> Node:
        """Return the node that connects."""

    @property
    def target(self) -> Node:
        """Return the node that is connected to."""


T = TypeVar("T", bound=LinkEnds)


def blamed_for_links(
    cluster: Cluster, links: Sequence[T], all_pairs: bool = False
) -> list[tuple[tuple[Node, ...], list[T], bool]]:
    """Return (nodes to blame, their links, whether it is one of them) for links with one kind of problem.

    Nodes with the problem on nearly all their links are blamed, and their peers are not. Of the rest, connected links
    blame their common node, else both ends. ``all_pairs``: every node tried every other, however many there are.
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
    blamed: list[tuple[tuple[Node, ...], list[T], bool]] = []
    if hubs:
        their = set(hubs)
        theirs = [link for link in links if link.source in their or link.target in their]
        blamed.append((tuple(hubs), theirs, False))
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
        blamed.append((nodes, [left[pair] for pair in gathered], hub is None))
    return blamed

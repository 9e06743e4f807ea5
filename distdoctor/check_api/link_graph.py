"""The mesh as a graph: which links between the nodes fail, and the smallest explanation of these.

Built once per cluster and in time linear in the failing links: with 1,024 nodes there may be half a million.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from distdoctor.check_api.lossy_nodes import losing_nodes, lost_by_chance
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Link

BLOCKED = ("no-answer", "refused", "rejected", "reset", "unreachable", "error")
"""The outcomes that a packet filter, a cut cable or a broken route has; ``stalled`` and ``wrong-node`` have others."""
ENETUNREACH = 101
OWN_SHORTAGE = (23, 24)
"""ENFILE and EMFILE: who wanted to connect had no descriptor left for it."""
WITHOUT_ZONE = 22
"""EINVAL: of a link-local address, which is none without an interface beside it (ipv6(7))."""
MAX_COMPONENTS = 8
"""Beyond it, scattered bad links are one failure of the network and not each one of its own."""
Pair = tuple[int, int]
_GRAPHS: WeakKeyDictionary[Cluster, LinkGraph] = WeakKeyDictionary()


@dataclass(frozen=True)
class FailingLink:
    """A failing link between two nodes."""

    source: Node
    target: Node
    link: Link


@dataclass(frozen=True)
class Star:
    """Scattered failing links that hang together. ``hub``: the node common to all of them, where there is one."""

    edges: tuple[FailingLink, ...]
    hub: Node | None
    one_way: bool
    """Each of its pairs fails in one direction only."""


@dataclass(frozen=True)
class LinkGraph:
    """The links that fail for whatever address is used, and what explains them, each link in one explanation."""

    nodes: tuple[Node, ...] = ()
    """Those that measured links."""
    no_route: tuple[FailingLink, ...] = ()
    no_way_back: tuple[FailingLink, ...] = ()
    """Links that fail since their target has no route for its answers: the other direction of some of ``no_route``."""
    stalled: tuple[FailingLink, ...] = ()
    cut: tuple[FailingLink, ...] = ()
    """Links that worked at first, and were dead after some bytes."""
    misled: tuple[FailingLink, ...] = ()
    """Links that fail for one address only, while the same node is reached at another."""
    by_chance: tuple[FailingLink, ...] = ()
    """Links of nodes that lose so many packets that nothing else need be wrong with these."""
    doubled: tuple[FailingLink, ...] = ()
    """Links to or from an address that another host has as well: who is meant is not who is asked, or is answered."""
    isolated: tuple[Node, ...] = ()
    """Nodes that neither reach any other nor are reached, while others reach each other."""
    groups: tuple[tuple[Node, ...], ...] = ()
    """Two or more groups of nodes, largest first, that reach each other inside and not across."""
    deaf: tuple[Node, ...] = ()
    """Nodes that accept nothing from any other, though they reach others."""
    mute: tuple[Node, ...] = ()
    """Nodes that reach none of those that accept anything, though others reach them."""
    stars: tuple[Star, ...] = ()
    bad: dict[int, dict[int, Link]] = field(default_factory=dict)
    """Failing links by the numbers of their nodes in ``nodes``: those that the fields from ``isolated`` on explain."""

    def edges_of(
        self, nodes: Iterable[Node], limit: int, inward: bool = True, outward: bool = True
    ) -> list[FailingLink]:
        """At most ``limit`` failing links into and out of these nodes."""
        wanted = {id(node) for node in nodes}
        numbers = [number for number, node in enumerate(self.nodes) if id(node) in wanted]
        found: list[FailingLink] = []
        for number in numbers:
            for source, targets in self.bad.items():
                if inward and number in targets and len(found) < limit:
                    found.append(FailingLink(self.nodes[source], self.nodes[number], targets[number]))
            if outward:
                for target, link in self.bad.get(number, {}).items():
                    if len(found) >= limit:
                        return found
                    found.append(FailingLink(self.nodes[number], self.nodes[target], link))
        return found


def _addresses_of_several(nodes: tuple[Node, ...]) -> set[str]:
    """The addresses that nodes on different hosts have."""
    owners: dict[str, tuple[str, str, str]] = {}
    return {a for node in nodes for a in node.addresses if owners.setdefault(a, node.host) != node.host}


def link_graph(cluster: Cluster) -> LinkGraph:
    """Which links between the nodes fail, and what explains them. Built once for each cluster."""
    if (graph := _GRAPHS.get(cluster)) is None:
        graph = _GRAPHS[cluster] = _built(cluster)
    return graph


def _built(cluster: Cluster) -> LinkGraph:
    nodes = tuple(node for node in cluster.nodes if node.saw("mesh"))
    number_of = {key: number for number, node in enumerate(nodes) for key in node.keys}
    bad: dict[int, dict[int, Link]] = {}
    several = _addresses_of_several(nodes)
    no_route: list[FailingLink] = []
    stalled: list[FailingLink] = []
    cut: list[FailingLink] = []
    misled: list[FailingLink] = []
    doubled: list[FailingLink] = []
    by_chance: list[FailingLink] = []
    losing = losing_nodes(nodes, number_of)
    for number, node in enumerate(nodes):
        links = node.mesh.bad
        if not links:
            continue
        lost = {link.to for link in links if "primary" in link.use}
        mine: dict[int, Link] = {}
        for link in links:
            target = number_of.get(link.to)
            if target is None or target == number:
                continue
            outcome = link.outcome
            if link.accepted or link.errno in (*OWN_SHORTAGE, WITHOUT_ZONE):
                continue  # whether its process answers, or the own one can ask, is no matter of the link
            if losing & {node, nodes[target]} and lost_by_chance(node, nodes[target], link):
                by_chance.append(FailingLink(node, nodes[target], link))
            elif link.dead_after is not None:
                cut.append(FailingLink(node, nodes[target], link))
            elif outcome == "stalled":
                stalled.append(FailingLink(node, nodes[target], link))
            elif is_loopback(link.address):
                continue
            elif several & {link.address, node.reached_at}:
                doubled.append(FailingLink(node, nodes[target], link))
            elif link.to not in lost and nodes[target].reached_at not in (None, link.address):
                misled.append(FailingLink(node, nodes[target], link))
            elif outcome in BLOCKED and target not in mine:
                if link.errno == ENETUNREACH and not link.icmp:
                    no_route.append(FailingLink(node, nodes[target], link))
                else:
                    mine[target] = link
        if mine:
            bad[number] = mine
    numbers = {node: number for number, node in enumerate(nodes)}
    no_way_back: list[FailingLink] = []
    for edge in no_route:
        # Its answers find no way back either.
        other = bad.get(numbers[edge.target], {})
        if numbers[edge.source] in other:
            no_way_back.append(FailingLink(edge.target, edge.source, other.pop(numbers[edge.source])))
    return replace(
        _explained(nodes, bad),
        no_route=tuple(no_route),
        no_way_back=tuple(no_way_back),
        stalled=tuple(stalled),
        cut=tuple(cut),
        misled=tuple(misled),
        doubled=tuple(doubled),
        by_chance=tuple(by_chance),
    )


def _explained(nodes: tuple[Node, ...], bad: dict[int, dict[int, Link]]) -> LinkGraph:
    bad = {number: targets for number, targets in bad.items() if targets}
    if not bad:
        return LinkGraph(nodes)
    total = len(nodes)
    inward: list[set[int]] = [set() for _ in nodes]
    for source, targets in bad.items():
        for target in targets:
            inward[target].add(source)
    isolated: list[int] = []
    groups: list[list[int]] = []
    component: list[int] = [0] * total
    if total > 2:
        parts = _parts(total, bad, inward)
        for number, part in enumerate(parts):
            for member in part:
                component[member] = number
        if len(parts[0]) > 1:
            # One that reaches nodes whose facts are not here is a group with these.
            more = {n for n in range(total) if nodes[n].mesh.good and total < (nodes[n].plan.nnodes or 0)}
            isolated = sorted(part[0] for part in parts if len(part) == 1 and part[0] not in more)
            groups = [part for part in parts if len(part) > 1 or part[0] in more]
    apart = len(groups) + len(isolated) > 1
    # Deaf to all others, whatever their group; what isolates a node or a group explains its links already.
    out = {*isolated, *(group[0] for group in groups if len(group) == 1)}
    deaf: set[int] = set()
    mute: set[int] = set()
    if total > 2:
        deaf = {n for n in range(total) if n not in out and len(inward[n]) == total - 1}
        hearing = set(range(total)) - deaf
        for source, targets in bad.items():
            if source in out or len(targets) < len(hearing) - 1:
                continue
            others = hearing - {source}
            if len(others) > 1 and others <= targets.keys():
                mute.add(source)
    left = [
        (source, target)
        for source, targets in bad.items()
        if source not in mute and source not in out
        for target in targets
        if target not in deaf and target not in out and not (apart and component[source] != component[target])
    ]
    return LinkGraph(
        nodes,
        isolated=tuple(nodes[n] for n in isolated),
        groups=tuple(tuple(nodes[n] for n in sorted(group)) for group in groups) if len(groups) > 1 else (),
        deaf=tuple(nodes[n] for n in sorted(deaf)),
        mute=tuple(nodes[n] for n in sorted(mute)),
        stars=_stars(nodes, bad, left),
        bad=bad,
    )


def _parts(total: int, bad: dict[int, dict[int, Link]], inward: list[set[int]]) -> list[list[int]]:
    """The groups of nodes that reach each other, in any direction and over others; largest first."""
    unseen = set(range(total))
    parts = []
    while unseen:
        start = min(unseen)
        unseen.discard(start)
        part, edge = [start], [start]
        while edge and unseen:
            node = edge.pop()
            cut = inward[node] & bad[node].keys() if node in bad and inward[node] else set()
            near = unseen - cut
            unseen -= near
            part += near
            edge += near
        parts.append(part)
    parts.sort(key=lambda part: (-len(part), part[0]))
    return parts


def _stars(nodes: tuple[Node, ...], bad: dict[int, dict[int, Link]], left: list[Pair]) -> tuple[Star, ...]:
    """The scattered links, gathered into those that hang together; all in one where they are everywhere."""
    components = hanging_together(left)
    if len(components) > MAX_COMPONENTS:
        components = [left]
    stars = []
    for pairs in components:
        edges = tuple(FailingLink(nodes[s], nodes[t], bad[s][t]) for s, t in pairs)
        hub = common(pairs)
        present = set(pairs)
        one_way = len(nodes) > 2 and all((t, s) not in present for s, t in pairs)
        stars.append(Star(edges, None if hub is None else nodes[hub], one_way))
    return tuple(stars)


def hanging_together(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs, gathered so that those which share a node are together; in the order of their first pairs."""
    leader: dict[int, int] = {}

    def find(node: int) -> int:
        root = node
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[node] != root:
            leader[node], node = root, leader[node]
        return root

    listed = list(pairs)
    for source, target in listed:
        leader[find(source)] = find(target)
    gathered: dict[int, list[Pair]] = {}
    for pair in listed:
        gathered.setdefault(find(pair[0]), []).append(pair)
    return list(gathered.values())


def common(pairs: Iterable[Pair]) -> int | None:
    """The node that takes part in all pairs, where these have more than one other node in them."""
    listed = list(pairs)
    shared = set(listed[0])
    for pair in listed[1:]:
        shared &= set(pair)
        if not shared:
            return None
    return next(iter(shared)) if len(shared) == 1 else None

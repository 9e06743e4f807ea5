"""The mesh as a graph: failing links between nodes, and their smallest explanation.

Built once per cluster and in time linear in the failing links: with 1,024 nodes there may be half a million.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from weakref import WeakKeyDictionary

from distdoctor.check_api.routes import route_obstacle
from distdoctor.knowledge.firewall.packet_filter import FilterHook, concerns
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Link

BLOCKED = ("no-answer", "refused", "rejected", "reset", "unreachable", "error")
"""Outcomes of a packet filter, a cut cable or a broken route; ``stalled`` and ``wrong-node`` have other causes."""
ENETUNREACH = 101
OWN_SHORTAGE = (23, 24)
"""ENFILE and EMFILE: the connecting process had no file descriptor left."""
WITHOUT_ZONE = 22
"""EINVAL for a link-local address without an interface (ipv6(7))."""
NO_FAULT_OF_LINKS = (*OWN_SHORTAGE, WITHOUT_ZONE)
MAX_COMPONENTS = 8
"""With more, scattered bad links count as one failure of the network."""
Shows = Literal["blocked", "no_route", "by_chance", "cut", "stalled", "doubled", "misled", "hidden"]
_GRAPHS: WeakKeyDictionary[Cluster, LinkGraph] = WeakKeyDictionary()


@dataclass(frozen=True)
class FailingLink:
    """Failing link between two nodes."""

    source: Node
    target: Node
    link: Link


@dataclass(frozen=True)
class Star:
    """Connected failing links. ``hub``: the node common to all of them, if one exists."""

    edges: tuple[FailingLink, ...]
    hub: Node | None
    one_way: bool
    """True if each of its pairs fails in one direction only."""


@dataclass(frozen=True)
class LinkGraph:
    """Failing links and their explanations; each link has one explanation."""

    nodes: tuple[Node, ...] = ()
    """Nodes that measured links."""
    no_route: tuple[FailingLink, ...] = ()
    no_way_back: tuple[FailingLink, ...] = ()
    """Links that fail since their target has no route for its replies: the other direction of some of ``no_route``."""
    stalled: tuple[FailingLink, ...] = ()
    cut: tuple[FailingLink, ...] = ()
    """Links that worked at first, and were dead after some bytes."""
    misled: tuple[FailingLink, ...] = ()
    """Links that fail at one address only, while the same node is reached at another."""
    hidden: tuple[FailingLink, ...] = ()
    """Links to an address behind translation (NAT), at which no other host reaches its node."""
    by_chance: tuple[FailingLink, ...] = ()
    """Links of nodes with so much packet loss that it alone explains the failure."""
    doubled: tuple[FailingLink, ...] = ()
    """Links to or from an address that another host has as well, so that the wrong host answers."""
    isolated: tuple[Node, ...] = ()
    """Nodes that neither reach any other nor are reached, while others reach each other."""
    groups: tuple[tuple[Node, ...], ...] = ()
    """Two or more groups of nodes, largest first, that reach each other inside and not across."""
    deaf: tuple[Node, ...] = ()
    """Nodes that accept no connection from others, although they reach others."""
    mute: tuple[Node, ...] = ()
    """Nodes that reach no accepting node, although others reach them."""
    stars: tuple[Star, ...] = ()
    bad: dict[int, dict[int, Link]] = field(default_factory=dict)
    """Failing links by the numbers of their nodes in ``nodes``: those that the fields from ``isolated`` on explain."""

    def edges_of(
        self, nodes: Iterable[Node], limit: int, inward: bool = True, outward: bool = True
    ) -> list[FailingLink]:
        """Return at most ``limit`` failing links into and out of these nodes."""
        wanted = {id(node) for node in nodes}
        numbers = [number for number, node in enumerate(self.nodes) if id(node) in wanted]
        links: list[FailingLink] = []
        for number in numbers:
            for source, targets in self.bad.items():
                if inward and number in targets and len(links) < limit:
                    links.append(FailingLink(self.nodes[source], self.nodes[number], targets[number]))
            if outward:
                for target, link in self.bad.get(number, {}).items():
                    if len(links) >= limit:
                        return links
                    links.append(FailingLink(self.nodes[number], self.nodes[target], link))
        return links


def _addresses_of_several(nodes: tuple[Node, ...]) -> set[str]:
    """Return the addresses that nodes on different hosts share."""
    owners: dict[str, tuple[str, str, str]] = {}
    return {a for node in nodes for a in node.addresses if owners.setdefault(a, node.host_key) != node.host_key}


def _hidden_addresses(nodes: tuple[Node, ...]) -> dict[Node, set[str]]:
    """Return the addresses of each node at which no node of another host reaches it, and whose outgoing connections
    arrive under an address that it does not have."""
    hidden: dict[Node, set[str]] = {}
    for node in nodes:
        behind = {nat.own: nat.seen for nat in node.mesh.translated if nat.seen not in node.addresses}
        if not behind:
            continue
        neighbours = {nat.seen for nat in node.mesh.translated}
        others = [
            other
            for other in nodes
            if other.host_key != node.host_key and not neighbours & {nat.seen for nat in other.mesh.translated}
        ]
        for address in behind:
            missed = {
                other for other in others for link in other.mesh.bad if link.to in node.keys and link.address == address
            }
            if others and len(missed) == len(others):
                hidden.setdefault(node, set()).add(address)
    return hidden


def link_graph(cluster: Cluster) -> LinkGraph:
    """Return the failing links between the nodes and their explanations; built once per cluster."""
    if (graph := _GRAPHS.get(cluster)) is None:
        graph = _GRAPHS[cluster] = _built(cluster)
    return graph


def _built(cluster: Cluster) -> LinkGraph:
    nodes = tuple(node for node in cluster.nodes if node.saw("mesh"))
    number_of = {key: number for number, node in enumerate(nodes) for key in node.keys}
    losing, several = losing_nodes(nodes, number_of), _addresses_of_several(nodes)
    hidden = _hidden_addresses(nodes)
    shown: defaultdict[Shows, list[FailingLink]] = defaultdict(list)
    bad: dict[int, dict[int, Link]] = {}
    for number, node in enumerate(nodes):
        lost = {link.to for link in node.mesh.bad if "primary" in link.use}
        taken = node.reached_at in several
        mine: dict[int, Link] = {}
        for link in node.mesh.bad:
            target = number_of.get(link.to)
            if target is None or target == number:
                continue
            other = nodes[target]
            kind = _shows(node, other, link, losing, taken or link.address in several, link.to in lost)
            if kind in ("blocked", "no_route", "misled") and link.address in hidden.get(other, ()):
                kind = "hidden"
            if kind == "blocked":
                if target not in mine:
                    mine[target] = link
            elif kind is not None and not (kind == "no_route" and target in mine):
                shown[kind].append(FailingLink(node, other, link))
        if mine:
            bad[number] = mine
    no_way_back = _answers_of(shown["no_route"], nodes, bad)
    return replace(
        _explained(nodes, bad),
        no_route=tuple(shown["no_route"]),
        no_way_back=tuple(no_way_back),
        stalled=tuple(shown["stalled"]),
        cut=tuple(shown["cut"]),
        misled=tuple(shown["misled"]),
        hidden=tuple(shown["hidden"]),
        doubled=tuple(shown["doubled"]),
        by_chance=tuple(shown["by_chance"]),
    )


def _shows(node: Node, other: Node, link: Link, losing: Collection[Node], doubled: bool, lost: bool) -> Shows | None:
    """Return the kind of evidence of a failing link, None if the link is not at fault.

    ``losing``: the nodes that lose packets; ``doubled``: an address of its ends is another host's, too; ``lost``: the
    other's first address fails, too.
    """
    if link.accepted or link.errno in NO_FAULT_OF_LINKS:
        return None  # whether its process answers, or the own one can ask
    if losing and (node in losing or other in losing) and explained_by_packet_loss(node, other, link):
        return "by_chance"
    if link.dead_after is not None:
        return "cut"
    if link.outcome == "stalled":
        return "stalled"
    if is_loopback(link.address):
        return None
    if doubled:
        return "doubled"
    if not lost and other.reached_at not in (None, link.address):
        return "misled"
    if link.outcome not in BLOCKED:
        return None
    return "no_route" if link.errno == ENETUNREACH and not link.icmp else "blocked"


def _answers_of(
    no_route: Iterable[FailingLink], nodes: tuple[Node, ...], bad: dict[int, dict[int, Link]]
) -> list[FailingLink]:
    """Return, and remove from ``bad``, the links that fail since their target has no route for its replies."""
    numbers = {node: number for number, node in enumerate(nodes)}
    links = []
    for edge in no_route:
        other = bad.get(numbers[edge.target], {})
        if numbers[edge.source] in other:
            links.append(FailingLink(edge.target, edge.source, other.pop(numbers[edge.source])))
    return links


def _explained(nodes: tuple[Node, ...], bad: dict[int, dict[int, Link]]) -> LinkGraph:
    bad = {number: targets for number, targets in bad.items() if targets}
    if not bad:
        return LinkGraph(nodes)
    inward: list[set[int]] = [set() for _ in nodes]
    for source, targets in bad.items():
        for target in targets:
            inward[target].add(source)
    parts = parts_of(len(nodes), bad, inward) if len(nodes) > 2 else [[*range(len(nodes))]]
    isolated, groups = _split_parts(nodes, parts)
    # Deaf to all others, in any group; an isolated node or group already explains its links.
    out = {*isolated, *(group[0] for group in groups if len(group) == 1)}
    deaf, mute = _deaf_and_mute(bad, inward, out) if len(nodes) > 2 else (set(), set())
    part_of = {member: number for number, part in enumerate(parts) for member in part}
    apart = len(groups) + len(isolated) > 1
    left = [
        (source, target)
        for source, targets in bad.items()
        if source not in mute and source not in out
        for target in targets
        if target not in deaf and target not in out and not (apart and part_of[source] != part_of[target])
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


def _split_parts(nodes: tuple[Node, ...], parts: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Return, of parts that do not reach each other, the single nodes, and the groups."""
    if len(parts[0]) == 1 or len(nodes) <= 2:
        return [], []
    # A node that reaches nodes without facts is a group with these.
    more = {n for n, node in enumerate(nodes) if node.mesh.good and len(nodes) < (node.plan.nnodes or 0)}
    isolated = sorted(part[0] for part in parts if len(part) == 1 and part[0] not in more)
    return isolated, [part for part in parts if len(part) > 1 or part[0] in more]


def _deaf_and_mute(
    bad: dict[int, dict[int, Link]], inward: list[set[int]], out: Collection[int]
) -> tuple[set[int], set[int]]:
    """Return the nodes that accept no connection, and those that reach none of the accepting nodes, without ``out``."""
    total = len(inward)
    deaf = {n for n in range(total) if n not in out and len(inward[n]) == total - 1}
    hearing = set(range(total)) - deaf
    mute = set()
    for source, targets in bad.items():
        if source in out or len(targets) < len(hearing) - 1:
            continue
        others = hearing - {source}
        if len(others) > 1 and others <= targets.keys():
            mute.add(source)
    return deaf, mute


def _stars(nodes: tuple[Node, ...], bad: dict[int, dict[int, Link]], left: list[Pair]) -> tuple[Star, ...]:
    """Return the scattered links by connected component; all in one if they are everywhere."""
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


# Pairs of nodes, by their numbers: connected components, common nodes, and groups that reach each other.


Pair = tuple[int, int]


def parts_of(total: int, bad: Mapping[int, Mapping[int, object]], inward: Sequence[set[int]]) -> list[list[int]]:
    """Return the groups of nodes that reach each other, in any direction and over others; largest first.

    ``bad``: the nodes that a node does not reach; ``inward``: for each node, those that do not reach it.
    """
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


def hanging_together(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Return the pairs grouped so that pairs with a common node are together, in the order of their first pairs."""
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
    """Return the node that takes part in all pairs, if these have more than one other node in them."""
    listed = list(pairs)
    shared = set(listed[0])
    for pair in listed[1:]:
        shared &= set(pair)
        if not shared:
            return None
    return next(iter(shared)) if len(shared) == 1 else None


# Nodes with so much packet loss that a new connection may fail by chance.


NEARLY_ALL = 0.75
"""Share of a node's measured links that must lose so much for the loss to be its own, rather than its peers'."""
UNHEARD = ("no-answer", "unreachable", "stalled")
"""Outcomes of lost packets, as opposed to an answer by another host."""


def losing_nodes(nodes: Sequence[Node], number_of: Mapping[str, int]) -> set[Node]:
    """Return the nodes of which nearly all measured links lose much, or nearly all of one direction.

    A node that loses incoming packets does not lose outgoing ones. One link is enough if its own packet filter drops by
    chance. ``number_of``: the place of each key in it.
    """
    out, into = dict[int, list[bool]](), dict[int, list[bool]]()
    for number, node in enumerate(nodes):
        for rate in node.mesh.rates:
            target = number_of.get(rate.to)
            if target is not None and target != number:
                out.setdefault(number, []).append(rate.heavy_loss)
                into.setdefault(target, []).append(rate.heavy_loss)
    both = {number: [*out.get(number, ()), *into.get(number, ())] for number in {*out, *into}}
    return {
        nodes[number]
        for counts in (both, out, into)
        for number, lossy in counts.items()
        if sum(lossy) > NEARLY_ALL * len(lossy)
        or (any(lossy) and any(c.by_chance for c in nodes[number].filter_chains))
    }


def explained_by_packet_loss(source: Node, target: Node, link: Link) -> bool:
    """Return whether packet loss of one end alone explains a silent or dead link.

    No router or filter answered, no rule shuts it, and both have a route.
    """
    if (link.outcome not in UNHEARD and link.dead_after is None) or link.icmp or link.errno == ENETUNREACH:
        return False
    if route_obstacle(source, target, link.address) is not None:
        return False
    return not _shut(target, "input", link.port) and not _shut(source, "output", link.port)


def _shut(node: Node, hook: FilterHook, port: int) -> bool:
    """Return whether a rule of the node, other than one that drops by chance, blocks this connection or its replies."""
    chains = (
        replace(chain, blocking_rules=tuple(rule for rule in chain.blocking_rules if rule not in chain.by_chance))
        for chain in node.filter_chains
    )
    return any(concerns(chain, port, "dport" if chain.hook == hook else "sport") for chain in chains)

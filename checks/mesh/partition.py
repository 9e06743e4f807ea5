"""The nodes form groups that do not reach each other.

## What you see
The store works on every rank. Then init_process_group() hangs, or fails on all ranks of a rack at once.

## Why it happens
A firewall between two racks, zones, security groups or subnets accepts only MASTER_PORT. Or a link between two
switches is down, and the store is reached over another route.

## Fix
Accept all TCP ports between the groups in the firewall or security group:
`nft insert rule inet filter forward ip saddr 10.0.0.0/16 ip daddr 10.0.0.0/16 accept`. Or use the nodes of one group
only: `srun --nodelist=host[0-3]`.

## Confirm with
`traceroute -T -p 40000 10.0.1.11` from a node of one group to the other.

## When it is harmless
Never: all ranks connect to all others.

## See also
mesh/node-isolated, mesh/peer-ports-blocked, mesh/one-way
"""

from distdoctor.check_api import (
    MAX_LINKS_LISTED,
    Cluster,
    FailingLink,
    Finding,
    Fix,
    Iterator,
    LinkGraph,
    Node,
    link_finding,
    link_graph,
    links_blocked_by_rules,
    open_links_fixes,
    some_of,
)

SEVERITY = "fail"
PREVENTS = "peers connected"
FOLLOWS = (
    "network/port-filtered",
    "network/port-rejected",
    "network/port-refused",
    "network/connection-limit",
    "network/overlapping-subnets",
    "network/arp-off",
    "network/duplicate-address",
    "network/neighbour-table-full",
)
MAX_FIXED = 32
"""Nodes for which the finding gives commands."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    if not graph.groups:
        return
    largest, *others = graph.groups
    smaller = [node for group in others for node in group]
    equal = len(largest) == len(others[0]) or not all_facts_known(cluster)
    place = {node: number for number, group in enumerate(graph.groups) for node in group}
    edges = crossing(graph, smaller, place)
    asked = edges if len(edges) <= MAX_LINKS_LISTED else facing(graph)
    ruled, unknown = links_blocked_by_rules(asked, len(asked))
    if ruled and not any(e.source not in ruled and e.target not in ruled for e in unknown):
        blamed, unsure = [node for node in cluster.nodes if node in ruled], False
    else:
        blamed, unsure = ([*largest, *smaller], True) if equal else (smaller, False)
    sides = "; ".join(some_of((node.name for node in group), 6) for group in graph.groups)
    yield link_finding(
        cluster,
        f"The nodes form {len(graph.groups)} groups that do not reach each other on random ports: {sides}.",
        edges,
        blamed,
        unsure=unsure,
        fixes=tuple(fixes(cluster, graph, ruled, sides)),
    )


def all_facts_known(cluster: Cluster) -> bool:
    """Return whether the facts of all nodes that joined are known; otherwise the sides of the others are not."""
    if cluster.meeting is not None:
        return all(key in cluster.by_key for key in cluster.meeting.arrived)
    return len(cluster.nodes) >= (cluster.plan.nnodes or 0)


def crossing(graph: LinkGraph, smaller: list[Node], place: dict[Node, int]) -> list[FailingLink]:
    """Return failing links between the groups: enough to list, and all of the first nodes."""
    edges = graph.edges_of(smaller, 4 * MAX_LINKS_LISTED)
    return [e for e in edges if place.get(e.source, -1) != place.get(e.target, -2)]


def facing(graph: LinkGraph) -> list[FailingLink]:
    """Return for each node one failing link from another group and one to it: as many as nodes, not as pairs."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    largest, *others = graph.groups
    pairs = [
        (largest[n % len(largest)], group[n % len(group)])
        for group in others
        for n in range(max(len(largest), len(group)))
    ]
    return [
        FailingLink(source, target, link)
        for first, second in dict.fromkeys(pairs)
        for source, target in ((first, second), (second, first))
        if (link := graph.bad.get(numbers[source], {}).get(numbers[target])) is not None
    ]


def fixes(cluster: Cluster, graph: LinkGraph, ruled: set[Node], sides: str) -> Iterator[Fix]:
    if ruled:
        nodes = [node for node in cluster.nodes if node in ruled]
        edges = [edge for node in nodes[:MAX_FIXED] for edge in graph.edges_of([node], 2 * len(graph.nodes))]
        yield from open_links_fixes(cluster, edges, nodes, False)
    else:
        text = (
            "Accept all TCP ports between these groups, in both directions, in the firewall or security group: "
            f"{sides}."
        )
        yield Fix(text, tuple(node.name for group in graph.groups for node in group))
    largest = graph.groups[0]
    names = some_of((node.name for node in largest), 6)
    yield Fix.on(largest, f"Or run the job on one group only: {names} ({len(largest)} nodes).", 2)

"""This node has no route to another node.

## What you see
torch prints every few seconds `failed to connect to 2.86.0.0:47756 (errno: 101 - Network is unreachable)`. The errno is
right; address and port are garbage. gloo prints `connect [192.168.7.10]:PORT: Network is unreachable` at once.

## Why it happens
This node is not in the network of the other node's address, and has no default route. Or an interface is down or lost
its address, perhaps during the job. Or MASTER_ADDR names an interface of node 0 that the others do not share.

## Fix
Set the master to an address of node 0 in a network that all nodes share, `export MASTER_ADDR=10.77.0.10`, or add the
route: `ip route add 192.168.7.0/24 via 10.77.0.1`.

If a netmask excludes the other node, use the netmask of the others.

## Confirm with
`ip route get 192.168.7.10` prints an interface and a source address.

## When it is harmless
While a network starts: distdoctor retries until --wait ends. gloo connects only from the numerically larger address to
the smaller. A node behind address translation that has the larger address therefore works with gloo, but perhaps not
with NCCL. The finding is then a WARN.

## See also
network/master-unreachable, network/master-not-node0, gloo/interface-unreachable
"""

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    SPARED_BY_GLOO,
    Cluster,
    FailedContact,
    FailingLink,
    Finding,
    Fix,
    Line,
    Link,
    Node,
    RouteObstacle,
    add_route_fix,
    by_luck,
    contact_text,
    failed_contacts,
    in_network,
    lacks_route,
    link_graph,
    link_needed,
    link_severity,
    links_to,
    lost_routes,
    master_address_owner,
    names_of,
    node0_name,
    reachable_address,
    repair_route_fix,
    route_obstacle,
    route_obstacle_evidence,
    route_obstacles,
    set_master_fixes,
    store_host_tried,
    together,
)

SEVERITY = "fail"
LOG = (
    Line(
        "Network is unreachable",
        "errno: 101|ENETUNREACH|Network is unreachable",
        shows="end",
        # NCCL's is nccl/interface-unreachable: its ranks have met in the store before.
        unless="huggingface|https?://|urllib|Max retries|NewConnectionError|wandb|requests|socketStartConnect",
    ),
)
MATTERS = "gloo does not connect in that direction; NCCL does, and would fail"
PREVENTS = "store reached"
SYMPTOM_OF = "master resolved"
FOLLOWS = ("host/lo-down", "host/hostname-numeric", "network/link-flaps")
FOLLOWS_ANYWHERE = ("network/master-not-node0", "network/rendezvous-unhosted")
LOOKS_AT = ("meeting", "mesh")
SHOWN = 8
LINK_LOCAL = "fe80:"
"""Prefix of addresses that need an interface (RFC 4291; ipv6(7)): no route helps there."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    shut = [attempt for attempt in failed_contacts(cluster, ("unreachable", "error")) if lacks_route(attempt)]
    if shut:
        yield to_the_master(cluster, shut)
    lost = {node: routes for node in cluster.nodes if (routes := lost_routes(node))}
    if lost:
        yield lost_routes_finding(lost)
    broken, harmless = (
        [edge for edge in edges if edge.link not in lost.get(edge.source, {})] for edges in parted(cluster)
    )
    if broken:
        yield to_peers(cluster, broken)
    if harmless:
        yield replace(to_peers(cluster, harmless, SPARED_BY_GLOO), severity="warn", matters=by_luck(cluster))


def lost_routes_finding(lost: dict[Node, dict[Link, tuple[str, str]]]) -> Finding:
    """Return the finding about nodes that had a route to the others and lost it during the run."""
    cards = {node: together(dict.fromkeys(card for _, card in routes.values())) for node, routes in lost.items()}
    its, which = "its" if len(lost) == 1 else "their", together(dict.fromkeys(cards.values()))
    links = [(node.name, link.to.partition(" ")[0]) for node, routes in lost.items() for link in routes]
    return Finding.about(
        lost,
        f"{names_of(lost)} lost {its} route to the others during the check ({which}).",
        title="A node lost its route to the others during the check",
        links=links[: 8 * SHOWN],
        evidence=(
            f"{node.name} to {link.address}: errno {link.errno}; at the start of the check {network} was on {card}"
            for node, routes in lost.items()
            for link, (network, card) in list(routes.items())[:SHOWN]
        ),
        fixes=(
            Fix.on(
                node,
                f"On {node.name}, bring {card} up again and keep it up: a cable, a driver, an expired lease or a "
                "person "
                "took it down. Confirm with: `ip -br address`, `dmesg -T`.",
            )
            for node, card in cards.items()
        ),
    )


def to_the_master(cluster: Cluster, shut: list[FailedContact]) -> Finding:
    # Also for a node 0 whose store started too late: the missing route is proof by itself.
    zero = store_host_tried(cluster, shut) or master_address_owner(cluster, shut)
    name = zero.name if zero else node0_name(cluster, shut[0].node)
    clients = [attempt.node for attempt in shut]
    address = shut[0].contact.address
    other = other_address(cluster, zero, clients, address) if zero else None
    obstacles = route_obstacles(cluster, shut)
    local = address.lower().startswith(LINK_LOCAL) and "%" not in address
    fixes = tuple(repair(cluster, attempt.node, zero, address, obstacles.get(attempt.node)) for attempt in shut)
    if local:
        fixes = (Fix.on((), f"Set the master on every node to an address of {name} that is not link-local."),)
    if other is not None:
        text = f"Set the master to an address of {name} in a network that the others share."
        fixes = (
            *set_master_fixes(cluster.nodes, text, address=other),
            *(Fix(f"Or: {fix.text[0].lower()}{fix.text[1:]}", fix.nodes, 2) for fix in fixes if not local),
        )
    lacking = f"{names_of(clients)} {'has' if len(clients) == 1 else 'have'} no route to {address} ({name})"
    return Finding.about(
        clients,
        f"{lacking}: it is link-local, and has no interface (%eth0)." if local else f"{lacking}.",
        ranks=(),
        links=links_to(clients, name),
        evidence=(
            *(text for attempt in shut for text in evidence(attempt)),
            *map(route_obstacle_evidence, obstacles.values()),
        ),
        fixes=fixes,
    )


def other_address(cluster: Cluster, zero: Node, clients: list[Node], address: str) -> str | None:
    """Another address of node 0 by which the others reach it: by its routes, else one in a network of each of them."""
    other = reachable_address(zero, cluster)
    if other != address:
        return other
    other = reachable_address(zero, cluster, but=(address,))
    own = {
        client: [p for i in client.interfaces if i.up for p in zip(i.addresses, i.prefix_lengths, strict=False)]
        for client in clients
    }
    shared = other is not None and all(any(in_network(a, n, other) for a, n in own[client]) for client in clients)
    return other if shared else None


def evidence(attempt: FailedContact) -> Iterator[str]:
    yield f"{attempt.node.name}: {contact_text(attempt.contact)}"
    route = attempt.node.network.route
    if route is not None and route.error:
        yield f"{attempt.node.name}: no route to {route.target}: {route.error}"
    yield f"{attempt.node.name}: {interfaces_text(attempt.node)}"


def interfaces_text(node: Node) -> str:
    interfaces = node.interfaces
    own = [
        f"{i.name} {address}/{length}{'' if i.up else ' (down)'}"
        for i in interfaces
        if not i.loopback
        for address, length in zip(i.addresses, i.prefix_lengths, strict=False)
    ]
    return f"its interfaces are {', '.join(own) or 'loopback only'}"


def repair(cluster: Cluster, node: Node, other: Node | None, address: str, obstacles: RouteObstacle | None) -> Fix:
    """The route that is wrong, where the node's own table shows it, else one that is added."""
    if obstacles is not None and obstacles.node is node:
        return repair_route_fix(cluster, obstacles)
    return add_route_fix(cluster, node, other, address)


def parted(cluster: Cluster) -> tuple[list[FailingLink], list[FailingLink]]:
    """(the links between peers without a route that the job needs, those that it does not need).

    A link is needed in the direction in which the backends connect; and where its other direction fails with it.
    """
    back = {(edge.target, edge.source): edge for edge in link_graph(cluster).no_way_back}
    broken: list[FailingLink] = []
    harmless: list[FailingLink] = []
    for edge in link_graph(cluster).no_route:
        other = back.get((edge.source, edge.target))
        (broken if link_needed(edge) or (other and link_needed(other)) else harmless).append(edge)
    if harmless and link_severity(cluster, harmless) == "fail":
        return broken + harmless, []
    return broken, harmless


def to_peers(cluster: Cluster, edges: list[FailingLink], luck: str = "") -> Finding:
    names = dict.fromkeys(edge.source.name for edge in edges)
    targets = dict.fromkeys(edge.target.name for edge in edges)
    sources = [node for node in cluster.nodes if node.name in names]
    first = {edge.source: edge for edge in reversed(edges)}
    obstacles = {
        node: route_obstacle(node, edge.target, edge.link.address, edge.link.port) for node, edge in first.items()
    }
    return Finding.about(
        names,
        f"{together(names)} {'has' if len(names) == 1 else 'have'} no route to {together(targets)}.{luck}",
        links=((edge.source.name, edge.target.name) for edge in edges[: 8 * SHOWN]),
        evidence=(
            *(f"{e.source.name} to {e.target.name}: {e.link.address}: errno {e.link.errno}" for e in edges[:SHOWN]),
            *(f"{node.name}: {interfaces_text(node)}" for node in sources[:SHOWN]),
            *(route_obstacle_evidence(block) for node in sources[:SHOWN] if (block := obstacles[node]) is not None),
        ),
        fixes=(
            repair(cluster, node, first[node].target, first[node].link.address, obstacles[node]) for node in sources
        ),
    )

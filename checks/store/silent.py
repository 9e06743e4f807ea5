"""What accepts connections on MASTER_ADDR:MASTER_PORT never answers.

What you see
------------
Nothing, for ever: a store client that is connected to a listener which never answers has no timeout at all.

Why it happens
--------------
The store's process is stopped (SIGSTOP, a debugger, a frozen container) and the kernel accepts for it; a proxy, a load
balancer or a port forwarding stands before node 0 and leads nowhere; or another program holds the port. A store that
has no descriptor left, because so many connections are held to it, closes each further one at once. Or a node sends by
a router what node 0 answers directly: a firewall there sees half of the connection, and drops what comes after the
first packet as invalid.

Fix
---
Look at what accepts the connections. If it is not this job's store, use another port, the same one on every node.

When it is harmless
-------------------
Never, if it stays silent.

See also
--------
network/port-in-use, network/foreign-service, store/foreign-store
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Node,
    failed_contacts,
    links_to,
    master_port_owner,
    misrouted_finding,
    names_of,
    other_master_port_fixes,
    route_obstacles,
    store_host,
)

SEVERITY = "fail"
PREVENTS = "store hosted"
SYMPTOM_OF = "store hosted"
BY_A_ROUTER = ("gateway", "detour", "narrow", "ruled")
"""What sends packets by another way than the answers come."""
FOLLOWS = ("network/service-mesh",)
FOLLOWS_ANYWHERE = ("host/open-files-limit", "host/ports-exhaustible")


def judge(cluster: Cluster) -> Iterator[Finding]:
    seen = [node for node in cluster.nodes if silent(node)]
    halved = [one for one in failed_contacts(cluster, ("open",)) if one.node in seen] if answers(cluster) else []
    found = {node: way for node, way in route_obstacles(cluster, halved).items() if way.kind in BY_A_ROUTER}
    if found:
        yield misrouted_finding(cluster, [one for one in halved if one.node in found], found)
    if rest := [node for node in seen if node not in found]:
        yield finding(cluster, rest)


def answers(cluster: Cluster) -> bool:
    """Return whether node 0 was in its own store when its waiting ended: then it is the way there that swallows
    packets."""
    zero = store_host(cluster)
    return zero is not None and zero.meeting.ended and zero.facts.key in zero.meeting.arrived


def silent(node: Node) -> bool:
    """Return whether all that this node got at the end of its waiting was a connection on which nothing came back."""
    network, meeting = node.network, node.meeting
    if meeting.joined or not meeting.ended:
        return False
    if network.bind is not None and not network.bind.ok:
        return False  # node 0 knows what holds the port
    opened = network.contact is not None and network.contact.outcome == "open"
    return opened and network.answer is not None and network.answer.kind in ("silent", "closed")


def came_back(node: Node) -> str:
    answer = node.network.answer
    return "which was closed at once" if answer and answer.kind == "closed" else "nothing came back"


def finding(cluster: Cluster, seen: list[Node]) -> Finding:
    owner, name = master_port_owner(cluster, seen)
    contact = seen[0].network.contact
    where = f"{contact.address}:{contact.port}" if contact else f"port {seen[0].plan.master_port}"
    hosted = ", though node 0 hosts its store" if store_host(cluster) else ""
    return Finding.about(
        [name],
        f"What accepts connections on {where} ({name}) never answers{hosted}.",
        links=links_to(seen, name),
        evidence=(
            *(f"{n.name}: connected to {n.plan.master_addr}:{n.plan.master_port}, {came_back(n)}" for n in seen),
            f"seen by {names_of(seen)} until waiting ended",
        ),
        fixes=other_master_port_fixes(cluster, None),
        # Without node 0's own word it may as well be a left-over there, or a node 0 that is not started yet.
        because_of=None if owner else "all met",
    )

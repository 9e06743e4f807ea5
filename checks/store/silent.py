"""MASTER_ADDR:MASTER_PORT accepts connections and never answers.

## What you see
Nothing at all: a store client has no timeout once it is connected to a listener that never answers.

## Why it happens
The store's process is stopped (SIGSTOP, a debugger, a frozen container), and the kernel accepts connections for it. Or
a proxy, load balancer or port forwarding in front of node 0 has no target. Or another program holds the port. A store
that is out of file descriptors closes each new connection at once.

Asymmetric routing has the same effect: a node sends through a router, and node 0 answers directly. A firewall on the
router sees half of the connection, and drops the packets after the first as invalid.

## Fix
Resume the stopped process with `kill -CONT 4711`. If another program holds the port, use another one on every node:
`export MASTER_PORT=29501`.

## Confirm with
`ss -ltnp 'sport = :29500'` on node 0, then `ps -o pid,stat,args -p 4711` (state T is stopped).

## When it is harmless
Never, if it stays silent.

## See also
network/port-in-use, network/foreign-service, store/foreign-store
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Iterator,
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
"""The obstacles that send packets by another route than the answers take."""
FOLLOWS = ("network/service-mesh", "network/engine-port-in-use")
FOLLOWS_ANYWHERE = ("host/open-files-limit", "host/ports-exhaustible")


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if silent(node)]
    halved = (
        [contact for contact in failed_contacts(cluster, ("open",)) if contact.node in nodes]
        if answers(cluster)
        else []
    )
    misrouted = {node: route for node, route in route_obstacles(cluster, halved).items() if route.kind in BY_A_ROUTER}
    if misrouted:
        yield misrouted_finding(cluster, [contact for contact in halved if contact.node in misrouted], misrouted)
    if rest := [node for node in nodes if node not in misrouted]:
        yield finding(cluster, rest)


def answers(cluster: Cluster) -> bool:
    """Return whether node 0 joined its own store: then the route to it loses the packets."""
    zero = store_host(cluster)
    return zero is not None and zero.meeting.ended and zero.facts.key in zero.meeting.arrived


def silent(node: Node) -> bool:
    """Return whether the node was connected at the end of its waiting and got no answer."""
    network, meeting = node.network, node.meeting
    if meeting.joined or not meeting.ended:
        return False
    if network.bind is not None and not network.bind.ok:
        return False  # node 0 reports what holds the port
    opened = network.contact is not None and network.contact.outcome == "open"
    return opened and network.answer is not None and network.answer.kind in ("silent", "closed")


def answer_text(node: Node) -> str:
    answer = node.network.answer
    return "the connection was closed at once" if answer and answer.kind == "closed" else "got no answer"


def finding(cluster: Cluster, nodes: list[Node]) -> Finding:
    owner, name = master_port_owner(cluster, nodes)
    contact = nodes[0].network.contact
    where = f"{contact.address}:{contact.port}" if contact else f"port {nodes[0].plan.master_port}"
    hosted = ", although node 0 hosts its store" if store_host(cluster) else ""
    return Finding.about(
        [name],
        f"{where} ({name}) accepts connections and never answers{hosted}.",
        links=links_to(nodes, name),
        evidence=(
            *(f"{n.name}: connected to {n.plan.master_addr}:{n.plan.master_port}, {answer_text(n)}" for n in nodes),
            f"observed by {names_of(nodes)} until the wait ended",
        ),
        fixes=other_master_port_fixes(cluster, None),
        # Without facts of node 0 a leftover process there, or a node 0 not yet started, is as likely.
        because_of=None if owner else "all met",
    )

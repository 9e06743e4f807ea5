"""MASTER_ADDR is not an address of node 0.

## What you see
Silence on every node, also on node 0, then

    The client socket has timed out after 60000ms while trying to connect to (192.168.0.1, 29500)

Node 0 hosts its store, and looks for it at another address.

## Why it happens
The value is a placeholder, an old address or another host's address. Or it is localhost on several hosts, where each
one means itself. Or it is a published port of a container, which works from outside but, without hairpin NAT, not from
the container itself.

torchrun hosts the store on the node of rank 0 for any MASTER_ADDR. A launch script that gets the first host from
scontrol may fall back to localhost (`scontrol: command not found`), as in a container without SLURM's tools.

## Fix
Set MASTER_ADDR on every node to an address of node 0 that the others reach: `export MASTER_ADDR=10.77.0.10`.

A published port of a container may work on all nodes but node 0. Then set MASTER_ADDR on node 0 alone to its own
address.

## Confirm with
`ip -br address` on node 0 lists the address of `getent hosts $MASTER_ADDR`.

## When it is harmless
MASTER_ADDR is forwarded to node 0 (a service address, address translation): the store is then reached, and nothing is
reported. localhost is right if all nodes are on one host.

## See also
environment/master-mismatch, network/master-unresolvable, store/nodes-missing
"""

from collections.abc import Collection, Iterator

from distdoctor.check_api import (
    NODE_0_AND_CHECK,
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    claims_node0,
    contact_text,
    launch_variables,
    master,
    master_means_itself,
    names_of,
    reachable_address,
    route_obstacle,
    set_master_fixes,
    together,
)

SEVERITY = "fail"
MATTERS = "an elastic job still starts, as a separate job on each node"
NEXT = NODE_0_AND_CHECK
JOINED = "has failed to s(?:end a keep-alive heartbeat to|hutdown) the rendezvous"
"""Lines of an agent that had joined, so that its address was right."""
LOG = (
    Line(
        ("scontrol: command not found", "scontrol: not found"),
        shows="hint",
        why="it is harmless if the script finds the first host otherwise",
    ),
    Line(("failed to bind to", "failed to listen on"), r"errno: 99\b|system error: 10049\b|EADDRNOTAVAIL"),
    Line(
        ("client socket has timed out", "connect() timed out"),
        "timed out",
        shows="symptom",
        why="dropped packets, and a node 0 that has not started or has died, show the same",
    ),
    Line(
        ("RendezvousConnectionError", "connection to the C10d store has failed"),
        unless=JOINED,
        shows="symptom",
        why="a node 0 that is down shows the same",
    ),
    Line("RendezvousTimeoutError", unless=JOINED, shows="symptom", why="a node that was never started shows the same"),
    Line(
        "failed to connect to any network address",
        shows="hint",
        why="no agent has the address as its own, or the address is unreachable",
    ),
)
PREVENTS = "store hosted"
LOOKS_AT = ("network.master", "everyone")
FOLLOWS = (
    "host/lo-down",
    "environment/invalid-variable",
    "environment/missing-variable",
    "environment/duplicate-node-rank",
    "environment/duplicate-rank",
    "network/master-resolves-differently",
)
FOLLOWS_ANYWHERE = ("host/hostname-numeric",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    misdirected = [node for node in cluster.nodes if not reaches_itself(node)]
    looped = [node for node in cluster.nodes if means_itself(cluster, node)]
    bad = [*misdirected, *(node for node in looped if node not in misdirected)]
    if not bad and nobody_hosts(cluster):
        bad = [n for n in cluster.nodes if n.network.master and n.network.master.addresses]
    # Whoever names the same wrong value is wrong with it; a name may mean its own host on one node alone.
    values = {node.plan.master_addr for node in bad if node not in looped}
    pairs = {(node.plan.master_addr, node.master_addresses) for node in looped}
    bad = [n for n in cluster.nodes if n in bad or (shares(n, values, pairs) and n.plan.master_addr and not joined(n))]
    if not bad:
        return
    zero = right_node(cluster)
    if zero is not None and bad == [zero] and (visitors := guests(cluster, zero)):
        yield forwarded(cluster, zero, visitors)
    else:
        yield finding(cluster, bad)


def guests(cluster: Cluster, zero: Node) -> tuple[str, ...]:
    """Return the nodes that joined the store of a node 0 that cannot reach itself by MASTER_ADDR; empty if none did."""
    if reaches_itself(zero) or sum(claims_node0(node) for node in cluster.nodes) > 1:
        return ()
    others = [peer for peer in cluster.peers(zero) if joined(peer)]
    theirs = [peer.name for peer in others if {*peer.master_addresses} & {*zero.master_addresses}]
    return tuple(theirs) or ("others",) * min(zero.meeting.visitors, 1)


def forwarded(cluster: Cluster, zero: Node, visitors: tuple[str, ...]) -> Finding:
    """The finding about a MASTER_ADDR that is forwarded to node 0, and that node 0 itself cannot use: a TCPStore's host
    is a client of it, too (torch/csrc/distributed/c10d/TCPStore.cpp)."""
    master, own = zero.plan.master_addr, reachable_address(zero, cluster)
    who = together(visitors)
    text = f"On {zero.name} alone, set the master to its own address; the other nodes keep {master}."
    return Finding.about(
        (zero,),
        f"MASTER_ADDR {master} works on {who}, but not on {zero.name}, which hosts the store.",
        evidence=(*evidence(zero), f"{who} reached its store at {master}: it is forwarded (a published port, NAT)"),
        fixes=set_master_fixes([zero], text, address=own) if own else (Fix.on(zero, text),),
    )


def shares(node: Node, values: Collection[str | None], pairs: Collection[tuple[str | None, tuple[str, ...]]]) -> bool:
    """Return whether the node has one of these values for MASTER_ADDR, or one that resolves to the same addresses."""
    return node.plan.master_addr in values or (node.plan.master_addr, node.master_addresses) in pairs


def joined(node: Node) -> bool:
    """Return whether the node got into a store of this job that others share."""
    meeting = node.meeting
    return meeting.joined and (not meeting.hosted or len(meeting.arrived) > 1)


def reaches_itself(node: Node) -> bool:
    """Return False for a node 0, by its own plan, that hosts the store while MASTER_ADDR leads to another host."""
    network, meeting = node.network, node.meeting
    if meeting.joined or network.master_is_own is not False:
        return True
    if node.plan.agent_store or not claims_node0(node):
        return True
    hosting = bool(network.bind and network.bind.ok)
    return not (meeting.ended or (hosting and meeting.hosted))


def means_itself(cluster: Cluster, node: Node) -> bool:
    """Return whether localhost on this node keeps it from the others, who are on other hosts."""
    meeting = node.meeting
    if not master_means_itself(node) or not several(node) or node.network.elsewhere is not None:
        return False  # or it leads to the others, who have another port there
    if not meeting.ended:
        # They have not tried to meet. Where node 0 itself is seen, on another host, they will not.
        later = bool(node.plan.node_rank) and not meeting.joined
        return later and any(claims_node0(peer) and not peer.meeting.ended for peer in cluster.peers(node))
    if meeting.waited + 1 < meeting.wait_limit:
        return False  # the others may be on this host, and still to come
    if meeting.joined and not meeting.hosted:
        return False
    if meeting.hosted and meeting.arrived and (len(meeting.arrived) >= meeting.expected or len(meeting.arrived) > 1):
        return False
    if len(cluster.nodes) == 1:
        return master.plans_other_hosts(node) and not alone_for_another_reason(node)
    # Nodes on the same host only: localhost leads to them. Nodes on other hosts with the right name reach it, too,
    # unless they have a store of their own: with c10d each node whose endpoint is its own address hosts one.
    peers = cluster.peers(node)
    return bool(peers) and (not meeting.hosted or any(master_means_itself(p) or p.meeting.hosted for p in peers))


def alone_for_another_reason(node: Node) -> bool:
    """Return whether the port itself is what this node failed at: it could not host, or something else answered."""
    network = node.network
    if not node.saw("network"):
        return True
    taken = network.bind is not None and not network.bind.ok
    return taken or (network.answer is not None and network.answer.kind != "distdoctor")


def several(node: Node) -> bool:
    plan = node.plan
    return (plan.nnodes or 0) > 1 or (plan.nnodes is None and (plan.world_size or 0) > 1)


def nobody_hosts(cluster: Cluster) -> bool:
    """Return whether the facts of several hosts are here, all have waited in vain, and MASTER_ADDR is on none of
    them."""
    if len({node.host_key for node in cluster.nodes}) < 2 or node0_may_be_absent(cluster):
        return False
    waited = (n.meeting.ended and not n.meeting.joined and not n.meeting.hosted for n in cluster.nodes)
    return all(waited) and all(n.network.master_is_own is False and n.network.bind is None for n in cluster.nodes)


def node0_may_be_absent(cluster: Cluster) -> bool:
    """Return whether none of these calls itself node 0, and the facts of some nodes are not here: one of those may
    be it."""
    plan = cluster.plan
    if any(0 in (node.plan.node_rank, node.plan.rank) for node in cluster.nodes):
        return False
    if plan.started == "rank":
        return len(cluster.slices) < (plan.world_size or 0)
    return len(cluster.nodes) < (plan.min_nodes or plan.nnodes or 0)


def finding(cluster: Cluster, bad: list[Node]) -> Finding:
    values = list(dict.fromkeys(str(node.plan.master_addr) for node in bad))
    looped, zero = all(master_means_itself(node) for node in bad), right_node(cluster)
    why = "means each host itself" if looped else "is not an address of node 0"
    return Finding.about(
        bad,
        f"MASTER_ADDR {together(values)} on {names_of(bad)} {why}.",
        severity="warn" if looped and all(map(master.starts_without_the_rest, bad)) else "fail",
        evidence=(line for node in bad for line in evidence(node, node is zero)),
        fixes=fixes(cluster, bad),
    )


def evidence(node: Node, right: bool = True) -> Iterator[str]:
    """``right``: where it takes itself for node 0 it is."""
    if not node.saw("network"):
        return
    resolved, contact = ", ".join(node.master_addresses), node.network.contact
    source = node.plan.sources.get("master_addr", "default")
    yield f"{node.name}: MASTER_ADDR {node.plan.master_addr} (from {source}) is {resolved or 'not resolved'}"
    addresses = ", ".join(f"{a} ({node.interface_of(a)})" for a in node.addresses)
    if has_own_network(node):
        yield f"{node.name}: SLURM started it on {node.plan.master_addr}, whose address is on no interface here"
    if master_means_itself(node) and master.first_of_job(node) is not None:
        listed = f"{master.JOB_LIST}={node.variables[master.JOB_LIST]}"
        yield f"{node.name}: {listed}; launch scripts that use scontrol fall back to localhost without it"
    if claims_node0(node):
        yield f"{node.name} {'is' if right else 'acts as'} node 0 and has {addresses or 'no address'}"
    if contact and contact.outcome != "open":
        yield f"{node.name}: {contact_text(contact)}"


def has_own_network(node: Node) -> bool:
    """Return whether MASTER_ADDR is the node's own name by SLURM, which started this there, and is no address here:
    the process has a network of its own, as in a container that was started without the host's."""
    own = node.variables.get(launch_variables.SLURM_NODE, "").partition(".")[0]
    named = bool(own) and (node.plan.master_addr or "").partition(".")[0] == own
    return named and claims_node0(node) and not (set(node.master_addresses) & set(node.addresses))


def fixes(cluster: Cluster, bad: list[Node]) -> tuple[Fix, ...]:
    zero = right_node(cluster)
    if zero is not None and zero in bad and has_own_network(zero):
        text = "Start the container with its host's network (docker, podman: --network=host), on every node."
        return (Fix(text),)
    first, declared = master.first_of_job(bad[0]), 0 in (bad[0].plan.node_rank, bad[0].plan.rank)
    if first is not None and len(cluster.nodes) == 1 and master_means_itself(bad[0]) and not declared:
        return set_master_fixes(bad, f"Set the master to {first}, the first node of the SLURM job.", address=first)
    address = reachable_address(zero, cluster) if zero else None
    if address is None:
        text = "Set MASTER_ADDR on every node to an address of node 0 that the others reach."
        port, value = bad[0].plan.master_port, bad[0].plan.master_addr
        same_host = f"Or, if all nodes belong on this host, keep {value} and start the others here with port {port}."
        alone = len(cluster.nodes) == 1 and master_means_itself(bad[0])
        here = [Fix.on(bad, same_host, 2)] if alone else []
        return (Fix.on(bad, text, unknown=("--master-addr",)), *here)
    assert zero is not None
    if not may_reach(zero, address, bad):
        text = (
            f"Start the container of {zero.name} with its machine's network (docker, podman: --network=host): no other "
            f"node has a route to its {address}. Else forward {bad[0].plan.master_addr} to {zero.name} on port "
            f"{zero.plan.master_port} and all other ports."
        )
        return (Fix.on((zero,), text),)
    # The node that is node 0 takes the same value, so that all have one.
    text = f"Set the master to the address of {zero.name}, node 0, that the others reach."
    return set_master_fixes(bad, text, address=address)


def may_reach(zero: Node, address: str, bad: list[Node]) -> bool:
    """Return whether any other node may reach this address of node 0, as far as their routing tables are known."""
    others = [node for node in bad if node.host_key != zero.host_key]
    tried = [(node, route_obstacle(node, zero, address)) for node in others]
    return not others or any(way is None or way.node is not node or way.kind != "none" for node, way in tried)


def right_node(cluster: Cluster) -> Node | None:
    """Node 0, by its rank where ranks were declared, else the first that took itself for it."""
    if cluster.node0 is not None:
        return cluster.node0
    declared = [n for n in cluster.nodes if n.plan.node_rank == 0 or n.plan.rank == 0]
    others = declared or [n for n in cluster.nodes if claims_node0(n)]
    if others:
        return others[0]
    return cluster.nodes[0] if len(cluster.nodes) > 1 else None

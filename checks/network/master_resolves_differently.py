"""MASTER_ADDR resolves to different hosts on different nodes.

## What you see
The launch lines are equal, but node 0 waits in silence. The others print, after one to thirty minutes,

    The client socket has timed out after 60000ms while trying to connect to (host0, 29500)

## Why it happens
One node's /etc/hosts has an old or cloned line (`127.0.1.1 host0` on all hosts), or the name servers disagree. Or it is
one address that several nodes have (a service's address, docker0's): each node then connects to itself.

## Fix
Correct the name on the nodes where it is wrong, `echo "10.77.0.10 host0" >> /etc/hosts`, or use node 0's address:
`export MASTER_ADDR=10.77.0.10`.

Use an address that no other node has.

## Confirm with
`for h in host0 host1; do ssh $h getent hosts host0; done` prints the same address for every node.

## When it is harmless
Different addresses of the same host are fine and are not reported. Neither is node 0's own name on loopback on node 0
itself. Nor is an address that every node has and that is forwarded to node 0.

## See also
environment/master-mismatch, network/master-unresolvable, network/master-not-node0
"""

import re
import shlex
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    MasterTarget,
    Node,
    append_hosts_line,
    correct_master_target,
    is_loopback,
    master_targets,
    names_of,
    names_with_different_masters,
    reachable_address,
    set_master_fixes,
    shared_master_address,
    together,
)

SEVERITY = "fail"
PREVENTS = "master resolved"
LOOKS_AT = ("network.master", "everyone")
FOLLOWS = ("environment/invalid-variable", "environment/missing-variable", "network/duplicate-address")


def judge(cluster: Cluster) -> Iterator[Finding]:
    targets = master_targets(cluster)
    for name, nodes in names_with_different_masters(cluster, targets).items():
        yield finding(cluster, name, nodes, targets)


def finding(cluster: Cluster, name: str, nodes: list[Node], targets: dict[str, MasterTarget]) -> Finding:
    right, sure = correct_master_target(nodes, targets)
    wrong = [node for node in nodes if targets[node.name] != right]
    blamed = wrong if sure else nodes
    mirrored = {node: at for node in wrong if (at := shared_master_address(cluster, node, right)) is not None}
    if mirrored:
        return each_itself(cluster, name, nodes, mirrored, right)
    says = dict.fromkeys(", ".join(node.master_addresses) for node in wrong)
    who = names_of(wrong)
    return Finding.about(
        blamed,
        f"{name} resolves to {together(says)} on {who}, and to another host on the other nodes.",
        unsure=not sure,
        evidence=(line for node in nodes for line in evidence(node)),
        fixes=fixes(cluster, name, nodes, wrong, targets, right),
    )


def each_itself(
    cluster: Cluster, name: str, nodes: list[Node], mirrored: dict[Node, str], right: MasterTarget
) -> Finding:
    """The finding about an address that node 0 has, and these nodes as well."""
    at = next(iter(mirrored.values()))
    owner = next(node for node in cluster.nodes if node.host_key == right[0])
    others = {address for node in cluster.nodes if node.host_key != right[0] for address in node.addresses}
    better = reachable_address(owner, cluster, but=others)
    who = names_of(mirrored)
    text = f"Set the master on every node to an address that only node 0 has{f': {better}' if better else ''}."
    return Finding.about(
        mirrored,
        f"{who} {'has' if len(mirrored) == 1 else 'have'} node 0's address {at}{f' ({name})' if name != at else ''}, "
        f"too, and {'connects to itself' if len(mirrored) == 1 else 'connect to themselves'}.",
        title="MASTER_ADDR is an address that several nodes have",
        evidence=(
            *(line for node in nodes for line in evidence(node)),
            *(f"{node.name}: {at} is its own ({node.interface_of(at)})" for node in (owner, *mirrored)),
        ),
        fixes=set_master_fixes(nodes, text, address=better) if better else (Fix.on(nodes, text),),
    )


def evidence(node: Node) -> Iterator[str]:
    name, addresses = node.plan.master_addr, ", ".join(node.master_addresses)
    parts = [f"{name} is {addresses}"] if name != addresses else []
    parts += ["hosts the store"] if node.meeting.hosted else []
    if parts:
        yield f"{node.name}: {', and '.join(parts)}"


def fixes(
    cluster: Cluster,
    name: str,
    nodes: list[Node],
    wrong: list[Node],
    targets: dict[str, MasterTarget],
    right: MasterTarget,
) -> Iterator[Fix]:
    address = node0_address(cluster, nodes, targets, right)
    if address is None:
        yield Fix.on(wrong, f"Let {name} resolve to the same host on {names_of(wrong)} as on the other nodes.")
        return
    text = f"Let {name} resolve to {address} in /etc/hosts."
    for node in wrong:
        yield Fix.on(node, text, commands=(in_hosts(name, address),))
    yield from set_master_fixes(nodes, "Or use node 0's address on every node.", address=address, option=2)


def node0_address(
    cluster: Cluster, nodes: list[Node], targets: dict[str, MasterTarget], right: MasterTarget
) -> str | None:
    """Node 0's address as those that get there resolve it; else that of the host they get to."""
    for node in nodes:
        if targets[node.name] == right and node.host_key != right[0]:
            return node.master_addresses[0]
    owner = next((node for node in cluster.nodes if node.host_key == right[0]), None)
    own = [a for node in nodes if node is owner for a in node.master_addresses if not is_loopback(a)]
    return own[0] if own else reachable_address(owner, cluster) if owner else None


def in_hosts(name: str, address: str) -> str:
    """Return a command that lets ``name`` resolve to ``address`` on this node: it replaces the old entries."""
    gone = re.sub(r"([][.*^$/\\])", r"\\\1", name)
    edit = shlex.quote(f"s/^\\([^#]*[[:space:]]\\){gone}\\([[:space:]]\\|$\\)/\\1\\2/")
    taken_off = f'new=$(sed {edit} /etc/hosts) && printf "%s\\n" "$new" > /etc/hosts'
    return f"{taken_off} && {append_hosts_line(address, name)}"

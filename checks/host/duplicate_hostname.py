"""Two nodes have the same host name.

What you see
------------
With torchrun's c10d rendezvous: the agents meet, then the ranks of one node wait for a store on their own host,

    The client socket has timed out after 60000ms while trying to connect to (worker, 37461)

while those of the other node have formed theirs.

Why it happens
--------------
Hosts cloned from one image, or containers given the same --hostname. The first agent announces the store of the ranks
by what its host calls itself (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py), and on the other host that
name means the other host. Two containers whose agents also have the same process number are even one node to the
rendezvous.

Fix
---
Give each node a name of its own, or each agent the address of its node: torchrun --local-addr, PET_LOCAL_ADDR.

When it is harmless
-------------------
With the static rendezvous (--node-rank and --master-addr) nobody asks for these names; nothing is found there.
Nor where the name has the addresses of all of these nodes on each of them: the ranks try one after the other.

See also
--------
host/rendezvous-name, network/duplicate-address
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, is_loopback, names_of, reachable_address

SEVERITY = "fail"
PREVENTS = "store used"
MATTERS = "by luck: the ranks meet under that name, and it leads to one of these nodes alone"
LOOKS_AT = ("everyone",)
GIVEN = "PET_LOCAL_ADDR"


def judge(cluster: Cluster) -> Iterator[Finding]:
    named: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        announced = node.host.announced
        if announced is not None and asks_for_names(node):
            named.setdefault(announced.name, []).append(node)
    for name, nodes in named.items():
        if len({node.host_key for node in nodes}) > 1 and any(lost(nodes, host) for host in nodes):
            yield finding(cluster, name, nodes)


def asks_for_names(node: Node) -> bool:
    """Return whether torchrun, started as this check was, announces this host's name to other nodes."""
    plan = node.plan
    several = plan.started == "node" and plan.rdzv_backend == "c10d" and (plan.nnodes or 1) > 1
    return several and not plan.local_addr and not node.variables.get(GIVEN)


def finding(cluster: Cluster, name: str, nodes: list[Node]) -> Finding:
    return Finding.about(
        nodes,
        f"{names_of(nodes)} have the same name, {name}, by which torchrun's ranks look for their store.",
        severity="fail" if all(lost(nodes, host) for host in nodes) else "warn",
        evidence=(f"{node.name}: its name is {name}, which is {meaning(node)} there" for node in nodes),
        fixes=(
            *(fix for node in nodes for fix in own_address(cluster, node)),
            Fix.on(nodes, "Or give each a host name of its own (hostnamectl set-hostname), which the others know.", 2),
        ),
    )


def lost(nodes: list[Node], host: Node) -> bool:
    """Return whether one of the nodes does not find ``host``, were the store there: by none of the addresses that
    the name has on it, which torch tries one after the other (TCPStore's socket.cpp)."""
    others = (node for node in nodes if node.host_key != host.host_key)
    return any(not {*addresses(node)} & {*host.addresses} for node in others)


def addresses(node: Node) -> list[str]:
    """Those of its name, seen from itself, by which another host can be meant."""
    announced = node.host.announced
    return [address for address in announced.addresses if not is_loopback(address)] if announced is not None else []


def meaning(node: Node) -> str:
    announced = node.host.announced
    return ", ".join(announced.addresses) if announced is not None and announced.addresses else "no address"


def own_address(cluster: Cluster, node: Node) -> Iterator[Fix]:
    address = reachable_address(node, cluster)
    if address is not None:
        yield Fix.on(node, "Have the agent announce its node's own address.", env={GIVEN: address})
    else:
        yield Fix.on(node, "Have the agent announce its node's own address (torchrun --local-addr).")

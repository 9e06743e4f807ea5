"""Two nodes have the same host name.

## What you see
With torchrun's c10d rendezvous the agents join. Then the ranks of one node wait for a store on their own host,

    The client socket has timed out after 60000ms while trying to connect to (worker, 37461)

while the ranks of the other node have formed their group.

## Why it happens
Hosts were cloned from one image, or containers have the same --hostname. The first agent advertises the store by its
own host name (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py), and on the other host that name means the
other host. Two such containers with the same agent pid are even one node to the rendezvous.

## Fix
Give each node its own name, `hostnamectl set-hostname host1`, or each agent its node's address: `torchrun --local-addr
10.77.0.11 ...` (PET_LOCAL_ADDR).

## Confirm with
`for h in 10.77.0.10 10.77.0.11; do ssh $h hostname -f; done` prints different names.

## When it is harmless
With the static rendezvous (--node-rank and --master-addr) no process looks these names up; nothing is reported. Nor if
the name has the addresses of all these nodes on each of them: the ranks try one after the other.

## See also
host/rendezvous-name, network/duplicate-address
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, is_loopback, names_of, reachable_address

SEVERITY = "fail"
PREVENTS = "store used"
MATTERS = "the ranks look up that name, and it leads to only one of these nodes"
LOOKS_AT = ("everyone",)
GIVEN = "PET_LOCAL_ADDR"


def judge(cluster: Cluster) -> Iterator[Finding]:
    named: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        announced = node.host.announced
        if announced is not None and asks_for_names(node):
            named.setdefault(announced.name, []).append(node)
    for name, nodes in named.items():
        if len({node.host_key for node in nodes}) > 1 and any(unreachable(nodes, host) for host in nodes):
            yield finding(cluster, name, nodes)


def asks_for_names(node: Node) -> bool:
    """Return whether torchrun, started as this check was, announces this host's name to other nodes."""
    plan = node.plan
    several = plan.started == "node" and plan.rdzv_backend == "c10d" and (plan.nnodes or 1) > 1
    return several and not plan.local_addr and not node.variables.get(GIVEN)


def finding(cluster: Cluster, name: str, nodes: list[Node]) -> Finding:
    return Finding.about(
        nodes,
        f"{names_of(nodes)} have the same name, {name}, under which torchrun's ranks look for their store.",
        severity="fail" if all(unreachable(nodes, host) for host in nodes) else "warn",
        evidence=(f"{node.name}: its name is {name}, which resolves to {addresses_text(node)} there" for node in nodes),
        fixes=(
            *(fix for node in nodes for fix in own_address(cluster, node)),
            Fix.on(nodes, "Or give each node its own host name (hostnamectl set-hostname) and add it to DNS.", 2),
        ),
    )


def unreachable(nodes: list[Node], host: Node) -> bool:
    """Return whether one of the nodes would not find a store on ``host`` by the addresses of the name.

    torch tries them one after the other (TCPStore's socket.cpp)."""
    others = (node for node in nodes if node.host_key != host.host_key)
    return any(not {*addresses(node)} & {*host.addresses} for node in others)


def addresses(node: Node) -> list[str]:
    """Return the addresses of its name, as it resolves there, without loopback."""
    announced = node.host.announced
    return [address for address in announced.addresses if not is_loopback(address)] if announced is not None else []


def addresses_text(node: Node) -> str:
    announced = node.host.announced
    return ", ".join(announced.addresses) if announced is not None and announced.addresses else "no address"


def own_address(cluster: Cluster, node: Node) -> Iterator[Fix]:
    address = reachable_address(node, cluster)
    if address is not None:
        yield Fix.on(node, "Let the agent advertise its node's own address.", env={GIVEN: address})
    else:
        yield Fix.on(node, "Let the agent advertise its node's own address (torchrun --local-addr).")

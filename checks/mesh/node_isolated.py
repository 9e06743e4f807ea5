"""A node reaches no other node, and no node reaches it.

## What you see
The store works on every rank, because it needs only the path to node 0's MASTER_PORT. Then init_process_group() hangs
on every rank, or `connectFullMesh failed` names addresses of one node.

## Why it happens
A packet filter on that node blocks other ports, or the node is missing from the security group. Or its data interface
has a wrong VLAN or subnet, or its cable or switch port is broken.

## Fix
On that node, accept all TCP ports from the others: `nft insert rule inet filter input ip saddr 10.0.0.0/24 accept`. In
a cloud console, add the node to the security group of the other nodes. Or remove the node from the job.

## Confirm with
`nc -zv 10.0.0.11 40000` from another node (must not time out) while `nc -l 40000` runs there.

## When it is harmless
Never: all ranks connect to all others.

## See also
mesh/peer-ports-blocked, mesh/partition, mesh/one-way
"""

from distdoctor.check_api import Cluster, Finding, Iterator, link_finding, link_graph, some_of

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


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    alone = graph.isolated
    if not alone:
        return
    verb = "reaches" if len(alone) == 1 else "reach"
    edges = graph.edges_of(alone, 2 * len(graph.nodes) * len(alone))
    summary = f"{some_of(node.name for node in alone)} {verb} no other node on random ports, and no other reaches "
    yield link_finding(cluster, summary + ("it." if len(alone) == 1 else "them."), edges, alone)

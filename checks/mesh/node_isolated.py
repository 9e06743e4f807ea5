"""A node reaches no other node, and none reaches it.

What you see
------------
The store works on every rank, since all it needs is the way to node 0's MASTER_PORT. Then init_process_group() hangs on
every rank, or names addresses of one node in `connectFullMesh failed`.

Why it happens
--------------
A packet filter on that node, a security group that it is not in, a wrong VLAN or subnet on its data interface, or a
broken cable or switch port.

Fix
---
Let that node and the others through to each other on all TCP ports, or leave it out of the job.

When it is harmless
-------------------
Never: all ranks connect to all others.

See also
--------
mesh/peer-ports-blocked, mesh/partition, mesh/one-way
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, link_finding, link_graph, some_of

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
    what = "reaches" if len(alone) == 1 else "reach"
    edges = graph.edges_of(alone, 2 * len(graph.nodes) * len(alone))
    summary = f"{some_of(node.name for node in alone)} {what} no other node on random ports, and no other reaches "
    yield link_finding(cluster, summary + ("it." if len(alone) == 1 else "them."), edges, alone)

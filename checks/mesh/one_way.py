"""Connections between nodes work in one direction only.

What you see
------------
The store works on every rank, then init_process_group() or the first collective hangs on some ranks, although each
node can be pinged from everywhere.

Why it happens
--------------
A packet filter or a security group that lets connections out and not in (or in and not out) for some of the nodes, a
route that leads back another way (rp_filter drops it then), or a switch port that loses one direction.

Fix
---
Let these nodes connect to each other on all TCP ports, in both directions.

When it is harmless
-------------------
gloo connects from the numerically larger address to the smaller only: what is blocked in the other direction does it no
harm, and would to NCCL. The finding is then a warning.

See also
--------
mesh/peer-ports-blocked, mesh/node-isolated, mesh/partition
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    how_links_fail,
    link_arrows,
    link_culprits,
    link_finding_by_need,
    link_graph,
    some_of,
)

SEVERITY = "fail"
MATTERS = "by luck: gloo does not connect in that direction; NCCL would, and hang"
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
    if graph.mute:
        edges = graph.edges_of(graph.mute, len(graph.nodes) * len(graph.mute), inward=False)
        what = "reaches" if len(graph.mute) == 1 else "reach"
        summary = (
            f"{some_of(n.name for n in graph.mute)} {what} no other node on random ports, though others get there."
        )
        yield link_finding_by_need(cluster, summary, edges, graph.mute)
    for star in graph.stars:
        if not star.one_way:
            continue
        blamed, unsure = link_culprits(cluster, star)
        how = how_links_fail(star.edges)
        summary = f"Connections from {link_arrows(star.edges)} {how}; in the other direction they work."
        yield link_finding_by_need(cluster, summary, star.edges, blamed, unsure)

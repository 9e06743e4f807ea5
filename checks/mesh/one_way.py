"""Connections between nodes work in one direction only.

## What you see
The store works on every rank. Then init_process_group() or the first collective hangs on some ranks, although every
node answers a ping.

## Why it happens
A packet filter or security group accepts connections in one direction only, for some of the nodes. Or the return route
differs (rp_filter then drops the packets), or a switch port loses one direction.

## Fix
Accept all TCP ports between these nodes in both directions:
`nft insert rule inet filter input ip saddr 10.0.0.0/24 accept`.

## Confirm with
`ip route get 10.0.0.11` on both nodes, and `sysctl net.ipv4.conf.all.rp_filter`.

## When it is harmless
gloo connects only from the numerically larger address to the smaller one. A block in the other direction harms NCCL
but not gloo; the finding is then a warning.

## See also
mesh/peer-ports-blocked, mesh/node-isolated, mesh/partition
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Iterator,
    how_links_fail,
    link_arrows,
    link_culprits,
    link_finding_by_need,
    link_graph,
    some_of,
)

SEVERITY = "fail"
MATTERS = "gloo does not connect in that direction; NCCL would, and hang"
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
        verb, pronoun = ("reaches", "it") if len(graph.mute) == 1 else ("reach", "them")
        summary = (
            f"{some_of(n.name for n in graph.mute)} {verb} no other node on random ports, although others reach "
            f"{pronoun}."
        )
        yield link_finding_by_need(cluster, summary, edges, graph.mute)
    for star in graph.stars:
        if not star.one_way:
            continue
        blamed, unsure = link_culprits(cluster, star)
        how = how_links_fail(star.edges)
        summary = f"Connections from {link_arrows(star.edges)} {how}; the other direction works."
        yield link_finding_by_need(cluster, summary, star.edges, blamed, unsure)

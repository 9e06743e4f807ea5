"""A packet filter limits the number of connections of a host.

What you see
------------
A job of few ranks works, and one of more does not. Some connections of init_process_group() are refused or get no
answer: `connectFullMesh failed ... Connection refused` or silence. A single connection to the same host works.

Why it happens
--------------
A rule against floods counts the connections of one host or all hosts (nft's ct count, iptables' connlimit). Or it
counts new connections per time (nft's limit rate over, iptables' hashlimit and recent). It drops or refuses all beyond
the limit. Or one rule accepts a number (limit, --syn), and the next rule drops the rest.

With gloo each rank connects to every other rank and to the store.

Fix
---
Accept the nodes of the job before that rule, `nft insert rule inet filter input ip saddr 10.77.0.0/24 accept`; or raise
its limit above ranks x ranks of two nodes plus the store's connections.

Confirm with
------------
`nft list ruleset | grep -E 'ct count|limit rate'` shows no rule that applies to the job's nodes.

When it is harmless
-------------------
If the limit is not reached, nothing is reported. If connections only wait for the rule, it is a WARN: the job starts
seconds later, and more ranks wait longer. With one new connection per second, ranks of 2 x 2 start 5 s later, of 2 x 4
23 s later. Ranks of 2 x 8 fail (connectFullMesh timed out).

It is also a WARN if the rule is not visible, as on a switch, and each connection loses two SYNs on lossless links.

See also
--------
mesh/peer-ports-blocked, network/port-refused, host/conntrack-full
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    FailingLink,
    Finding,
    LateConnections,
    Node,
    Severity,
    contact_text,
    failed_contacts,
    failed_ranks,
    gloo_errors_name,
    link_arrows,
    link_graph,
    open_firewall_fix,
    own_addresses_filtered,
    rank_errors_text,
    source_addresses,
    store_host,
)

SEVERITY = "fail"
MATTERS = "the job starts only after the rule has accepted its connections: the more ranks, the later"
PREVENTS = "store reached"
LOOKS_AT = ("network",)
BY_NUMBER = re.compile(r"\bct count\b|connlimit|\bhashlimit\b|\brecent\b|\blimit rate over\b")
GAVE_UP = re.compile(r"timed out|did not return|refused")
TURNED_AWAY = ("no-answer", "refused", "rejected", "reset")
SHOWN = 8
MAX_LINKS = 64
OFTEN = 2
LOST = 3
"""Segments of small messages sent again on a link from which it is lossy; fewer may be chance."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes if cluster.multi_host else ():
        if rules(node) and (evidence_lines := (*to_the_store(cluster, node), *between_ranks(cluster, node))):
            yield finding(cluster, node, evidence_lines)
        elif (late := late_connections(cluster, node)) and (rules(node) or held_back(late, node)):
            yield slowed(cluster, node, late)


def rules(node: Node) -> tuple[str, ...]:
    """Return the rules for packets to this node that count connections and refuse those beyond a limit."""
    delayed_peers = []
    for chain in node.filter_chains:
        if chain.hook == "input":
            counting = ((rule, chain.single_ports(rule)) for rule in chain.blocking_rules if BY_NUMBER.search(rule))
            delayed_peers += [rule for rule, ports in counting if not ports or str(node.plan.master_port) in ports]
            # One that accepts for single ports says nothing of why others are shut.
            delayed_peers += [rule for rule in chain.limited if not chain.single_ports(rule)]
    return tuple(delayed_peers)


def to_the_store(cluster: Cluster, node: Node) -> Iterator[str]:
    """Connections to the store on this node, and on random ports, that were turned away."""
    for attempt in failed_contacts(cluster, TURNED_AWAY) if store_host(cluster) is node else ():
        if attempt.contact.address in node.addresses:  # its own, too: a rule may have no exception for lo
            yield f"{attempt.node.name}: {contact_text(attempt.contact)}"
    if store_host(cluster) is node:
        failed = [rank for rank in failed_ranks(cluster, "store") if rank.node is not node]
        yield from rank_errors_text([rank for rank in failed if GAVE_UP.search(rank.stage.error or "")])
    edges = links(cluster, node)
    if edges:
        yield f"connections from {link_arrows(edges)} on random ports failed"


def links(cluster: Cluster, node: Node) -> list[FailingLink]:
    edges = link_graph(cluster).edges_of([node], MAX_LINKS, outward=False)
    return [edge for edge in edges if edge.link.outcome in TURNED_AWAY]


def between_ranks(cluster: Cluster, node: Node) -> tuple[str, ...]:
    """Return the errors of ranks on other nodes whose connections to this node's ranks failed, though a single one
    works."""
    ended = failed_ranks(cluster, "gloo") or failed_ranks(cluster, "gloo-groups")
    failed: list[FailedRank] = [rank for rank in ended if rank.node is not node]
    if not failed or links(cluster, node) or node.gloo_address != node.reached_at:
        return ()
    silent = all(not rank.stage.error or "did not return" in rank.stage.error for rank in failed)
    return rank_errors_text(failed) if silent or gloo_errors_name(cluster, [node.gloo_address]) else ()


def late_connections(cluster: Cluster, node: Node) -> dict[Node, LateConnections]:
    """Return the nodes whose ranks repeated SYNs to this node, though no other packet to it was lost."""
    delayed_peers = {}
    for peer in cluster.peers(node):
        lossy = any(rate.retransmitted >= LOST for rate in peer.mesh.rates if cluster.by_key.get(rate.to) is node)
        for late in peer.network.late_connections if not lossy else ():
            if late.address in node.addresses:
                delayed_peers[peer] = late
    return delayed_peers


def held_back(late: dict[Node, LateConnections], node: Node) -> bool:
    """Return whether something that is not seen limits new connections to this node: those that were late lost two SYNs
    and more each, where no other packet was lost and no network card went down."""
    steady = not any(any((member.host.link_losses or {}).values()) for member in (node, *late))
    return steady and sum(c.repeated for c in late.values()) >= OFTEN * sum(c.late for c in late.values())


def slowed(cluster: Cluster, node: Node, late: dict[Node, LateConnections]) -> Finding:
    shown = list(late.items())[:SHOWN]
    return finding(
        cluster,
        node,
        tuple(
            f"{peer.name}: {count.late} of {count.opened} connections to {count.address} got no answer to their "
            f"first SYN; repeated SYNs: {count.repeated}"
            for peer, count in shown
        ),
        f"{node.name}'s packet filter limits the rate of new connections, which delays the start of this job."
        if rules(node)
        else f"New connections to {node.name} wait some seconds for an answer, which delays the start of this job.",
        severity="warn",
    )


def finding(
    cluster: Cluster, node: Node, evidence_lines: tuple[str, ...], summary: str = "", severity: Severity | None = None
) -> Finding:
    peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
    others = [peer.name for peer in cluster.peers(node)[:MAX_LINKS]]
    return Finding.about(
        (node,),
        summary
        or f"{node.name}'s packet filter limits the number or rate of connections, and refused some of this job's.",
        severity=severity,
        links=((other, node.name) for other in others),
        evidence=(*evidence_lines[:SHOWN], *(f"{node.name}: {rule}" for rule in rules(node))),
        fixes=(open_firewall_fix(node, node.name, "input", [*peers, *own_addresses_filtered(cluster, node)], None),),
    )

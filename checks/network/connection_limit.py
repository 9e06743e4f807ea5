"""A packet filter limits the number of connections of a host.

## What you see
A job of few ranks works, and one of more does not. Some connections of init_process_group() are refused or get no
answer: `connectFullMesh failed ... Connection refused` or silence. A single connection to the same host works.

## Why it happens
A rule against floods counts the connections of one host or all hosts (nft's ct count, iptables' connlimit). Or it
counts new connections per time (nft's limit rate over, iptables' hashlimit and recent). It drops or refuses all beyond
the limit. Or one rule accepts a number (limit, --syn), and the next rule drops the rest.

With gloo each rank connects to every other rank and to the store.

## Fix
Accept the nodes of the job before that rule, `nft insert rule inet filter input ip saddr 10.77.0.0/24 accept`; or raise
its limit above ranks x ranks of two nodes plus the store's connections.

## Confirm with
`nft list ruleset | grep -E 'ct count|limit rate'` shows no rule that applies to the job's nodes.

## When it is harmless
If the limit is not reached, nothing is reported. If connections only wait for the rule, it is a WARN: the job starts
seconds later, and more ranks wait longer. At one new connection per second, with no exception for lo,
ranks of 2 x 2 start 13 s later. Ranks of 3 x 2 start 21 s later. Ranks of 2 x 8 fail (connectFullMesh timed out): the
kernel gives up a connection after 127 s.

If the check ends before its own connections have passed the rule, the verdict is INCOMPLETE: later stages did not run.

It is also a WARN if the rule is not visible, as on a switch, and each connection loses two SYNs on lossless links.

## See also
mesh/peer-ports-blocked, network/port-refused, host/conntrack-full
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Contact,
    FailedRank,
    FailingLink,
    Finding,
    Fix,
    LateConnections,
    Node,
    Severity,
    contact_text,
    failed_contacts,
    failed_ranks,
    gloo_errors_name,
    link_arrows,
    link_graph,
    neighbourhood,
    open_firewall_fix,
    own_addresses_filtered,
    planned_rank_count,
    rank_count,
    rank_errors_text,
    source_addresses,
    start_seconds,
    store_host,
)

SEVERITY = "fail"
MATTERS = "the job starts only after the rule has accepted its connections: the more ranks, the later"
PREVENTS = "store reached"
LOOKS_AT = ("network",)
BY_NUMBER = re.compile(r"\bct count\b|connlimit|\bhashlimit\b|\brecent\b|\blimit rate over\b")
PORTS = re.compile(r"\bdport (?:!= )?\{? ?\d+-\d|--dports? \d+:\d")
"""Matches a rule for a range of ports."""
GAVE_UP = re.compile(r"timed out|timeout|did not return|refused")
STAGES = ("store", "gloo", "gloo-groups")
OTHERWISE = re.compile(r"\bct count\b|connlimit|\brecent\b|(?i:reject)")
"""Not by the rate alone, or not in silence."""
ANSWERS_TOO = re.compile(r"\btcp flags syn (?!/)")
TURNED_AWAY = ("no-answer", "refused", "rejected", "reset")
LONGER = (Fix("Or check again with more time: add `--timeout 300` on every node.", option=2),)
NEVER = float("inf")
SHOWN = 8
MAX_LINKS = 64
OFTEN = 2
LOST = 3
"""Segments of small messages sent again on a link from which it is lossy; fewer may be chance."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        late = late_connections(cluster, node)
        if not rules(cluster, node) and not (late and held_back(late, node)):
            continue
        evidence_lines = (*to_the_store(cluster, node), *between_ranks(cluster, node))
        if evidence_lines and only_late(cluster, node, late):
            yield finding(cluster, node, evidence_lines, unfinished(cluster, node), incomplete=True)
        elif evidence_lines and rules(cluster, node):
            yield finding(cluster, node, evidence_lines)
        elif late:
            yield slowed(cluster, node, late)


def rules(cluster: Cluster, node: Node) -> tuple[str, ...]:
    """Return the rules for packets to this node that count connections and refuse those beyond a limit, unless all of
    this job's pass them at once."""
    delayed_peers = []
    for chain in node.filter_chains:
        if chain.hook == "input":
            counting = ((rule, chain.single_ports(rule)) for rule in chain.blocking_rules if BY_NUMBER.search(rule))
            delayed_peers += [rule for rule, ports in counting if not ports or str(node.plan.master_port) in ports]
            # One that accepts for single ports says nothing of why others are shut.
            delayed_peers += [rule for rule in chain.limited if not chain.single_ports(rule)]
    return tuple(rule for rule in delayed_peers if seconds_to_pass(cluster, node, rule) != 0)


def only_late(cluster: Cluster, node: Node, late: dict[Node, LateConnections]) -> bool:
    """Return whether what failed may only have waited longer than this check does: nothing was refused, and the rules
    limit the rate alone, to one at which the job starts. Of an unknown rate some connections have passed."""
    outcomes = {contact.outcome for _, contact in contacts(cluster, node)} | {
        edge.link.outcome for edge in links(cluster, node)
    }
    errors = [one.stage.error or "" for stage in STAGES for one in failed_ranks(cluster, stage)]
    if outcomes - {"no-answer"} or any("refused" in error for error in errors):
        return False
    seconds = seconds_to_start(cluster, node)
    by_rate = not any(OTHERWISE.search(rule) for rule in rules(cluster, node))
    return by_rate and (bool(late) if seconds is None else seconds != NEVER)


def seconds_to_pass(cluster: Cluster, node: Node, rule: str) -> float | None:
    return start_seconds(rule, planned_rank_count(cluster), rank_count(node))


def seconds_to_start(cluster: Cluster, node: Node) -> float | None:
    """Return the seconds that the job waits for the rules' rate, if one shows it."""
    seconds = (seconds_to_pass(cluster, node, rule) for rule in rules(cluster, node))
    return max((one for one in seconds if one is not None), default=None)


def contacts(cluster: Cluster, node: Node) -> list[tuple[Node, Contact]]:
    """Return the contacts of nodes with the store on this node, and of the node with itself, that were turned away: a
    rule may have no exception for lo."""
    listens = store_host(cluster) is node or bool(node.network.bind and node.network.bind.ok)
    failed = failed_contacts(cluster, TURNED_AWAY) if listens else []
    found = [(one.node, one.contact) for one in failed if one.contact.address in node.addresses]
    own = node.network.own_port
    return [*found, (node, own)] if own is not None and own.outcome in TURNED_AWAY else found


def to_the_store(cluster: Cluster, node: Node) -> Iterator[str]:
    """Connections to the store on this node, and on random ports, that were turned away."""
    yield from (f"{caller.name}: {contact_text(contact)}" for caller, contact in contacts(cluster, node))
    if store_host(cluster) is node:
        failed = failed_ranks(cluster, "store")
        yield from rank_errors_text([rank for rank in failed if GAVE_UP.search(rank.stage.error or "")])
    edges = links(cluster, node)
    if edges:
        yield f"connections from {link_arrows(edges)} on random ports failed"


def links(cluster: Cluster, node: Node) -> list[FailingLink]:
    """Return the failed links to this node; and from it, if a rule takes the answer to a SYN, which has both flags, for
    a SYN."""
    outward = any(ANSWERS_TOO.search(rule) for rule in rules(cluster, node))
    edges = link_graph(cluster).edges_of([node], MAX_LINKS, outward=outward)
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
        to_node = [late for late in peer.network.late_connections if late.address in node.addresses]
        rates = (rate for rate in peer.mesh.rates if cluster.by_key.get(rate.to) is node)
        if to_node and not any(rate.retransmitted >= LOST for rate in rates):
            delayed_peers[peer] = to_node[-1]
    return delayed_peers


def held_back(late: dict[Node, LateConnections], node: Node) -> bool:
    """Return whether something unseen limits new connections to this node.

    Some were answered, and the late ones lost two SYNs or more, but no other packet and no network card."""
    if not any(one.established for one in late.values()):
        return False  # its address leads nowhere
    if any(PORTS.search(rule) for chain in node.filter_chains for rule in chain.blocking_rules):
        return False  # the SYNs may be those for ports that this rule blocks
    steady = not any(any((member.host.link_losses or {}).values()) for member in (node, *late))
    return steady and sum(c.repeated for c in late.values()) >= OFTEN * sum(c.late for c in late.values())


def slowed(cluster: Cluster, node: Node, late: dict[Node, LateConnections]) -> Finding:
    shown = list(late.items())[:SHOWN]
    seconds = seconds_to_start(cluster, node)
    by = f" by up to {seconds:.0f} s" if seconds is not None and seconds != NEVER else ""
    return finding(
        cluster,
        node,
        tuple(
            f"{peer.name}: {count.late} of {count.opened} connections to {count.address} got no answer to their "
            f"first SYN; repeated SYNs: {count.repeated}"
            for peer, count in shown
        ),
        f"{node.name}'s packet filter limits the rate of new connections, which delays the start of this job{by}."
        if rules(cluster, node)
        else f"New connections to {node.name} wait some seconds for an answer, which delays the start of this job.",
        severity="warn",
    )


def unfinished(cluster: Cluster, node: Node) -> str:
    seconds = seconds_to_start(cluster, node)
    wait = "longer than this check waited" if seconds is None else f"{seconds:.0f} s, and this check had less time"
    what = "packet filter limits" if rules(cluster, node) else "firewall, or a switch before it, seems to limit"
    return f"{node.name}'s {what} the rate of new connections: those of this job take {wait}."


def finding(
    cluster: Cluster,
    node: Node,
    evidence_lines: tuple[str, ...],
    summary: str = "",
    severity: Severity | None = None,
    *,
    incomplete: bool = False,
) -> Finding:
    peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
    network = neighbourhood(node) if len(cluster.nodes) < (cluster.plan.nnodes or 1) else ()
    accept = network or (*peers, *own_addresses_filtered(cluster, node))
    others = [peer.name for peer in cluster.peers(node)[:MAX_LINKS]]
    return Finding.about(
        (node,),
        summary
        or f"{node.name}'s packet filter limits the number or rate of connections, and refused some of this job's.",
        severity=severity,
        links=((other, node.name) for other in others),
        evidence=(*evidence_lines[:SHOWN], *(f"{node.name}: {rule}" for rule in rules(cluster, node))),
        fixes=(open_firewall_fix(node, node.name, "input", accept, None), *(LONGER if incomplete else ())),
        incomplete=incomplete,
    )

"""A link loses packets.

## What you see
No message. Init and small collectives sometimes take seconds instead of milliseconds, because each lost packet costs
0.2 s or more. Throughput falls to a fraction.

## Why it happens
A bad cable or transceiver, a duplex mismatch, or a switch port with too little buffer. Or a packet filter or traffic
shaper that limits the rate.

## Fix
Replace the cable or transceiver of the interface with growing error counters, or remove the shaper:
`tc qdisc del dev eth0 root`.

## Confirm with
`ip -s link show dev eth0`, `ethtool -S eth0 | grep -iE "err|drop"` and `tc qdisc show dev eth0` on both
nodes.

## When it is harmless
Under heavy load some loss is normal. This loss was measured with single small messages, where none is normal.

## See also
mesh/slow-link, mesh/mtu-blackhole
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    MeasuredLink,
    Node,
    blamed_for_links,
    data_interface,
    died_ranks,
    failed_ranks,
    link_graph,
    lossy_links,
    measured_links,
    open_firewall_fix,
    own_addresses_filtered,
    some_of,
    source_addresses,
    stopped_ranks,
    together,
)

SEVERITY = "warn"
MATTERS = "each lost packet delays all ranks by 0.2 s or more"
PREVENTS = "store used"
FOLLOWS = ("network/duplicate-address", "network/link-flaps")
LOOKS_AT = ("mesh.rtt_median",)
NUMBER = re.compile(r"\d{1,7}")
LATE = re.compile(r"Ranks ([\d, ]+) failed to pass monitoredBarrier")
"""Rank 0's error about late ranks (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp)."""
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = lossy_links(measured_links(cluster))
    for nodes, links, unsure in blamed_for_links(cluster, bad):
        ends = dict.fromkeys(node for link in links for node in (link.source, link.target))
        ruled = tuple(node for node in ends if rules(node))
        if ruled:
            nodes, unsure = ruled, False
        yield finding(cluster, nodes, sorted(links, key=share, reverse=True), unsure)
    for node in cluster.nodes:
        unmet = (rate for rate in node.mesh.rates if rate.to not in cluster.by_key)
        if node.meeting.host_lost and any(rate.heavy_loss for rate in unmet):
            yield lost_others_finding(cluster, node)


def out_of_sight(cluster: Cluster, links: list[MeasuredLink]) -> bool:
    """Return whether a node at an end of a link that loses much was lost in the middle of the check."""
    ends = {node for link in links if link.rate.heavy_loss for node in (link.source, link.target)}
    lost = {key for node in cluster.nodes for key in node.meeting.lost}
    return any(node.meeting.host_lost or lost & {*node.keys} for node in ends)


def held_up(cluster: Cluster, links: list[MeasuredLink]) -> bool:
    """Return whether rank 0 timed out at the barrier, for ranks that are all behind a link with heavy loss.

    A lost packet costs 0.2 s, the next one twice that. A rank that died or was stopped explains the timeout itself."""
    if died_ranks(cluster) or stopped_ranks(cluster):
        return False
    heavy = [link for link in links if link.rate.heavy_loss]
    ends = {rank for link in heavy for node in (link.source, link.target) for rank in node.ranks}
    errors = [one.stage.error or "" for one in failed_ranks(cluster, "barrier") if one.rank.rank in ends]
    late = [int(rank) for error in errors for found in LATE.findall(error) for rank in NUMBER.findall(found)]
    return bool(late) and ends.issuperset(late)


def lost_others_finding(cluster: Cluster, node: Node) -> Finding:
    """Return the finding of a node that lost the others, which have no facts."""
    unmet = (rate for rate in node.mesh.rates if rate.to not in cluster.by_key)
    rates = [rate for rate in unmet if rate.heavy_loss]
    others = tuple(dict.fromkeys(rate.to.partition(" ")[0] for rate in rates[:SHOWN]))
    return Finding.about(
        (node.name, *others),
        f"{node.name} lost the other nodes: its links lose packets.",
        severity="fail",
        links=((node.name, other) for other in others),
        unsure=True,
        evidence=(
            f"{node.name} to {rate.to.partition(' ')[0]}: {rate.retransmitted} of {rate.segments} segments "
            "retransmitted"
            for rate in rates[:SHOWN]
        ),
        fixes=(
            Fix.on(
                node,
                f"Replace the cable or switch port of {together((node.name, *others))}, or remove a shaper. "
                "Confirm with: `ip -s link`, `tc qdisc show`.",
            ),
        ),
    )


def rules(node: Node) -> tuple[str, ...]:
    """Return the rules of this node's packet filter that drop packets by chance."""
    return tuple(rule for chain in node.filter_chains for rule in chain.by_chance)


def share(link: MeasuredLink) -> float:
    return link.rate.retransmitted / max(link.rate.segments, link.rate.retransmitted, 1)


def finding(cluster: Cluster, nodes: tuple[Node, ...], links: list[MeasuredLink], unsure: bool) -> Finding:
    worst = links[0]
    where = f"between {worst.source.name} and {worst.target.name}" if unsure else f"of {some_of(n.name for n in nodes)}"
    return Finding.about(
        nodes,
        f"The link{'' if unsure else 's'} {where} lose{'s' if unsure else ''} packets: "
        f"{worst.rate.retransmitted} of {worst.rate.segments} small segments were retransmitted.",
        ranks=(),
        severity="fail" if out_of_sight(cluster, links) or held_up(cluster, links) else "warn",
        links=((link.source.name, link.target.name) for link in links[:MAX_LINKS]),
        unsure=unsure,
        evidence=(
            *(line(link) for link in links[:SHOWN]),
            *unmade(cluster, nodes),
            *(f"{node.name}: its packet filter drops some packets: {rule}" for node in nodes for rule in rules(node)),
        ),
        fixes=(fix(cluster, node, number if unsure else 1) for number, node in enumerate(nodes[:MAX_LINKS], start=1)),
    )


def unmade(cluster: Cluster, nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield the connections of these nodes that failed, which packet loss explains."""
    for edge in link_graph(cluster).by_chance[:SHOWN]:
        if edge.source in nodes or edge.target in nodes:
            who = f"{edge.source.name} to {edge.target.name}"
            yield f"{who}: a new connection got no answer for {edge.link.seconds:.1f} s"


def line(link: MeasuredLink) -> str:
    trip = f", median round trip {1000 * link.rate.rtt:.1f} ms" if link.rate.rtt is not None else ""
    return (
        f"{link.source.name} to {link.target.name}: {link.rate.retransmitted} of {link.rate.segments} small segments "
        f"retransmitted{trip}"
    )


def fix(cluster: Cluster, node: Node, option: int) -> Fix:
    if rules(node):
        peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
        peers += own_addresses_filtered(cluster, node)
        return open_firewall_fix(node, node.name, "input", peers, None, option)
    name = data_interface(node)[0] or "the interface"
    return Fix.on(
        node,
        f"On {node.name}, replace the cable or transceiver of {name} if its errors grow, or remove its shaper. "
        f"Confirm with: `ip -s link show dev {name}`, `ethtool -S {name}`, `tc qdisc show dev {name}`.",
        option,
    )

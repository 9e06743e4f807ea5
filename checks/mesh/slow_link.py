"""A link is far slower than the others.

## What you see
No message at all. Every step takes as long as the slowest link: 64 MB of gradients take a minute over 10 Mbit/s. Large
tensors end in a timeout.

## Why it happens
A port started with 100 Mbit/s or half duplex (a bad cable, a worn connector), or one of two bonded links is down. Or a
traffic shaper limits it, or a virtual machine has used up its burst credit, or the route uses the management network.

## Fix
Replace the cable or switch port if `ethtool eth0` shows a low speed or half duplex, or remove the shaper:
`tc qdisc del dev eth0 root`. If a faster network exists, name it:
`export GLOO_SOCKET_IFNAME=eth1 NCCL_SOCKET_IFNAME=eth1`.

## Confirm with
`ethtool eth0 | grep -E "Speed|Duplex"`, `tc qdisc show dev eth0`, and `iperf3 -c 10.0.0.11`.

## When it is harmless
When the job sends little between these nodes. Packet loss alone makes a link slow; mesh/packet-loss reports it, as
long as the collectives of the check end.

## See also
mesh/packet-loss, mesh/mtu-blackhole
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    MeasuredLink,
    Node,
    blamed_for_links,
    data_interface,
    failed_ranks,
    lossy_links,
    measured_links,
    slow_links,
    some_of,
    together,
    usual_link_speed,
)

SEVERITY = "warn"
MATTERS = "every exchange of tensors over this link delays the job"
PREVENTS = "results right"
LOOKS_AT = ("mesh.rate_median",)
STARVES = 2e5
"""Bytes per second below which collectives of the check time out."""
WAITED = re.compile(r"did not return|another rank failed|(?i:timed? ?out)")
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    links, usual = measured_links(cluster), usual_link_speed(cluster)
    bad = slow_links(links, usual)
    if not starved(cluster, bad):
        lossy = {pair(link) for link in lossy_links(links)}
        bad = [link for link in bad if pair(link) not in lossy]
    for nodes, links, unsure in blamed_for_links(cluster, bad):
        slow = finding(nodes, sorted(links, key=lambda link: link.speed or 0.0), unsure, usual)
        yield replace(slow, severity="fail") if starved(cluster, links) else slow


def pair(link: MeasuredLink) -> frozenset[str]:
    """Return both ends. Loss in one direction slows TCP in both, because acknowledgements are lost as well."""
    return frozenset((*link.source.keys, *link.target.keys))


def starved(cluster: Cluster, links: list[MeasuredLink]) -> bool:
    """Return whether ranks timed out in a collective while such a link was slow."""
    waiting = failed_ranks(cluster, "collective")
    slow = any((link.speed or 0.0) < STARVES for link in links)
    return slow and bool(waiting) and all(WAITED.search(one.stage.error or "") for one in waiting)


def finding(nodes: tuple[Node, ...], links: list[MeasuredLink], unsure: bool, usual: float | None) -> Finding:
    slowest = links[0]
    against = f"{rate(usual)} is usual here" if usual is not None else "no third node exists to compare with"
    where = f"{slowest.source.name} to {slowest.target.name}" if unsure else some_of(node.name for node in nodes)
    subject = "The link from" if unsure else "The links of"
    routers = between(links)
    perhaps = f" {together(routers)} on the route may be the slow part." if routers else ""
    fixes = [fix(node, number if unsure else 1) for number, node in enumerate(nodes[:MAX_LINKS], start=1)]
    if routers:
        text = f"Or raise the speed of {together(routers)} between the networks. Confirm with: `traceroute`, `iperf3`."
        fixes.append(Fix(text, tuple(node.name for node in nodes[:MAX_LINKS]), fixes[-1].option + 1))
    return Finding.about(
        nodes,
        f"{subject} {where} {'carries' if unsure else 'carry'} {rate(slowest.speed)}; {against}.{perhaps}",
        ranks=(),
        links=((link.source.name, link.target.name) for link in links[:MAX_LINKS]),
        unsure=unsure or bool(routers),
        evidence=(line(link) for link in links[:SHOWN]),
        fixes=fixes,
    )


def between(links: list[MeasuredLink]) -> tuple[str, ...]:
    """Return the routers of these links, if each link passes one."""
    routers = dict.fromkeys(f"router {at}" for link in links for at in link.routers)
    return tuple(routers)[:SHOWN] if all(link.routers for link in links) else ()


def rate(speed: float | None) -> str:
    """Return a speed as text, in Mbit/s or Gbit/s."""
    bits = 8 * (speed or 0.0)
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"


def line(link: MeasuredLink) -> str:
    usual = link.source.mesh.rate_median
    median = f" (median of its links: {rate(usual)})" if usual is not None else ""
    return f"{link.source.name} to {link.target.name}: {rate(link.speed)}{median}"


def fix(node: Node, option: int) -> Fix:
    name = data_interface(node)[0] or "the interface"
    return Fix.on(
        node,
        f"On {node.name}, replace the cable or switch port of {name}, or remove a shaper (tc qdisc del dev {name} "
        "root). "
        f"Confirm with: `ethtool {name}`, `tc qdisc show dev {name}`.",
        option,
    )

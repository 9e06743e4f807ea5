"""A link is far slower than the others.

What you see
------------
No message at all. Every step takes as long as the slowest link: 64 MB of gradients take a minute over 10 Mbit/s. With
large tensors the timeout ends it in the end.

Why it happens
--------------
A port that came up with 100 Mbit/s or half duplex (a bad cable, a worn connector), one of two bonded links down, a
traffic shaper, a virtual machine whose burst credit is used up, or the wrong network: the management one.

Fix
---
Look at the interface's speed and duplex, at shapers on it, then at cable and switch port. Where there is a faster
network, name its interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.

When it is harmless
-------------------
When the job sends little between these nodes. Where a link loses packets, that is enough to make it slow: it is left
to mesh/packet-loss as long as the collectives of the check end.

See also
--------
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
MATTERS = "the job would wait for this link whenever it exchanges tensors over it"
PREVENTS = "results right"
LOOKS_AT = ("mesh.rate_median",)
STARVES = 2e5
"""Bytes per second with which collectives of the check do not end in their time."""
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
        found = finding(nodes, sorted(links, key=lambda link: link.speed or 0.0), unsure, usual)
        yield replace(found, severity="fail") if starved(cluster, links) else found


def pair(link: MeasuredLink) -> frozenset[str]:
    """Both ends. TCP slows down for what is lost, data or acknowledgement, so that loss either way makes both slow."""
    return frozenset((*link.source.keys, *link.target.keys))


def starved(cluster: Cluster, links: list[MeasuredLink]) -> bool:
    """Return whether ranks waited in vain for what such a link was to bring them."""
    waiting = failed_ranks(cluster, "collective")
    slow = any((link.speed or 0.0) < STARVES for link in links)
    return slow and bool(waiting) and all(WAITED.search(one.stage.error or "") for one in waiting)


def finding(nodes: tuple[Node, ...], links: list[MeasuredLink], unsure: bool, usual: float | None) -> Finding:
    slowest = links[0]
    against = f"{rate(usual)} is usual here" if usual is not None else "there is no third node to compare with"
    where = f"{slowest.source.name} to {slowest.target.name}" if unsure else some_of(node.name for node in nodes)
    what = "The link from" if unsure else "The links of"
    routers = between(links)
    perhaps = f" All of it goes by {together(routers)}, which may be what is slow." if routers else ""
    fixes = [fix(node, number if unsure else 1) for number, node in enumerate(nodes[:MAX_LINKS], start=1)]
    if routers:
        text = f"Or look at what is between the networks: {together(routers)}."
        fixes.append(Fix(text, tuple(node.name for node in nodes[:MAX_LINKS]), fixes[-1].option + 1))
    return Finding.about(
        nodes,
        f"{what} {where} {'carries' if unsure else 'carry'} {rate(slowest.speed)}; {against}.{perhaps}",
        ranks=(),
        links=((link.source.name, link.target.name) for link in links[:MAX_LINKS]),
        unsure=unsure or bool(routers),
        evidence=(line(link) for link in links[:SHOWN]),
        fixes=fixes,
    )


def between(links: list[MeasuredLink]) -> tuple[str, ...]:
    """The routers that these links have in common with the node that is blamed: each link goes by one of them."""
    found = dict.fromkeys(f"router {at}" for link in links for at in link.routers)
    return tuple(found)[:SHOWN] if all(link.routers for link in links) else ()


def rate(speed: float | None) -> str:
    """A speed for people: Mbit/s or Gbit/s, as network cards are sold."""
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
        f"On {node.name}, look at {name}: its speed and duplex (ethtool {name}), a shaper (tc qdisc show dev {name}; "
        f"tc qdisc del dev {name} root removes it), then cable and switch port.",
        option,
    )

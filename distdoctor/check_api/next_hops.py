"""Routes with several next hops (ECMP), for one of which nobody answers: what is sent by that one is lost."""

from __future__ import annotations

import shlex

from distdoctor.model.cluster import Node
from distdoctor.model.facts import NextHop, TableRoute


def dead_hops(node: Node, entry: TableRoute) -> tuple[NextHop, ...]:
    """The next hops of the entry that the node asked for their hardware address, and that gave no answer.

    The kernel asks one when it sends by it, so that this node did send that way. One that answers and forwards nothing
    is not known from here.
    """
    silent = {(one.address, one.interface) for one in node.network.unanswered}
    return tuple(hop for hop in entry.next_hops if (hop.gateway, hop.interface) in silent)


def hops_said(hops: tuple[NextHop, ...]) -> str:
    """``10.77.0.98 (eth0) and 10.77.0.99 (eth0)``."""
    return " and ".join(f"{hop.gateway or 'its own link'} ({hop.interface})" for hop in hops)


def without_dead_hops(node: Node, entry: TableRoute) -> str | None:
    """The arguments of ``ip route replace`` that leave the others; None where there are none."""
    dead = dead_hops(node, entry)
    left = [hop for hop in entry.next_hops if hop not in dead]
    words = [
        (f"via {'inet6 ' if _mixed(entry, hop) else ''}{shlex.quote(hop.gateway)} " if hop.gateway else "")
        + f"dev {shlex.quote(hop.interface or '')}"
        for hop in left
    ]
    if not words:
        return None
    hops = words[0] if len(words) == 1 else " ".join(f"nexthop {one}" for one in words)
    return f"{shlex.quote(entry.network)} {hops}"


def _mixed(entry: TableRoute, hop: NextHop) -> bool:
    return ":" in (hop.gateway or "") and ":" not in entry.network

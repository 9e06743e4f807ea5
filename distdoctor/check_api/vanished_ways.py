"""Ways to other nodes that a node had when the check began, and lost in the middle. Pure."""

from __future__ import annotations

from distdoctor.check_api.routes import sleeping, source_address
from distdoctor.check_api.table_lookup import NO_ENTRY, Packet, lookup
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Link

ENETDOWN, ENETUNREACH = 100, 101


def vanished_ways(node: Node) -> dict[Link, tuple[str, str]]:
    """The links of a node that met the others for which its own kernel knew no way any more, with the network and the
    interface by which it still had one when the check began: a card went down, or lost its address, in the middle.
    """
    found: dict[Link, tuple[str, str]] = {}
    for link in node.mesh.bad if node.meeting.joined or node.meeting.hosted else ():
        if link.errno not in (ENETDOWN, ENETUNREACH) or link.icmp or sleeping(node, link.address) is not None:
            continue
        packet = Packet(source=source_address(node, link.address) or "", target_port=link.port)
        entry = lookup(node, link.address, packet)
        if entry is not None and entry.interface is not None and not entry.reject and entry is not NO_ENTRY:
            found[link] = entry.network, entry.interface
    return found

"""A host does not answer ARP requests for its address.

## What you see
The other hosts get `No route to host` (errno 113) after three seconds, each time, or silence. The host is up, has the
right address and no packet filter. Now and then it works: a host that receives an ARP request learns the sender's
hardware address, and forgets it again.

## Why it happens
Before a host sends to an address of its own network, it asks by ARP which host has it. The target does not answer in
three cases. net.ipv4.conf.*.arp_ignore is 8, as on servers behind a load balancer. It is 1 or 2 (kube-proxy's strict
ARP), and the address is on another interface, such as a floating address on lo. Or ARP is off on its network card (`ip
link set ... arp off`).

With ARP off the host also asks for no address, and sends to its own hardware address.

## Fix
Let the host answer: `ip link set dev eth0 arp on`, and `sysctl -w net.ipv4.conf.all.arp_ignore=0
net.ipv4.conf.eth0.arp_ignore=0`; or put the address on the network card itself.

## Confirm with
`arping -c 3 -I eth0 10.77.0.10`, from another node, gets replies.

## When it is harmless
On tunnels, and on cards whose address no peer uses. If all connections worked, arp_ignore 8 is a WARN, and ARP that is
off is not reported: container networks may not need it.

## See also
network/duplicate-address, network/master-unreachable, network/neighbour-table-full, mesh/peer-ports-blocked
"""

import shlex
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Contact,
    FailingLink,
    Finding,
    Fix,
    Link,
    Node,
    contact_text,
    in_network,
    links_blocked_by_rules,
    names_of,
    node0_name,
)

SEVERITY = "fail"
MATTERS = "the others know its hardware address only for a short time after it asked for theirs"
PREVENTS = "master resolved"
LOOKS_AT = ("everyone", "host.interfaces")
NEVER = 8
"""arp_ignore: no answer for any address (the kernel's ip-sysctl.rst)."""
OWN_ALONE = (1, 2)
"""arp_ignore: none for the addresses of its other interfaces."""
OFF = "(NOARP)"
SILENT = ("no-answer",)
UNHEARD = ("unreachable", *SILENT)
SHOWN = 8


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        for name, address, length, how in silent_addresses(node):
            near = [
                peer
                for peer in cluster.peers(node)
                if peer.host_key != node.host_key and in_same_network(peer, address, length)
            ]
            links = list(unanswered_connections(cluster, node, address, length, how))
            never = str(NEVER) in how.rpartition(" ")[2]
            used = cluster.met and never and address in (node.reached_at, node.gloo_address)
            if links or (used and near):
                yield finding(node, name, address, how, links)
                break


def in_same_network(peer: Node, address: str, length: int) -> bool:
    """Return whether the peer is in the network of ``address``/``length``, too."""
    return any(in_network(address, length, its) for its in peer.addresses)


def silent_addresses(node: Node) -> Iterator[tuple[str, str, int, str]]:
    """Yield (interface, address, prefix length, reason) of each address for which the node gives no answer.

    IPv6 asks otherwise (neighbour discovery), but not either on a card without ARP. A tunnel has no hardware address.
    """
    for card in node.interfaces:
        if card.loopback or not card.up or not card.mac:
            continue
        for address, length in zip(card.addresses, card.prefix_lengths, strict=False):
            if card.no_arp:
                yield card.name, address, length, f"ARP is off on {card.name} {OFF}"
            elif ":" not in address:
                ignored = ignored_addresses(node, card.name, card.arp_ignore, address, length)
                yield from ((card.name, silent, length, how) for silent, how in ignored)


def ignored_addresses(
    node: Node, name: str, arp_ignore: int | None, address: str, length: int
) -> Iterator[tuple[str, str]]:
    """Yield (address, reason) of each address in the network of ``address`` that arp_ignore of a card keeps silent."""
    how = f"net.ipv4.conf.{name}.arp_ignore or that of all is {arp_ignore}"
    if arp_ignore == NEVER:
        yield address, how
    elif arp_ignore in OWN_ALONE:
        # Peers look by this card for the addresses of other interfaces that are in its network, too.
        for other in node.interfaces:
            for elsewhere in other.addresses if other.name != name else ():
                if in_network(address, length, elsewhere):
                    yield elsewhere, f"{elsewhere} is on {other.name}, and {how}"


def unanswered_connections(
    cluster: Cluster, node: Node, address: str, length: int, how: str
) -> Iterator[tuple[Node, Node | str, str]]:
    """Yield (source, target, evidence) of each unexplained connection to this address from its own network without an
    answer. Connections from it count, too: the replies have to find it, and without ARP it asks for no address."""
    off = OFF in how
    for peer in cluster.peers(node):
        near = peer.host_key != node.host_key and in_same_network(peer, address, length)
        yield from (
            (peer, node, evidence_text)
            for at, evidence_text in failed_contacts_to(peer, node, UNHEARD)
            if near and at == address
        )
        ends = UNHEARD if off else SILENT
        yield from (
            (node, peer, evidence_text)
            for at, evidence_text in failed_contacts_to(node, peer, ends)
            if in_network(address, length, at)
        )
    contact = node.network.contact
    if off and contact is not None and is_unknown_host(cluster, contact) and contact.outcome in UNHEARD:
        sent = in_network(address, length, contact.address)
        yield from [(node, node0_name(cluster, node), contact_line(node, contact))] if sent else []


def is_unknown_host(cluster: Cluster, contact: Contact) -> bool:
    """Return whether the contacted host is none of the nodes with facts."""
    return not any(contact.address in node.addresses for node in cluster.nodes)


def failed_contacts_to(source: Node, target: Node, outcomes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (address, evidence) of each connection from one node to the other with such an outcome.

    Those that a packet filter or a routing table explains are left out."""
    contact = source.network.contact
    if contact is not None and not source.meeting.joined and contact.address in target.addresses:
        link = Link(target.facts.key, contact.address, contact.port, (), contact.outcome, contact.errno)
        if contact.outcome in outcomes and unexplained(source, target, link):
            yield contact.address, contact_line(source, contact)
    for link in source.mesh.bad:
        if link.to in target.keys and link.outcome in outcomes and unexplained(source, target, link):
            errno = f" (errno {link.errno})" if link.errno else ""
            yield link.address, f"{source.name} to {target.name}: {link.address}: no answer{errno}"


def unexplained(source: Node, target: Node, link: Link) -> bool:
    known, _ = links_blocked_by_rules([FailingLink(source, target, link)])
    return not known


def contact_line(node: Node, contact: Contact) -> str:
    return f"{node.name}: {contact_text(contact)}"


def finding(node: Node, name: str, address: str, how: str, links: list[tuple[Node, Node | str, str]]) -> Finding:
    sources = list(dict.fromkeys(source for source, _, _ in links))
    who = names_of([source for source in sources if source is not node])
    what = f"{who} cannot reach it" if who else "it gets no answer itself" if links else "others in its network use it"
    device = shlex.quote(name)
    if OFF in how:
        command = f"ip link set dev {device} arp on"
    else:
        # With slashes: a dot in the name (eth0.100) is one, then.
        setting = shlex.quote(f"net/ipv4/conf/{name}/arp_ignore=0")
        command = f"sysctl -w net.ipv4.conf.all.arp_ignore=0 {setting}"
    return Finding.about(
        (node,),
        f"{node.name} does not answer ARP requests for {address}, and {what}.",
        severity="fail" if links else "warn",
        links=((a.name, b.name if isinstance(b, Node) else b) for a, b, _ in links),
        evidence=(f"{node.name}: {how}", *list(dict.fromkeys(evidence_text for _, _, evidence_text in links))[:SHOWN]),
        fixes=(Fix.on(node, f"Let {name} of {node.name} answer ARP requests, as root.", commands=(command,)),),
    )

"""Two hosts have the same address.

## What you see
The job hangs at one start and runs at the next, because now one host answers, now the other. Or, again and again,
`Connection refused` from a node that listens, `Connection reset by peer`, or silence.

## Why it happens
A static address was assigned twice, or is in the range of a DHCP server. A virtual machine or image was cloned with its
network configuration. Or two hosts hold a service address at once. The host that answers an ARP request first, or last,
gets the packets.

A cloned virtual machine may also have the hardware address (MAC) of the other. The switch then sends to the one that
sent last. And a static ARP entry (`arp -s`, `ip neigh add ... nud permanent`) keeps the card that had the address
before.

For IPv6 the kernel asks first, and does not use an address for which another host answers. Programs then find no usable
address for the host's own name, and gloo uses 127.0.0.1.

## Fix
Remove the address from one of the two hosts, `ip address del 10.77.0.10/24 dev eth0`, or give one of them another
address or hardware address. Delete a static ARP entry: `ip neighbour del 10.77.0.10 dev eth0`.

## Confirm with
`arping -D -c 3 -I eth0 10.77.0.10`, from a third node, gets replies from one hardware address only.

## When it is harmless
Never in one network. Container networks have the same addresses on every host and are not reported. A hardware address
is reported only if one of the two hosts is unreachable.

## See also
network/wrong-interface, network/master-resolves-differently, network/port-refused
"""

import shlex
from collections.abc import Iterator, Sequence

from distdoctor.check_api import (
    Cluster,
    DuplicateAddress,
    Finding,
    Fix,
    Node,
    claims_node0,
    duplicate_addresses,
    names_of,
)

SEVERITY = "fail"
PREVENTS = "master resolved"
LOOKS_AT = ("everyone",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        yield from (refused(node, name, address) for name, address in needed(cluster, node))
    for clash in duplicate_addresses(cluster):
        if clash.written:
            yield static_arp_finding(clash)
        elif clash.mac:
            yield same_mac_finding(clash) if len(clash.owners) > 1 else unknown_host_finding(clash)
        else:
            yield between_nodes(cluster, clash)


def needed(cluster: Cluster, node: Node) -> Iterator[tuple[str, str]]:
    """(interface, address) of each IPv6 address that the kernel does not use, since another host has it, and that the
    job needs there: as node 0's, or as the only one that gloo finds by the own name."""
    if not cluster.multi_host and (node.plan.nnodes or 1) == 1:
        return
    gloo, own_name = node.host.gloo, node.host.own_name.addresses
    without = gloo is not None and gloo.reason == "fallback"
    for interface in node.interfaces:
        for address in interface.refused:
            if (address in node.master_addresses and claims_node0(node)) or (without and address in own_name):
                yield interface.name, address


def refused(node: Node, name: str, address: str) -> Finding:
    """The finding about such an address."""
    return Finding.about(
        (node,),
        f"Another host also has {address}, so the kernel of {node.name} does not use it on {name}.",
        evidence=(f"{node.name}: duplicate address detection failed for {address} (ip address: dadfailed)",),
        fixes=(
            Fix.on(
                node,
                f"Give {name} of {node.name} another address. Or remove {address} from the other host of this link, "
                "then set it here again (ip -6 address del, then add).",
            ),
        ),
    )


def static_arp_finding(clash: DuplicateAddress) -> Finding:
    """Return the finding about nodes with a static ARP entry that has another hardware address than the owner."""
    (node,) = clash.owners
    name = node.interface_of(clash.address)
    own = next((i.mac for i in node.interfaces if i.name == name), "")
    cards = {
        peer: shlex.quote(entry.interface)
        for peer in clash.seen_by
        for entry in peer.network.hardware_addresses
        if entry.address == clash.address and entry.permanent
    }
    return Finding.about(
        clash.seen_by,
        f"{names_of(clash.seen_by)} {'has' if len(clash.seen_by) == 1 else 'have'} a static ARP entry for "
        f"{clash.address} ({node.name}) with a hardware address that {node.name} does not have.",
        title="A static ARP entry is wrong",
        links=((peer.name, node.name) for peer in clash.seen_by),
        evidence=(
            *(f"{peer.name}: {clash.address} is at {clash.mac} on {way}, permanently" for peer, way in cards.items()),
            f"{node.name}: {clash.address} is on {name}, whose hardware address is {own}",
        ),
        fixes=(
            Fix.on(
                peer,
                f"On {peer.name}, delete that entry, also from its boot configuration.",
                commands=(f"ip neighbour del {clash.address} dev {way}",),
            )
            for peer, way in cards.items()
        ),
    )


def same_mac_finding(clash: DuplicateAddress) -> Finding:
    """Return the finding about hosts of one network whose cards have the same hardware address."""
    nodes = clash.owners
    at = {node: next(i.name for i in node.interfaces if i.mac == clash.mac) for node in nodes}
    return Finding.about(
        nodes,
        f"{names_of(nodes)} have the same hardware address, {clash.mac}, in one network.",
        title="Two hosts have one hardware address",
        links=((a.name, b.name) for a in nodes for b in nodes if a is not b),
        unsure=True,
        evidence=(f"{node.name}: the hardware address of {name} is {clash.mac}" for node, name in at.items()),
        fixes=(
            Fix.on(
                node,
                f"Give {name} of {node.name} another hardware address (for a virtual machine, in its definition).",
                option,
            )
            for option, (node, name) in enumerate(at.items(), start=1)
        ),
    )


def between_nodes(cluster: Cluster, clash: DuplicateAddress) -> Finding:
    """The finding about nodes: who is reached by another address has this one too many."""
    nodes = clash.owners
    others = [node for node in cluster.nodes if node.host_key not in {owner.host_key for owner in nodes}]
    return Finding.about(
        clash.spare or nodes,
        f"{names_of(nodes)} have the same address, {clash.address}, in one network.",
        links=((a.name, b.name) for a in nodes for b in nodes if a is not b),
        unsure=not clash.spare,
        evidence=(
            f"{node.name}: {clash.address} is on its {node.interface_of(clash.address)}{reached(node, clash.address)}"
            for node in nodes
        ),
        fixes=[
            *(spare_address_fix(node, clash.address) for node in clash.spare),
            *arp_flush_fixes(others, clash.address),
        ]
        if clash.spare
        else [
            fix
            for option, node in enumerate(nodes, start=1)
            for fix in (other_address_fix(node, clash.address, option), *arp_flush_fixes(others, clash.address, option))
        ],
    )


def reached(node: Node, but: str) -> str:
    """At which other address the node is reached, in words."""
    return f"; it is reached at {node.reached_at}" if node.reached_at not in (None, but) else ""


def spare_address_fix(node: Node, address: str) -> Fix:
    length, name = next(
        (length, interface.name)
        for interface in node.interfaces
        for own, length in zip(interface.addresses, interface.prefix_lengths, strict=False)
        if own == address
    )
    at = reached(node, address).replace("; it", ", which")
    text = f"On {node.name}{f'{at},' if at else ''} remove {address} from {name} and from its configuration."
    return Fix.on(node, text, commands=(f"ip address del {address}/{length} dev {shlex.quote(name)}",))


def other_address_fix(node: Node, address: str, option: int) -> Fix:
    return Fix.on(node, f"On {node.name}, give {node.interface_of(address)} another address than {address}.", option)


def arp_flush_fixes(nodes: Sequence[Node], address: str, option: int = 1) -> Iterator[Fix]:
    """For nodes that may know the hardware address of the wrong one: the kernel holds to an answer for up to a minute
    (base_reachable_time, and what follows it)."""
    if nodes:
        text = "Then flush the old ARP entry."
        yield Fix.on(nodes, text, option, commands=(f"ip neighbour flush to {address}",))


def unknown_host_finding(clash: DuplicateAddress) -> Finding:
    """The finding about a node and a host that is none of the job's."""
    (node,) = clash.owners
    name = node.interface_of(clash.address)
    own = next((i.mac for i in node.interfaces if i.name == name), "")
    text = (
        f"Remove {clash.address} from the host with hardware address {clash.mac} (the switch's address table shows its "
        f"port), or give {name} of {node.name} another address."
    )
    return Finding.about(
        [node],
        f"Another host answers for {clash.address}, the address of {node.name}.",
        links=((peer.name, node.name) for peer in clash.seen_by),
        evidence=(
            *(f"{peer.name}: {clash.mac} answers for {clash.address}" for peer in clash.seen_by),
            f"{node.name}: {clash.address} is on {name}, whose hardware address is {own or 'another'}",
        ),
        fixes=(Fix.on(node, text), *arp_flush_fixes(clash.seen_by, clash.address)),
    )

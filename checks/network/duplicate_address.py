"""Two hosts have one address.

What you see
------------
A job that hangs at one start and runs at the next: now the one host answers, now the other. Or, again and again,
`Connection refused` from a node that listens, `Connection reset by peer`, or silence.

Why it happens
--------------
A static address that was given twice, or lies in the range of a DHCP server; a virtual machine or an image that was
cloned with its network configuration; a service address that two hosts hold at once. Whoever answers an ARP request
first, or last, gets the packets.

Fix
---
Take the address from the host that has another one, else give one of the two another address.

When it is harmless
-------------------
Never in one network. Networks of containers have the same addresses on every host and are no case of this.

See also
--------
network/wrong-interface, network/master-resolves-differently, network/port-refused
"""

import shlex
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    DuplicateAddress,
    Finding,
    Fix,
    Node,
    duplicate_addresses,
    names_of,
)

SEVERITY = "fail"
PREVENTS = "master resolved"
LOOKS_AT = ("everyone",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for one in duplicate_addresses(cluster):
        yield with_a_stranger(one) if one.mac else between_nodes(one)


def between_nodes(one: DuplicateAddress) -> Finding:
    """The finding about nodes: who is reached by another address has this one too many."""
    nodes = one.owners
    return Finding.about(
        one.spare or nodes,
        f"{one.address} is an address of {names_of(nodes)}, in one network.",
        links=((a.name, b.name) for a in nodes for b in nodes if a is not b),
        unsure=not one.spare,
        evidence=(
            f"{node.name}: {one.address} is on its {node.interface_of(one.address)}; it is reached at {node.reached_at}"
            for node in nodes
        ),
        fixes=(surplus(node, one.address) for node in one.spare)
        if one.spare
        else (another(node, one.address, option) for option, node in enumerate(nodes, start=1)),
    )


def surplus(node: Node, address: str) -> Fix:
    length, name = next(
        (length, interface.name)
        for interface in node.interfaces
        for own, length in zip(interface.addresses, interface.prefix_lengths, strict=False)
        if own == address
    )
    text = f"On {node.name}, which is reached at {node.reached_at}, take {address} away, and from its configuration."
    return Fix.on(node, text, commands=(f"ip address del {address}/{length} dev {shlex.quote(name)}",))


def another(node: Node, address: str, option: int) -> Fix:
    return Fix.on(node, f"On {node.name}, give {node.interface_of(address)} another address than {address}.", option)


def with_a_stranger(one: DuplicateAddress) -> Finding:
    """The finding about a node and a host that is none of the job's."""
    (node,) = one.owners
    name = node.interface_of(one.address)
    own = next((i.mac for i in node.interfaces if i.name == name), "")
    text = (
        f"Find the host whose hardware address is {one.mac} (the switch's address table) and take {one.address} from "
        f"it, or give {name} of {node.name} another address."
    )
    return Finding.about(
        [node],
        f"Another host answers for {one.address}, the address of {node.name}.",
        links=((peer.name, node.name) for peer in one.seen_by),
        evidence=(
            *(f"{peer.name}: {one.mac} answers for {one.address}" for peer in one.seen_by),
            f"{node.name}: {one.address} is on {name}, whose hardware address is {own or 'another'}",
        ),
        fixes=(
            Fix.on(node, text),
            # The kernel holds to an answer for up to a minute (base_reachable_time, and what follows it).
            Fix.on(
                one.seen_by,
                "Then let them ask anew who has the address.",
                commands=(f"ip neighbour flush to {one.address}",),
            ),
        ),
    )

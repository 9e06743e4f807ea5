"""What two nodes' own policies of IPsec say about packets between them. Pure."""

from __future__ import annotations

import ipaddress
import shlex

from distdoctor.check_api.table_lookup import Packet
from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Node
from distdoctor.model.facts import IpsecPolicy
from distdoctor.model.findings import Fix


def dropping_policy(source: Node, target: Node | None, address: str, packet: Packet) -> tuple[Node, IpsecPolicy] | None:
    """The policy by which one of the two drops what ``source`` sends to ``address`` of ``target``, with whose it is."""
    ends = [(source, "out"), *([(target, "in")] if target is not None else [])]
    for node, way in ends:
        its = next((one for one in node.network.ipsec if one.way == way and _about(one, address, packet)), None)
        if its is not None and (its.block or its.lacks):
            return node, its
    return None


def _about(policy: IpsecPolicy, address: str, packet: Packet) -> bool:
    """Whether the policy is for the packet, by all that is known of that."""
    if policy.version != (6 if ":" in address else 4) or not packet.source:
        return False
    return (
        _within(policy.source, packet.source)
        and _within(policy.target, address)
        and policy.source_port in (None, packet.source_port)
        and policy.target_port in (None, packet.target_port)
    )


def _within(network: str, address: str) -> bool:
    number = parse_address(address)
    try:
        return number is not None and number in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def policy_said(policy: IpsecPolicy) -> str:
    """As ``ip xfrm policy`` takes it: ``src 10.77.0.11/32 dst 10.77.0.10/32 dir out``."""
    ports = (("sport", policy.source_port), ("dport", policy.target_port))
    words = ["src", policy.source, "dst", policy.target, *(("proto", "tcp") if policy.tcp else ())]
    words += [word for name, port in ports if port is not None for word in (name, str(port))]
    return shlex.join([*words, "dir", policy.way])


def policy_seen(node: Node, policy: IpsecPolicy) -> str:
    """The evidence."""
    what = f"{node.name}: a policy of IPsec ({policy_said(policy)})"
    if policy.block:
        return f"{what} drops these packets"
    does = "what it is to send" if policy.way == "out" else "what comes"
    return f"{what} asks for an association, and there is none: the kernel drops {does}"


def policy_fix(node: Node, policy: IpsecPolicy, option: int) -> Fix:
    """What to do about it."""
    text = (
        f"On {node.name}, start what is to set up the association (strongSwan, libreswan, a CNI's encryption), on both "
        "ends; or take the policy away, where it is left from one that is gone."
    )
    if policy.block:
        text = f"On {node.name}, take the policy away, or have it let the nodes' packets through."
    return Fix(text, (node.name,), option, commands=(f"ip xfrm policy delete {policy_said(policy)}",))

"""What to say and do about a route, a netmask or a reverse path filter that keeps two nodes apart."""

from __future__ import annotations

import ipaddress
import shlex

from distdoctor.check_api.ipsec import policy_fix, policy_seen
from distdoctor.check_api.netmasks import Mask, netmask, too_wide
from distdoctor.check_api.next_hops import dead_hops, hops_said, without_dead_hops
from distdoctor.check_api.routes import (
    TTL,
    RouteObstacle,
    better_source,
    nearer,
    networks,
    sleeping,
    source_address,
)
from distdoctor.check_api.table_lookup import NO_ENTRY, lookup
from distdoctor.model.addresses import in_network
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.findings import Fix

TITLE = "Packets between two nodes have no way, or the wrong one"


def route_obstacle_seen(one: RouteObstacle) -> str:
    """The evidence."""
    who, whose = one.node.name, one.other.name if one.other is not None else ""
    where = f"{one.address} ({whose})" if whose else one.address
    if one.kind == "local":
        return f"{who}: its kernel keeps what is for {where} and sends it to itself, though that is no address of {who}"
    if one.kind == "none":
        mask = netmask(one.node, one.other, one.address)
        if mask is not None:
            return (
                f"{who}: {mask.address}/{mask.length} on {mask.interface} leaves out {where}, which has it in its own "
                f"/{mask.right}; there is no other route"
            )
        return f"{who}: its routing table has no way to {where}"
    mask = wrong_mask(one)
    if one.kind == "narrow" and mask is not None:
        return (
            f"{who}: {mask.address}/{mask.length} on {mask.interface} leaves out {where}, which has it in its own "
            f"/{mask.right}; it sends there by the gateway {one.route.gateway}"
        )
    if one.kind == "wide" and mask is not None:
        return (
            f"{who}: {mask.address}/{mask.length} on {mask.interface} takes {where} for a neighbour, and nobody there "
            f"answers for that address; {whose} has /{mask.right} and sends back by a gateway"
        )
    asleep, near = sleeping(one.node, one.address), nearer(one.node, one.address)
    if one.kind == "down" and asleep is not None:
        return f"{who}: {asleep.interface} is down, whose network {asleep.address}/{asleep.length} has {where} in it"
    if one.kind == "cable":
        return f"{who}: {one.route.interface}, by which it sends to {where}, has no carrier"
    if one.policy is not None:
        return policy_seen(one.node, one.policy)
    if one.kind == "port":
        return (
            f"{who}: it sends to {where} by {one.route.interface}, which is a port of {_bridge(one)}: what answers is "
            f"the bridge's, and not {one.route.interface}'s"
        )
    if one.kind == "ttl":
        return (
            f"{who}: its packets may not pass a router ({TTL} is 1), and what it sends to {where} goes by the gateway "
            f"{one.route.gateway}"
        )
    if one.kind == "detour" and near is not None:
        return (
            f"{who}: it sends to {where} by {one.route.interface} ({one.route.network}), though "
            f"{near.address}/{near.length} on {near.interface} has that in its own network"
        )
    if one.kind == "source" and (seen := odd_source(one.node, one.address)):
        return f"{seen}; {whose} has no way back to that"
    if one.kind == "ruled":
        return (
            f"{who}: a rule of policy routing (ip rule: {one.route.rule}) sends what goes to {where} by "
            f"{one.route.interface}, where its main table has a way by {one.interface}; {whose} has no way back to "
            f"{source_address(one.node, one.address)}, from which that comes"
        )
    if one.kind == "next-hop":
        dead = hops_said(dead_hops(one.node, one.route))
        return (
            f"{who}: it sends to {where} by one of several next hops ({one.route.network}), and nobody answers ARP for "
            f"{dead}; what the kernel sends by that one is lost"
        )
    if one.route.rule:
        way = f"by the gateway {one.route.gateway}" if one.route.gateway else "nowhere: its packets are rejected"
        mark = f" (marked by {one.route.marked})" if one.route.marked else ""
        return f"{who}: policy routing (ip rule: {one.route.rule}) sends what goes to {where}{mark} {way}"
    if one.kind == "reject":
        return f"{who}: its routing table rejects {one.route.network}, and so {where}"
    if one.kind == "gateway":
        return (
            f"{who}: it sends to {where} by the gateway {one.route.gateway} ({one.route.network}), though both are in "
            "one network"
        )
    return (
        f"{who}: what comes from {where} on {one.interface} is dropped: the answer would leave by "
        f"{one.route.interface}, and rp_filter of {one.interface} is 1 (strict)"
    )


def odd_source(node: Node, address: str) -> str:
    """The evidence that packets to ``address`` come from an address of another interface than they leave by; empty
    where they do not."""
    own, source = better_source(node, address), source_address(node, address)
    if own is None or source is None:
        return ""
    if by_rule(node, address):
        return (
            f"{node.name}: what it sends to {address} comes from {source} ({node.interface_of(source)}), though its "
            f"routing table sends it by {own.interface}"
        )
    return (
        f"{node.name}: what it sends to {address} by {own.interface} comes from {source} "
        f"({node.interface_of(source) or 'no interface of it'}), not from {own.address}"
    )


def by_rule(node: Node, address: str) -> bool:
    """Whether packets to ``address`` come from the address of another card than the routing table says they leave by:
    the kernel may take a rule of policy routing that is not known here (inverted, or one that passes routes over)."""
    source, cards = source_address(node, address), {one.name for one in node.interfaces if not one.loopback}
    return source is not None and node.interface_of(source) in cards


def wrong_mask(one: RouteObstacle) -> Mask | None:
    """The netmask that is in the way."""
    if one.kind == "wide":
        return too_wide(one.node, one.other, one.address, source_address(one.node, one.address) or "")
    return netmask(one.node, one.other, one.address)


def repair_route_fix(cluster: Cluster, one: RouteObstacle, option: int = 1) -> Fix:
    """What to do about it."""
    who, names = one.node.name, (one.node.name,)
    network = shlex.quote(one.route.network)
    if one.kind == "reverse-path":
        text = f"On {who}, let {one.interface} take in what is answered by another interface (rp_filter: loose)."
        # With slashes: a dot in the name (eth0.100) is one, then.
        setting = shlex.quote(f"net/ipv4/conf/{one.interface}/rp_filter=2")
        return Fix(text, names, option, commands=(f"sysctl -w {setting}",))
    family = "-6 " if ":" in one.address else ""
    if one.kind == "local":
        text = f"On {who}, take the route of type local away that has {one.address} in it."
        return Fix(text, names, option, commands=(f"ip {family}route show table local",))
    if one.kind == "cable":
        card = one.route.interface or ""
        text = f"On {who}, see to the link of {card} (ip link show {shlex.quote(card)}): its cable, the port of the "
        return Fix(f"{text}switch, what is at the other end of a tunnel or of a virtual card.", names, option)
    if one.policy is not None:
        return policy_fix(one.node, one.policy, option)
    if one.kind == "ttl":
        return Fix(f"On {who}, let packets pass routers.", names, option, commands=(f"sysctl -w {TTL}=64",))
    if one.kind == "port":
        return _to_the_bridge(one, option)
    own = better_source(one.node, one.address)
    if one.kind == "source" and own is not None:
        text = f"On {who}, send by {own.interface} from its own address, {own.address}."
        if by_rule(one.node, one.address):
            text = (
                f"{text} Ask its kernel for the way (ip {family}route get {one.address}): a rule of policy routing, as "
                f"a VPN client sets, may lead past the routing table (ip {family}rule)."
            )
            return Fix(text, names, option)
        via = f"via {shlex.quote(one.route.gateway)} " if one.route.gateway else ""
        command = f"ip {family}route replace {network} {via}dev {shlex.quote(own.interface)} src {own.address}"
        return Fix(text, names, option, commands=(command,))
    if one.kind == "ruled":
        text = (
            f"On {who}, leave what goes to {one.address} to the main table (what a VPN client routes is in its own "
            "configuration: AllowedIPs of WireGuard)."
        )
        return Fix(text, names, option, commands=(f"ip {family}rule add to {one.address} lookup main",))
    mask = wrong_mask(one)
    if one.kind in ("narrow", "wide") and mask is not None:
        return _mask_fix(one.node, mask, option)
    if one.kind == "next-hop":
        left, dead = without_dead_hops(one.node, one.route), hops_said(dead_hops(one.node, one.route))
        text = f"On {who}, take {dead} out of the route to {one.route.network}, until somebody answers there."
        return Fix(
            text, names, option, commands=(f"ip {family}route replace {left}",) if left and not one.route.rule else ()
        )
    if one.route.rule:
        text = f"On {who}, take the rule of policy routing away, or mend the table that it leads to."
        return Fix(text, names, option, commands=(f"ip {family}rule del {one.route.rule}",))
    if one.kind == "reject":
        text = f"On {who}, take the route away that rejects it."
        return Fix(text, names, option, commands=(f"ip {family}route del {network}",))
    if one.kind == "gateway":
        via = shlex.quote(one.route.gateway or "")
        text = f"On {who}, take the route away that leads to a neighbour by a gateway."
        return Fix(text, names, option, commands=(f"ip {family}route del {network} via {via}",))
    if one.kind == "detour":
        device = shlex.quote(one.route.interface or "")
        text = f"On {who}, take the route away that leads to a neighbour by {one.route.interface} (a VPN client's?)."
        return Fix(text, names, option, commands=(f"ip {family}route del {network} dev {device}",))
    return add_route_fix(cluster, one.node, one.other, one.address, option)


def _bridge(one: RouteObstacle) -> str:
    """The bridge of which the interface is a port that the packets leave by."""
    return next(card.bridge for card in one.node.interfaces if card.name == one.route.interface)


def _to_the_bridge(one: RouteObstacle, option: int) -> Fix:
    """Move what addresses a port of a bridge has to the bridge."""
    card, bridge = shlex.quote(one.route.interface or ""), shlex.quote(_bridge(one))
    commands = [f"ip link set dev {bridge} up"]
    for interface, address, length in networks(one.node):
        if interface.name == one.route.interface:
            its = f"{address}/{length} dev"
            commands.append(f"ip address del {its} {card} && ip address add {its} {bridge}")
    text = (
        f"On {one.node.name}, give {_bridge(one)} the addresses of {one.route.interface}, its port, here and in their "
        "configuration; and set the routes by it again that go with them (a default route)."
    )
    return Fix(text, (one.node.name,), option, commands=tuple(commands))


def add_route_fix(cluster: Cluster, node: Node, other: Node | None, address: str, option: int = 1) -> Fix:
    """A way from ``node`` to ``address``: by an interface that is down, the netmask that is right, else the route that
    a peer's table speaks for."""
    names, family = (node.name,), "-6 " if ":" in address else ""
    asleep = sleeping(node, address)
    if asleep is not None:
        text = f"On {node.name}, bring {asleep.interface} up: {address} is in its network."
        return Fix(text, names, option, commands=(f"ip link set dev {shlex.quote(asleep.interface)} up",))
    mask = netmask(node, other, address) if other is not None else None
    if mask is not None:
        return _mask_fix(node, mask, option)
    if node.interfaces and all(interface.loopback for interface in node.interfaces):
        text = (
            f"{node.name} has no address but loopback's: start it with the network of its machine (docker, podman: "
            "--network=host), not in one of its own."
        )
        return Fix(text, names, option)
    mine, known = lookup(node, address), _known_way(cluster, node, other, address)
    its = f"{mine.network} dev {shlex.quote(mine.interface or '')}" if mine is not None else ""
    if known is not None and known[0] == its:
        text = (
            f"{node.name} has a route to {address} ({known[0]}), and its kernel refuses to send there: look at its "
            f"rules (ip {family}rule), and at its policies of IPsec (ip xfrm policy)."
        )
        return Fix(text, names, option)
    if known is not None:
        way, why = known
        text = f"Give {node.name} a route to {address}: {why}."
        return Fix(text, names, option, commands=(f"ip {family}route add {way}",))
    text = f"Give {node.name} a route to {address}: ip {family}route add {address} via <gateway>, or dev <interface>."
    return Fix(text, names, option)


def _mask_fix(node: Node, mask: Mask, option: int) -> Fix:
    device, family = shlex.quote(mask.interface), "-6 " if ":" in mask.address else ""
    text = (
        f"Give {mask.address} on {node.name} the netmask of the others, /{mask.right}, here and in the interface's "
        "configuration."
    )
    add = f"ip {family}address add {mask.address}/{mask.right} dev {device}"
    take = f"ip {family}address del {mask.address}/{mask.length} dev {device}"
    # An interface has an IPv6 address once, with whatever prefix.
    command = f"{take} && {add}" if family else f"{add} && {take}"
    return Fix(text, (node.name,), option, commands=(command,))


def _known_way(cluster: Cluster, node: Node, other: Node | None, address: str) -> tuple[str, str] | None:
    """(``NETWORK via GATEWAY`` as a neighbour of the node has it, or ``NETWORK dev INTERFACE`` where the other has the
    node on its own link; why)."""
    mine = list(networks(node))
    for peer in cluster.nodes:
        entry = lookup(peer, address) if peer is not node else None
        if entry is None or entry.gateway is None or entry.reject:
            continue
        if any(in_network(own, length, entry.gateway) for _, own, length in mine):
            return f"{shlex.quote(entry.network)} via {shlex.quote(entry.gateway)}", f"{peer.name} has this one"
    if other is None:
        return None
    length = next((n for _, a, n in networks(other) if a == address), None)
    for interface, own, _ in mine if length is not None else ():
        back = lookup(other, own)
        if back is not None and back is not NO_ENTRY and not back.reject and back.gateway is None:
            network = ipaddress.ip_network(f"{address}/{length}", strict=False)
            return f"{network} dev {shlex.quote(interface.name)}", f"{other.name} has {own} on its own link"
    return None

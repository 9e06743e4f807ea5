"""Evidence and fixes for a route, a netmask or a reverse path filter that keeps two nodes apart, per kind."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Callable

from distdoctor.check_api.routes import (
    NO_ENTRY,
    TTL,
    Kind,
    Mask,
    RouteObstacle,
    better_source,
    bypassed_interface,
    dead_hops,
    downed_interface,
    hops_text,
    lookup,
    networks,
    policy_evidence,
    policy_fix,
    source_address,
    without_dead_hops,
)
from distdoctor.model.addresses import in_network
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import TableRoute
from distdoctor.model.findings import Fix


def route_obstacle_evidence(block: RouteObstacle) -> str:
    """Return the evidence for an obstacle."""
    return _EVIDENCE[block.kind](block)


def route_obstacle_reason(block: RouteObstacle) -> str:
    """The reason in few words, for a summary; the evidence has the details."""
    name, card, rule = block.node.name, block.route.interface, block.route.rule
    down = downed_interface(block.node, block.address) if block.kind == "down" else None
    if block.mask is not None and block.kind in ("narrow", "wide"):
        return f"the netmask of {block.mask.interface} on {name} is /{block.mask.length}, not /{block.mask.right}"
    if block.kind in ("gateway", "detour", "ruled", "reject") and rule:
        return f"a policy routing rule of {name} misdirects the packets"
    reasons: dict[Kind, str] = {
        "none": f"{name} has no route to {block.address}",
        "down": f"{down.interface if down else 'an interface'} of {name} is down",
        "cable": f"{card} of {name} has no carrier",
        "reject": f"a route of {name} rejects the packets",
        "gateway": f"a route of {name} leads to a neighbour through the gateway {block.route.gateway}",
        "next-hop": f"a next hop of {name} does not answer",
        "detour": f"a route of {name} leads to the wrong interface, {card}",
        "reverse-path": f"rp_filter of {block.interface} on {name} drops the packets",
        "source": f"{name} sends from an address that has no route back",
        "local": f"a local route of {name} claims {block.address}",
        "ruled": f"a policy routing rule of {name} misdirects the packets",
        "port": f"{name} sends by {card}, which is a port of a bridge",
        "ttl": f"packets of {name} may not pass a router ({TTL} is 1)",
        "ipsec": f"an IPsec policy of {name} drops the packets",
    }
    return reasons.get(block.kind, f"the routes of {name} are wrong")


def odd_source(node: Node, address: str) -> str:
    """Return evidence that packets to ``address`` have the address of another interface than they leave by; empty if
    not."""
    own, source = better_source(node, address), source_address(node, address)
    if own is None or source is None:
        return ""
    if by_rule(node, address):
        return (
            f"{node.name}: its packets to {address} have the source {source} ({node.interface_of(source)}), but its "
            f"routing table sends them by {own.interface}"
        )
    return (
        f"{node.name}: its packets to {address} by {own.interface} have the source {source} "
        f"({node.interface_of(source) or 'no interface of it'}), not {own.address}"
    )


def by_rule(node: Node, address: str) -> bool:
    """Return whether packets to ``address`` have the address of another card than the routing table names.

    The kernel may use a rule of policy routing that is not known here (inverted, or one that skips routes).
    """
    source, cards = source_address(node, address), {card.name for card in node.interfaces if not card.loopback}
    return source is not None and node.interface_of(source) in cards


def bridge_of(block: RouteObstacle) -> str:
    """Return the bridge of which the outgoing interface is a port."""
    return next(card.bridge for card in block.node.interfaces if card.name == block.route.interface)


def _local_evidence(block: RouteObstacle) -> str:
    who = block.node.name
    return f"{who}: its kernel delivers packets for {block.there} to itself, but that is no address of {who}"


def _none(block: RouteObstacle) -> str:
    mask = netmask(block.node, block.other, block.address)
    if mask is None:
        return f"{block.node.name}: its routing table has no route to {block.there}"
    return f"{_leaves_out(block, mask)}; there is no other route"


def _narrow(block: RouteObstacle) -> str:
    assert block.mask is not None  # of this kind it has one
    return f"{_leaves_out(block, block.mask)}; it sends there through the gateway {block.route.gateway}"


def _leaves_out(block: RouteObstacle, mask: Mask) -> str:
    return (
        f"{block.node.name}: {mask.address}/{mask.length} on {mask.interface} excludes {block.there}, whose own "
        f"network is a /{mask.right}"
    )


def _wide(block: RouteObstacle) -> str:
    mask = block.mask
    assert mask is not None and block.other is not None
    return (
        f"{block.node.name}: {mask.address}/{mask.length} on {mask.interface} includes {block.there}, but no host of "
        f"that network answers for it; {block.other.name} has /{mask.right} and sends back through a gateway"
    )


def _down(block: RouteObstacle) -> str:
    asleep = downed_interface(block.node, block.address)
    assert asleep is not None
    its = f"{asleep.address}/{asleep.length}"
    return f"{block.node.name}: {asleep.interface} is down; its network {its} includes {block.there}"


def _cable_evidence(block: RouteObstacle) -> str:
    return f"{block.node.name}: {block.route.interface}, by which it sends to {block.there}, has no carrier"


def _ipsec_evidence(block: RouteObstacle) -> str:
    assert block.policy is not None
    return policy_evidence(block.node, block.policy)


def _port_evidence(block: RouteObstacle) -> str:
    return (
        f"{block.node.name}: it sends to {block.there} by {block.route.interface}, a port of {bridge_of(block)}: "
        f"replies arrive on the bridge, not on {block.route.interface}"
    )


def _ttl_evidence(block: RouteObstacle) -> str:
    return (
        f"{block.node.name}: its packets may not pass a router ({TTL} is 1), but packets to {block.there} go through "
        f"the gateway {block.route.gateway}"
    )


def _detour_evidence(block: RouteObstacle) -> str:
    near = bypassed_interface(block.node, block.address)
    assert near is not None
    return (
        f"{block.node.name}: it sends to {block.there} by {block.route.interface} ({block.route.network}), but "
        f"{near.address}/{near.length} on {near.interface} is in the same network"
    )


def _source_evidence(block: RouteObstacle) -> str:
    owner = block.other.name if block.other is not None else block.address
    return f"{odd_source(block.node, block.address)}; {owner} has no route back to it"


def _ruled_evidence(block: RouteObstacle) -> str:
    owner = block.other.name if block.other is not None else block.address
    return (
        f"{block.node.name}: a policy routing rule (ip rule: {block.route.rule}) sends packets to {block.there} by "
        f"{block.route.interface}, but its main table has a route by {block.interface}; {owner} has no route back to "
        f"their source {source_address(block.node, block.address)}"
    )


def _next_hop_evidence(block: RouteObstacle) -> str:
    dead = hops_text(dead_hops(block.node, block.route))
    return (
        f"{block.node.name}: it sends to {block.there} by one of several next hops ({block.route.network}), and no "
        f"host answers ARP for {dead}; packets by that hop are lost"
    )


def _reject_evidence(block: RouteObstacle) -> str:
    if block.route.rule:
        return _by_policy(block)
    return f"{block.node.name}: its routing table rejects {block.route.network}, and so {block.there}"


def _gateway_evidence(block: RouteObstacle) -> str:
    if block.route.rule:
        return _by_policy(block)
    return (
        f"{block.node.name}: it sends to {block.there} through the gateway {block.route.gateway} "
        f"({block.route.network}), but both are in one network"
    )


def _by_policy(block: RouteObstacle) -> str:
    mark = f" (marked by {block.route.marked})" if block.route.marked else ""
    rule = f"{block.node.name}: policy routing (ip rule: {block.route.rule})"
    if not block.route.gateway:
        return f"{rule} rejects packets to {block.there}{mark}"
    return f"{rule} sends packets to {block.there}{mark} through the gateway {block.route.gateway}"


def _reverse_path_evidence(block: RouteObstacle) -> str:
    return (
        f"{block.node.name}: its kernel drops packets from {block.there} on {block.interface}: the reply would leave "
        f"by {block.route.interface}, and rp_filter of {block.interface} is 1 (strict)"
    )


_EVIDENCE: dict[Kind, Callable[[RouteObstacle], str]] = {
    "none": _none,
    "down": _down,
    "reject": _reject_evidence,
    "cable": _cable_evidence,
    "gateway": _gateway_evidence,
    "next-hop": _next_hop_evidence,
    "detour": _detour_evidence,
    "reverse-path": _reverse_path_evidence,
    "narrow": _narrow,
    "wide": _wide,
    "source": _source_evidence,
    "local": _local_evidence,
    "ruled": _ruled_evidence,
    "port": _port_evidence,
    "ttl": _ttl_evidence,
    "ipsec": _ipsec_evidence,
}


# Fixes for a route, a netmask or a reverse path filter that keeps two nodes apart, per kind.


TITLE = "Packets between two nodes have no route, or a wrong one"


def repair_route_fix(cluster: Cluster, block: RouteObstacle, option: int = 1) -> Fix:
    """Return the fix for an obstacle."""
    if block.kind in ("none", "down"):
        return add_route_fix(cluster, block.node, block.other, block.address, option)
    return _FIXES[block.kind](block, option)


def _fix(block: RouteObstacle, option: int, text: str, *commands: str) -> Fix:
    return Fix(f"On {block.node.name}, {text}", (block.node.name,), option, commands=commands)


def _ip(block: RouteObstacle, words: str) -> str:
    """Return an ``ip`` command for the address's family."""
    return f"ip -6 {words}" if ":" in block.address else f"ip {words}"


def _reverse_path_fixes(block: RouteObstacle, option: int) -> Fix:
    # With slashes: a dot in the name (eth0.100) would separate keys.
    setting = shlex.quote(f"net/ipv4/conf/{block.interface}/rp_filter=2")
    text = f"set rp_filter of {block.interface} to 2 (loose)."
    return _fix(block, option, text, f"sysctl -w {setting}")


def _local_fixes(block: RouteObstacle, option: int) -> Fix:
    text = f"delete the route of type local that includes {block.address}. Find it with:"
    return _fix(block, option, text, _ip(block, "route show table local"))


def _cable_fixes(block: RouteObstacle, option: int) -> Fix:
    card = block.route.interface or ""
    text = (
        f"reconnect the link of {card}: its cable, its switch port, or the other end of a tunnel or virtual card. "
        f"Confirm with: ip link show {shlex.quote(card)}."
    )
    return _fix(block, option, text)


def _ipsec_fixes(block: RouteObstacle, option: int) -> Fix:
    assert block.policy is not None
    return policy_fix(block.node, block.policy, option)


def _ttl_fixes(block: RouteObstacle, option: int) -> Fix:
    return _fix(block, option, "raise the time to live of packets to 64.", f"sysctl -w {TTL}=64")


def _port_fixes(block: RouteObstacle, option: int) -> Fix:
    """Return a fix that moves the addresses of a bridge's port to the bridge."""
    card, bridge = shlex.quote(block.route.interface or ""), shlex.quote(bridge_of(block))
    commands = [f"ip link set dev {bridge} up"]
    for interface, address, length in networks(block.node):
        if interface.name == block.route.interface:
            its = f"{address}/{length} dev"
            commands.append(f"ip address del {its} {card} && ip address add {its} {bridge}")
    text = (
        f"move the addresses of {block.route.interface} to {bridge_of(block)}, its bridge, also in their "
        "configuration; then recreate their routes (a default route)."
    )
    return _fix(block, option, text, *commands)


def _source_fixes(block: RouteObstacle, option: int) -> Fix:
    own = better_source(block.node, block.address)
    assert own is not None  # or it would be of another kind
    text = f"send by {own.interface} from its own address, {own.address}."
    if by_rule(block.node, block.address):
        text = (
            f"{text} A policy routing rule, as VPN clients add it, may override the routing table. Confirm with: "
            f"{_ip(block, f'route get {block.address}')}; {_ip(block, 'rule')}."
        )
        return _fix(block, option, text)
    via = f"via {shlex.quote(block.route.gateway)} " if block.route.gateway else ""
    route = f"{shlex.quote(block.route.network)} {via}dev {shlex.quote(own.interface)} src {own.address}"
    return _fix(block, option, text, _ip(block, f"route replace {route}"))


def _ruled_fixes(block: RouteObstacle, option: int) -> Fix:
    text = (
        f"route {block.address} by the main table; a VPN client's own configuration has its routes (WireGuard: "
        "AllowedIPs)."
    )
    return _fix(block, option, text, _ip(block, f"rule add to {block.address} lookup main"))


def _mask(block: RouteObstacle, option: int) -> Fix:
    assert block.mask is not None
    return _mask_fix(block.node, block.mask, option)


def _next_hop_fixes(block: RouteObstacle, option: int) -> Fix:
    left, dead = without_dead_hops(block.node, block.route), hops_text(dead_hops(block.node, block.route))
    text = f"remove {dead} from the route to {block.route.network} until a host answers there."
    return _fix(block, option, text, *((_ip(block, f"route replace {left}"),) if left and not block.route.rule else ()))


def _reject_fixes(block: RouteObstacle, option: int) -> Fix:
    return _take_away(block, option, f"the route that rejects {block.address}", "")


def _gateway_fixes(block: RouteObstacle, option: int) -> Fix:
    via = f" via {shlex.quote(block.route.gateway or '')}"
    return _take_away(block, option, "the route that leads to a neighbour through a gateway", via)


def _detour_fixes(block: RouteObstacle, option: int) -> Fix:
    what = f"the route that leads to a neighbour by {block.route.interface} (a VPN client's?)"
    return _take_away(block, option, what, f" dev {shlex.quote(block.route.interface or '')}")


def _take_away(block: RouteObstacle, option: int, what: str, hop: str) -> Fix:
    """Return a fix that removes the entry, or the rule that leads to its table."""
    if block.route.rule:
        text = "delete the policy routing rule, or correct the table that it leads to."
        return _fix(block, option, text, _ip(block, f"rule del {block.route.rule}"))
    return _fix(block, option, f"delete {what}.", _ip(block, f"route del {shlex.quote(block.route.network)}{hop}"))


_FIXES: dict[Kind, Callable[[RouteObstacle, int], Fix]] = {
    "reject": _reject_fixes,
    "cable": _cable_fixes,
    "gateway": _gateway_fixes,
    "next-hop": _next_hop_fixes,
    "detour": _detour_fixes,
    "reverse-path": _reverse_path_fixes,
    "narrow": _mask,
    "wide": _mask,
    "source": _source_fixes,
    "local": _local_fixes,
    "ruled": _ruled_fixes,
    "port": _port_fixes,
    "ttl": _ttl_fixes,
    "ipsec": _ipsec_fixes,
}


def add_route_fix(cluster: Cluster, node: Node, other: Node | None, address: str, option: int = 1) -> Fix:
    """Return a fix for a missing route from ``node`` to ``address``: bring up an interface, correct a netmask, or add
    the route that a peer's table has."""
    names, family = (node.name,), "-6 " if ":" in address else ""
    asleep = downed_interface(node, address)
    if asleep is not None:
        text = f"On {node.name}, bring {asleep.interface} up: {address} is in its network."
        return Fix(text, names, option, commands=(f"ip link set dev {shlex.quote(asleep.interface)} up",))
    mask = netmask(node, other, address) if other is not None else None
    if mask is not None:
        return _mask_fix(node, mask, option)
    if node.interfaces and all(interface.loopback for interface in node.interfaces):
        text = (
            f"Start {node.name} with the network of its machine (docker, podman: --network=host): it has only loopback "
            "addresses."
        )
        return Fix(text, names, option)
    mine, known = lookup(node, address), _known_route(cluster, node, other, address)
    its = f"{mine.network} dev {shlex.quote(mine.interface or '')}" if mine is not None else ""
    if known is not None and known[0] == its:
        text = (
            f"Delete the rule or IPsec policy by which {node.name} refuses to send to {address} (route: {known[0]}). "
            f"Find it with: ip {family}rule; ip xfrm policy."
        )
        return Fix(text, names, option)
    if known is not None:
        route, why = known
        text = f"Give {node.name} a route to {address}: {why}."
        return Fix(text, names, option, commands=(f"ip {family}route add {route}",))
    text = f"Give {node.name} a route to {address}: ip {family}route add {address} via <gateway>, or dev <interface>."
    return Fix(text, names, option)


def _mask_fix(node: Node, mask: Mask, option: int) -> Fix:
    device, family = shlex.quote(mask.interface), "-6 " if ":" in mask.address else ""
    text = (
        f"Give {mask.address} on {node.name} the netmask of the other nodes, /{mask.right}, also in the interface's "
        "configuration."
    )
    add = f"ip {family}address add {mask.address}/{mask.right} dev {device}"
    take = f"ip {family}address del {mask.address}/{mask.length} dev {device}"
    # An interface has an IPv6 address once, with one prefix.
    command = f"{take} && {add}" if family else f"{add} && {take}"
    return Fix(text, (node.name,), option, commands=(command,))


def _known_route(cluster: Cluster, node: Node, other: Node | None, address: str) -> tuple[str, str] | None:
    """Return a known route and its source, None if there is none.

    ``NETWORK via GATEWAY`` as a neighbour of the node has it, or ``NETWORK dev INTERFACE`` if the other has the node on
    its own link.
    """
    mine = list(networks(node))
    for peer in cluster.nodes:
        entry = lookup(peer, address) if peer is not node else None
        if entry is None or entry.gateway is None or entry.reject:
            continue
        if any(in_network(own, length, entry.gateway) for _, own, length in mine):
            return f"{shlex.quote(entry.network)} via {shlex.quote(entry.gateway)}", f"{peer.name} has the same route"
    if other is None:
        return None
    length = next((n for _, a, n in networks(other) if a == address), None)
    for interface, own, _ in mine if length is not None else ():
        back = lookup(other, own)
        if back is not None and back is not NO_ENTRY and not back.reject and back.gateway is None:
            network = ipaddress.ip_network(f"{address}/{length}", strict=False)
            return f"{network} dev {shlex.quote(interface.name)}", f"{other.name} has {own} on its own link"
    return None


# Wrong netmask, too narrow or too wide, of one of two nodes: one takes the other for a neighbour, and that one sends by
# a gateway. Both work if the gateway forwards the packets, or answers for the other (proxy ARP), so this is only used
# for nodes between which nothing passes.


def netmask(node: Node, other: Node | None, address: str) -> Mask | None:
    """Return the netmask by which ``node`` has no route to ``address`` of ``other``, though it is in that node's
    network."""
    theirs = [length for i, a, length in networks(other) if a == address] if other is not None else []
    for interface, mine, length in networks(node):
        for right in theirs:
            if length > right and not in_network(mine, length, address) and in_network(address, right, mine):
                return Mask(interface.device, mine, length, right)
    return None


def mask_obstacle(source: Node, target: Node, address: str) -> RouteObstacle | None:
    """Return the netmask by which ``source`` and ``address`` of ``target`` miss each other, None if none or unknown."""
    mine = source_address(source, address)
    if mine is None or source.host_key == target.host_key:
        return None
    for node, other, there, here in ((source, target, address, mine), (target, source, mine, address)):
        entry = lookup(node, there)
        if entry is None or entry.reject:
            continue
        narrow = netmask(node, other, there)
        if narrow and not _unanswered(other, here) and _by_chance(entry, narrow):
            return RouteObstacle(node, other, there, "narrow", entry, mask=narrow)
        wide = _too_wide(node, other, there, here)
        if wide and not entry.gateway and _unanswered(node, there):
            return RouteObstacle(node, other, there, "wide", entry, mask=wide)
    return None


def _too_wide(node: Node, other: Node, address: str, mine: str) -> Mask | None:
    """Return the netmask that ``node``'s own address should have.

    ``other`` at ``address`` has one that leaves it out, and sends to it by a gateway.
    """
    route, theirs = lookup(other, mine), netmask(other, node, mine)
    if route is None or not route.gateway or theirs is None or theirs.address != address:
        return None
    return Mask(node.interface_of(mine) or "", mine, theirs.right, theirs.length)


def _by_chance(entry: TableRoute, mask: Mask) -> bool:
    """Return whether a packet uses a gateway for lack of a better entry: none exists for that network or a part."""
    return bool(entry.gateway) and ipaddress.ip_network(entry.network).prefixlen < mask.right


def _unanswered(node: Node, address: str) -> bool:
    """Return whether the node asked for the hardware address and nobody answered."""
    near = node.network.neighbour
    return any(neighbour.address == address for neighbour in node.network.unanswered) or (
        near is not None and near.state == "silent" and near.address == address
    )

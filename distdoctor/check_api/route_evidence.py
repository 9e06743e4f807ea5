"""What proves that a route, a netmask or a reverse path filter keeps two nodes apart: one sentence for each kind."""

from __future__ import annotations

from collections.abc import Callable

from distdoctor.check_api.ipsec import policy_seen
from distdoctor.check_api.netmasks import netmask
from distdoctor.check_api.next_hops import dead_hops, hops_said
from distdoctor.check_api.routes import TTL, Kind, Mask, RouteObstacle, better_source, nearer, sleeping, source_address
from distdoctor.model.cluster import Node


def route_obstacle_seen(one: RouteObstacle) -> str:
    """The evidence."""
    return _SEEN[one.kind](one)


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


def bridge_of(one: RouteObstacle) -> str:
    """The bridge of which the interface is a port that the packets leave by."""
    return next(card.bridge for card in one.node.interfaces if card.name == one.route.interface)


def _local(one: RouteObstacle) -> str:
    who = one.node.name
    return f"{who}: its kernel keeps what is for {one.there} and sends it to itself, though that is no address of {who}"


def _none(one: RouteObstacle) -> str:
    mask = netmask(one.node, one.other, one.address)
    if mask is None:
        return f"{one.node.name}: its routing table has no way to {one.there}"
    return f"{_leaves_out(one, mask)}; there is no other route"


def _narrow(one: RouteObstacle) -> str:
    assert one.mask is not None  # of this kind it has one
    return f"{_leaves_out(one, one.mask)}; it sends there by the gateway {one.route.gateway}"


def _leaves_out(one: RouteObstacle, mask: Mask) -> str:
    return (
        f"{one.node.name}: {mask.address}/{mask.length} on {mask.interface} leaves out {one.there}, which has it in "
        f"its own /{mask.right}"
    )


def _wide(one: RouteObstacle) -> str:
    mask = one.mask
    assert mask is not None and one.other is not None
    return (
        f"{one.node.name}: {mask.address}/{mask.length} on {mask.interface} takes {one.there} for a neighbour, and "
        f"nobody there answers for that address; {one.other.name} has /{mask.right} and sends back by a gateway"
    )


def _down(one: RouteObstacle) -> str:
    asleep = sleeping(one.node, one.address)
    assert asleep is not None
    its = f"{asleep.address}/{asleep.length}"
    return f"{one.node.name}: {asleep.interface} is down, whose network {its} has {one.there} in it"


def _cable(one: RouteObstacle) -> str:
    return f"{one.node.name}: {one.route.interface}, by which it sends to {one.there}, has no carrier"


def _ipsec(one: RouteObstacle) -> str:
    assert one.policy is not None
    return policy_seen(one.node, one.policy)


def _port(one: RouteObstacle) -> str:
    return (
        f"{one.node.name}: it sends to {one.there} by {one.route.interface}, which is a port of {bridge_of(one)}: what "
        f"answers is the bridge's, and not {one.route.interface}'s"
    )


def _ttl(one: RouteObstacle) -> str:
    return (
        f"{one.node.name}: its packets may not pass a router ({TTL} is 1), and what it sends to {one.there} goes by "
        f"the gateway {one.route.gateway}"
    )


def _detour(one: RouteObstacle) -> str:
    near = nearer(one.node, one.address)
    assert near is not None
    return (
        f"{one.node.name}: it sends to {one.there} by {one.route.interface} ({one.route.network}), though "
        f"{near.address}/{near.length} on {near.interface} has that in its own network"
    )


def _source(one: RouteObstacle) -> str:
    whose = one.other.name if one.other is not None else one.address
    return f"{odd_source(one.node, one.address)}; {whose} has no way back to that"


def _ruled(one: RouteObstacle) -> str:
    whose = one.other.name if one.other is not None else one.address
    return (
        f"{one.node.name}: a rule of policy routing (ip rule: {one.route.rule}) sends what goes to {one.there} by "
        f"{one.route.interface}, where its main table has a way by {one.interface}; {whose} has no way back to "
        f"{source_address(one.node, one.address)}, from which that comes"
    )


def _next_hop(one: RouteObstacle) -> str:
    dead = hops_said(dead_hops(one.node, one.route))
    return (
        f"{one.node.name}: it sends to {one.there} by one of several next hops ({one.route.network}), and nobody "
        f"answers ARP for {dead}; what the kernel sends by that one is lost"
    )


def _reject(one: RouteObstacle) -> str:
    if one.route.rule:
        return _by_policy(one)
    return f"{one.node.name}: its routing table rejects {one.route.network}, and so {one.there}"


def _gateway(one: RouteObstacle) -> str:
    if one.route.rule:
        return _by_policy(one)
    return (
        f"{one.node.name}: it sends to {one.there} by the gateway {one.route.gateway} ({one.route.network}), though "
        "both are in one network"
    )


def _by_policy(one: RouteObstacle) -> str:
    way = f"by the gateway {one.route.gateway}" if one.route.gateway else "nowhere: its packets are rejected"
    mark = f" (marked by {one.route.marked})" if one.route.marked else ""
    return f"{one.node.name}: policy routing (ip rule: {one.route.rule}) sends what goes to {one.there}{mark} {way}"


def _reverse_path(one: RouteObstacle) -> str:
    return (
        f"{one.node.name}: what comes from {one.there} on {one.interface} is dropped: the answer would leave by "
        f"{one.route.interface}, and rp_filter of {one.interface} is 1 (strict)"
    )


_SEEN: dict[Kind, Callable[[RouteObstacle], str]] = {
    "none": _none,
    "down": _down,
    "reject": _reject,
    "cable": _cable,
    "gateway": _gateway,
    "next-hop": _next_hop,
    "detour": _detour,
    "reverse-path": _reverse_path,
    "narrow": _narrow,
    "wide": _wide,
    "source": _source,
    "local": _local,
    "ruled": _ruled,
    "port": _port,
    "ttl": _ttl,
    "ipsec": _ipsec,
}

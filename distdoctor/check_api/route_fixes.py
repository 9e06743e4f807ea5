"""What to do about a route, a netmask or a reverse path filter that keeps two nodes apart: one fix for each kind."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Callable

from distdoctor.check_api.ipsec import policy_fix
from distdoctor.check_api.netmasks import netmask
from distdoctor.check_api.next_hops import dead_hops, hops_said, without_dead_hops
from distdoctor.check_api.route_evidence import bridge_of, by_rule
from distdoctor.check_api.routes import TTL, Kind, Mask, RouteObstacle, better_source, networks, sleeping
from distdoctor.check_api.table_lookup import NO_ENTRY, lookup
from distdoctor.model.addresses import in_network
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.findings import Fix

TITLE = "Packets between two nodes have no way, or the wrong one"


def repair_route_fix(cluster: Cluster, one: RouteObstacle, option: int = 1) -> Fix:
    """What to do about it."""
    if one.kind in ("none", "down"):
        return add_route_fix(cluster, one.node, one.other, one.address, option)
    return _REPAIRS[one.kind](one, option)


def _fix(one: RouteObstacle, option: int, text: str, *commands: str) -> Fix:
    return Fix(f"On {one.node.name}, {text}", (one.node.name,), option, commands=commands)


def _ip(one: RouteObstacle, words: str) -> str:
    """A command of iproute2's, for the address's family."""
    return f"ip -6 {words}" if ":" in one.address else f"ip {words}"


def _reverse_path(one: RouteObstacle, option: int) -> Fix:
    # With slashes: a dot in the name (eth0.100) is one, then.
    setting = shlex.quote(f"net/ipv4/conf/{one.interface}/rp_filter=2")
    text = f"let {one.interface} take in what is answered by another interface (rp_filter: loose)."
    return _fix(one, option, text, f"sysctl -w {setting}")


def _local(one: RouteObstacle, option: int) -> Fix:
    text = f"take the route of type local away that has {one.address} in it."
    return _fix(one, option, text, _ip(one, "route show table local"))


def _cable(one: RouteObstacle, option: int) -> Fix:
    card = one.route.interface or ""
    text = (
        f"see to the link of {card} (ip link show {shlex.quote(card)}): its cable, the port of the switch, what is at "
        "the other end of a tunnel or of a virtual card."
    )
    return _fix(one, option, text)


def _ipsec(one: RouteObstacle, option: int) -> Fix:
    assert one.policy is not None
    return policy_fix(one.node, one.policy, option)


def _ttl(one: RouteObstacle, option: int) -> Fix:
    return _fix(one, option, "let packets pass routers.", f"sysctl -w {TTL}=64")


def _port(one: RouteObstacle, option: int) -> Fix:
    """Move what addresses a port of a bridge has to the bridge."""
    card, bridge = shlex.quote(one.route.interface or ""), shlex.quote(bridge_of(one))
    commands = [f"ip link set dev {bridge} up"]
    for interface, address, length in networks(one.node):
        if interface.name == one.route.interface:
            its = f"{address}/{length} dev"
            commands.append(f"ip address del {its} {card} && ip address add {its} {bridge}")
    text = (
        f"give {bridge_of(one)} the addresses of {one.route.interface}, its port, here and in their configuration; and "
        "set the routes by it again that go with them (a default route)."
    )
    return _fix(one, option, text, *commands)


def _source(one: RouteObstacle, option: int) -> Fix:
    own = better_source(one.node, one.address)
    assert own is not None  # or it would be of another kind
    text = f"send by {own.interface} from its own address, {own.address}."
    if by_rule(one.node, one.address):
        text = (
            f"{text} Ask its kernel for the way ({_ip(one, f'route get {one.address}')}): a rule of policy routing, as "
            f"a VPN client sets, may lead past the routing table ({_ip(one, 'rule')})."
        )
        return _fix(one, option, text)
    via = f"via {shlex.quote(one.route.gateway)} " if one.route.gateway else ""
    way = f"{shlex.quote(one.route.network)} {via}dev {shlex.quote(own.interface)} src {own.address}"
    return _fix(one, option, text, _ip(one, f"route replace {way}"))


def _ruled(one: RouteObstacle, option: int) -> Fix:
    text = (
        f"leave what goes to {one.address} to the main table (what a VPN client routes is in its own configuration: "
        "AllowedIPs of WireGuard)."
    )
    return _fix(one, option, text, _ip(one, f"rule add to {one.address} lookup main"))


def _mask(one: RouteObstacle, option: int) -> Fix:
    assert one.mask is not None
    return _mask_fix(one.node, one.mask, option)


def _next_hop(one: RouteObstacle, option: int) -> Fix:
    left, dead = without_dead_hops(one.node, one.route), hops_said(dead_hops(one.node, one.route))
    text = f"take {dead} out of the route to {one.route.network}, until somebody answers there."
    return _fix(one, option, text, *((_ip(one, f"route replace {left}"),) if left and not one.route.rule else ()))


def _reject(one: RouteObstacle, option: int) -> Fix:
    return _take_away(one, option, "the route away that rejects it", "")


def _gateway(one: RouteObstacle, option: int) -> Fix:
    via = f" via {shlex.quote(one.route.gateway or '')}"
    return _take_away(one, option, "the route away that leads to a neighbour by a gateway", via)


def _detour(one: RouteObstacle, option: int) -> Fix:
    what = f"the route away that leads to a neighbour by {one.route.interface} (a VPN client's?)"
    return _take_away(one, option, what, f" dev {shlex.quote(one.route.interface or '')}")


def _take_away(one: RouteObstacle, option: int, what: str, way: str) -> Fix:
    """Take the entry away, or the rule that leads to its table."""
    if one.route.rule:
        text = "take the rule of policy routing away, or mend the table that it leads to."
        return _fix(one, option, text, _ip(one, f"rule del {one.route.rule}"))
    return _fix(one, option, f"take {what}.", _ip(one, f"route del {shlex.quote(one.route.network)}{way}"))


_REPAIRS: dict[Kind, Callable[[RouteObstacle, int], Fix]] = {
    "reject": _reject,
    "cable": _cable,
    "gateway": _gateway,
    "next-hop": _next_hop,
    "detour": _detour,
    "reverse-path": _reverse_path,
    "narrow": _mask,
    "wide": _mask,
    "source": _source,
    "local": _local,
    "ruled": _ruled,
    "port": _port,
    "ttl": _ttl,
    "ipsec": _ipsec,
}


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

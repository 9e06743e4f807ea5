"""Rows about routing tables, netmasks and reverse path filters: what keeps packets from their way without any rule."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Interface, Link, MeshFacts, NodeFacts, Route, TableRoute
from tests.checks.row import Facts, Row
from tests.facts_builder import healthy, met, node, outside, waited_in_vain, with_gpus, with_host, with_network

LAN = "10.77.0.0/24"
BOTH = ("host0", "host1")


def route(network: str, gateway: str | None = None, interface: str | None = "eth0", reject: bool = False) -> TableRoute:
    return TableRoute(network, gateway, interface, reject)


def routed(one: NodeFacts, *entries: TableRoute, strict: tuple[str, ...] = ()) -> NodeFacts:
    return with_network(one, routes=entries, strict=strict)


def masked(one: NodeFacts, length: int) -> NodeFacts:
    """The node with another netmask; its table has what the kernel makes of it."""
    assert one.host is not None
    eth0 = one.host.interfaces[1]
    own = eth0.addresses[0]
    one = with_host(one, interfaces=(one.host.interfaces[0], replace(eth0, prefix_lengths=(length,))))
    return (
        routed(one)
        if length == 32
        else routed(one, route(f"{own.rpartition('.')[0]}.{int(own.rpartition('.')[2]) & ~1}/{length}"))
    )


def two(outcome: str = "no-answer", **changes: object) -> tuple[NodeFacts, NodeFacts]:
    """Node 0 waited, and host1 did not get to it."""
    a, b = healthy(2)
    return routed(waited_in_vain(a), route(LAN)), routed(outside(b, outcome, **changes), route(LAN))  # type: ignore[arg-type]


def mask_of_node_0() -> Facts:
    a, b = two(control="no-answer")
    return masked(a, 32), b


def mask_of_node_1() -> Facts:
    a, b = two("unreachable", errno=101)
    return a, masked(b, 32)


def back_by_a_gateway() -> Facts:
    a, b = two(control="no-answer")
    return routed(a, route(LAN), route("10.77.0.11/32", "10.77.0.99")), b


def back_into_a_hole() -> Facts:
    a, b = two(control="no-answer")
    return routed(a, route(LAN), route("10.77.0.11/32", None, None, True)), b


def there_by_a_gateway() -> Facts:
    a, b = two("unreachable", errno=113)
    return a, routed(b, route(LAN), route("10.77.0.10/32", "10.77.0.99"))


def reverse_path(outcome: str = "no-answer") -> Facts:
    """host0 would answer host1 by eth1, and drops what comes in by eth0."""
    a, b = two(outcome, errno=113 if outcome == "unreachable" else None)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("eth1", ("10.99.0.10",), (24,), mtu=1500)))
    return routed(a, route(LAN), route("10.77.0.11/32", None, "eth1"), strict=("eth0", "eth1")), b


def no_way_back() -> Facts:
    """host1 is in another network, which node 0 has no route to; host1 has node 0's network on its link."""
    a, b = two(control="no-answer")
    assert b.host is not None
    b = with_host(b, interfaces=(b.host.interfaces[0], Interface("eth0", ("10.88.0.11",), (24,), mtu=1500)))
    b = with_network(b, route=Route("10.77.0.10", "10.88.0.11", "eth0"))
    return a, routed(b, route("10.88.0.0/24"), route(LAN))


def three(*tables: tuple[TableRoute, ...], bad: tuple[tuple[int, int, str, int | None], ...]) -> Facts:
    facts = list(healthy(3))
    for number, one in enumerate(facts):
        links = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, ("gloo", "primary"), how, errno)  # type: ignore[arg-type]
            for source, to, how, errno in bad
            if source == number
        )
        facts[number] = routed(replace(one, mesh=MeshFacts(good=2 - len(links), bad=links)), *tables[number])
    return tuple(facts)


def mask_of_one_of_three() -> Facts:
    lan = (route(LAN),)
    a, b, c = three(lan, lan, lan, bad=((1, 2, "unreachable", 101), (2, 1, "no-answer", None)))
    return a, masked(b, 31), c


def peer_by_a_gateway() -> Facts:
    lan = (route(LAN),)
    tables = (lan, (*lan, route("10.77.0.12/32", "10.77.0.99")), lan)
    return three(*tables, bad=((1, 2, "unreachable", 113), (2, 1, "no-answer", None)))


def vpn(*networks: str, outcome: str = "no-answer") -> Facts:
    """host1's VPN client sends part of the LAN into its tunnel, beside eth0's own entry."""
    a, b = two(outcome)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,), mtu=1500)))
    b = with_network(b, route=Route("10.77.0.10", "10.16.0.19", "tun0"))
    return a, routed(b, route(LAN), route("10.16.0.0/16", None, "tun0"), *(route(n, None, "tun0") for n in networks))


def vpn_on_node_0() -> Facts:
    a, b = two()
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,), mtu=1500)))
    return routed(a, route(LAN), route("10.77.0.0/25", None, "tun0")), b


def asleep(*entries: TableRoute, **how: object) -> Facts:
    """The master's address is in the network of host1's admin0, which is down; eth0 is in another."""
    a, b = two(**how)  # type: ignore[arg-type]
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    eth0, down = replace(eth0, addresses=("10.88.0.11",)), Interface("admin0", ("10.77.0.11",), (24,), up=False)
    return a, routed(with_host(b, interfaces=(lo, eth0, down)), route("10.88.0.0/24"), *entries)


def behind_nat(at: str, *, nccl: bool = False) -> Facts:
    """host1 is behind address translation at this address, to which host0 has no route; host1 reaches host0."""
    a, b = (with_gpus(one, 2) if nccl else one for one in met(node(of=2), node("host1", 1, ip=at)))
    links = (Link(b.key, at, 40001, ("gloo", "nccl", "primary"), "unreachable", 101),)
    b = routed(b, route(f"{at.rpartition('.')[0]}.0/24"), route("0.0.0.0/0", f"{at.rpartition('.')[0]}.1"))
    return routed(replace(a, mesh=MeshFacts(good=0, bad=links)), route(LAN)), b


FILTERED = "network/port-filtered"
ROWS = [
    Row("node 0's netmask leaves host1 out", mask_of_node_0, FILTERED, ("host0",), together=True),
    Row("host1's netmask leaves node 0 out", mask_of_node_1, "network/no-route", ("host1",), together=True),
    Row("node 0 answers by a gateway that is none", back_by_a_gateway, FILTERED, ("host0",), together=True),
    Row("node 0 answers into a hole", back_into_a_hole, FILTERED, ("host0",), together=True),
    Row("host1 sends by a gateway that is none", there_by_a_gateway, "network/master-unreachable", ("host1",), together=True),
    Row("a reverse path filter on node 0", reverse_path, FILTERED, ("host0",), together=True),
    Row("a reverse path filter that drops ARP, too", lambda: reverse_path("unreachable"), "network/master-unreachable", ("host0",), together=True),
    Row("no way back", no_way_back, FILTERED, ("host0",), together=True),
    Row("one of three has another netmask", mask_of_one_of_three, "network/no-route", ("host1",), together=True),
    Row("a VPN on host1 takes part of the LAN", lambda: vpn("10.77.0.0/25"), FILTERED, ("host1",), together=True),
    Row("a VPN on node 0 takes part of the LAN", vpn_on_node_0, FILTERED, ("host0",), together=True),
    Row("an interface of host1 is down", lambda: asleep(outcome="unreachable", errno=101), "network/no-route", ("host1",), together=True),
    Row("an interface of host1 is down, the default route is not", lambda: asleep(route("0.0.0.0/0", "10.88.0.1")), FILTERED, ("host1",), together=True),
    Row("behind NAT, and dials", lambda: behind_nat("172.28.0.2"), "network/no-route", ("host0",), "warn", together=True),
    Row("behind NAT, and is dialled", lambda: behind_nat("10.5.0.2"), "network/no-route", ("host0",), together=True),
    Row("behind NAT, with NCCL", lambda: behind_nat("172.28.0.2", nccl=True), "network/no-route", ("host0",), together=True),
    Row("one of three sends by a gateway that is none", peer_by_a_gateway, "mesh/peer-ports-blocked", ("host1",), together=True),
]  # fmt: skip


def routed_apart() -> Facts:
    """Two networks with a router between them: gateways are right here."""
    facts = []
    for number, one in enumerate(healthy(2)):
        assert one.host is not None
        own, router = f"10.{80 + number}.0.{10 + number}", f"10.{80 + number}.0.1"
        one = with_host(one, interfaces=(one.host.interfaces[0], Interface("eth0", (own,), (24,), mtu=1500)))
        facts.append(routed(one, route(f"10.{80 + number}.0.0/24"), route("0.0.0.0/0", router), strict=("eth0",)))
    return tuple(facts)


def vpn_that_works() -> Facts:
    a, b = healthy(2)
    assert b.host is not None
    down = Interface("admin0", ("10.77.0.21",), (24,), up=False)
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,)), down))
    return routed(a, route(LAN)), routed(b, route(LAN), route("10.77.0.0/25", None, "tun0"))


HEALTHY: dict[str, Facts] = {
    "a table and strict filters": tuple(routed(one, route(LAN), strict=("eth0",)) for one in healthy(2)),
    "a router between the nodes": routed_apart(),
    "a LAN in a tunnel that carries it, and an interface that is down": vpn_that_works(),
    "addresses of /32, each with a route": tuple(
        routed(masked(one, 32), route("10.77.0.1/32"), route("0.0.0.0/0", "10.77.0.1")) for one in healthy(3)
    ),
}

FIXES = {
    "node 0's netmask": (
        mask_of_node_0,
        "ip address add 10.77.0.10/24 dev eth0 && ip address del 10.77.0.10/32 dev eth0",
    ),
    "host1's netmask": (
        mask_of_node_1,
        "ip address add 10.77.0.11/24 dev eth0 && ip address del 10.77.0.11/32 dev eth0",
    ),
    "a gateway": (back_by_a_gateway, "ip route del 10.77.0.11/32 via 10.77.0.99"),
    "a hole": (back_into_a_hole, "ip route del 10.77.0.11/32"),
    "a gateway, there": (there_by_a_gateway, "ip route del 10.77.0.10/32 via 10.77.0.99"),
    "a reverse path filter": (reverse_path, "sysctl -w net.ipv4.conf.eth0.rp_filter=2"),
    "no way back": (no_way_back, "ip route add 10.88.0.0/24 dev eth0"),
    "a netmask of three": (
        mask_of_one_of_three,
        "ip address add 10.77.0.11/24 dev eth0 && ip address del 10.77.0.11/31 dev eth0",
    ),
    "a VPN": (lambda: vpn("10.77.0.0/25"), "ip route del 10.77.0.0/25 dev tun0"),
    "a VPN, of one host": (lambda: vpn("10.77.0.10/32"), "ip route del 10.77.0.10/32 dev tun0"),
    "a VPN on node 0": (vpn_on_node_0, "ip route del 10.77.0.0/25 dev tun0"),
    "an interface that is down": (lambda: asleep(outcome="unreachable", errno=101), "ip link set dev admin0 up"),
    "an interface that is down, with a default route": (
        lambda: asleep(route("0.0.0.0/0", "10.88.0.1")),
        "ip link set dev admin0 up",
    ),
    "a gateway of three": (peer_by_a_gateway, "ip route del 10.77.0.12/32 via 10.77.0.99"),
}
"""The one command that each of these faults has."""


def shut_out_of_three() -> Facts:
    """host2 does not get to node 0, which host1 reaches."""
    a, b, c = healthy(3)
    return (*met(a, b, outside(c), expected=3)[:2], outside(c, "unreachable", errno=113))

"""network/wrong-interface: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import AddressChoice, Interface, Link, MeshFacts, NodeFacts, Translated
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import failing, healthy, met, node, with_gpus, with_host, with_network, with_plan

CHECK = "network/wrong-interface"


def docker0() -> Facts:
    facts = []
    for one in healthy(2):
        assert one.host is not None
        one = with_host(one, interfaces=(*one.host.interfaces, Interface("docker0", ("172.17.0.1",), (16,))))
        facts.append(with_host(one, gloo=AddressChoice("172.17.0.1", "docker0", "variable", "docker0")))
    a, b = facts
    a = replace(a, mesh=MeshFacts(1, (Link(b.key, "172.17.0.1", 40001, ("gloo",), "wrong-node"),)))
    b = replace(b, mesh=MeshFacts(1, (Link(a.key, "172.17.0.1", 40000, ("gloo",), "refused", 111),)))
    return tuple(failing(one, "gloo", "connect [172.17.0.1]:1: Connection refused") for one in (a, b))


def picks(one: NodeFacts, interface: str, address: str, reason: str = "hostname") -> NodeFacts:
    """The facts of a node whose gloo picks another interface, which it has besides."""
    assert one.host is not None
    one = with_host(one, interfaces=(*one.host.interfaces, Interface(interface, (address,), (24,), mtu=1500)))
    value = interface if reason == "variable" else None
    return with_host(one, gloo=AddressChoice(address, interface, reason, value))


def missed(one: NodeFacts, *targets: tuple[NodeFacts, str, str]) -> NodeFacts:
    """The facts of a node that cannot reach (target, address, outcome) where gloo is, though it reaches the target."""
    bad = tuple(Link(t.key, at, 40001, ("gloo",), outcome) for t, at, outcome in targets)  # type: ignore[arg-type]
    return replace(one, mesh=MeshFacts(good=1, bad=bad))


def docker0_on_one() -> Facts:
    """host1 alone picks docker0, which host0 has too. 172.17 is above 10.77: host1 connects, and it works."""
    a, b = healthy(2)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("docker0", ("172.17.0.1",), (16,))))
    b = picks(b, "docker0", "172.17.0.1")
    return missed(a, (b, "172.17.0.1", "wrong-node")), b


def vpn_on_one(at: str) -> Facts:
    a, b = healthy(2)
    b = picks(b, "tun0", at)
    return missed(a, (b, at, "no-answer")), b


def nccl_docker0() -> Facts:
    facts = []
    for one in (with_gpus(one, 2) for one in healthy(2)):
        assert one.host is not None
        one = with_host(one, interfaces=(Interface("docker0", ("172.17.0.1",), (16,)), *one.host.interfaces))
        facts.append(with_host(one, nccl=AddressChoice("172.17.0.1", "docker0", "variable", "docker")))
    return tuple(facts)


def nccl_loopback(*hosts: int) -> Facts:
    """NCCL_SOCKET_IFNAME=^ib, which takes all but ib*, the first of them lo."""
    facts = [with_gpus(one, 2) for one in healthy(2)]
    return tuple(
        with_host(one, nccl=AddressChoice("127.0.0.1", "lo", "variable", "^ib")) if number in hosts else one
        for number, one in enumerate(facts)
    )


def link_local_first() -> Facts:
    """GLOO_SOCKET_IFNAME=eth0 on host1, whose eth0 has a link-local address before the one that is reached."""
    at = "169.254.5.5"
    a, b = (node(f"host{n}", n, ip=f"192.168.7.{10 + n}", master="192.168.7.10") for n in range(2))
    assert b.host is not None
    lo = next(one for one in b.host.interfaces if one.loopback)
    b = with_host(b, interfaces=(lo, Interface("eth0", (at, "192.168.7.11"), (16, 24), mtu=1500)))
    b = with_host(b, gloo=AddressChoice(at, "eth0", "variable", "eth0"))
    return met(missed(a, (b, at, "error")), b)


def vpn_everywhere() -> Facts:
    """All nodes are in one VPN and gloo uses it."""
    facts = []
    for number, one in enumerate(healthy(3)):
        facts.append(picks(one, "wg0", f"10.99.0.{10 + number}"))
    return tuple(facts)


def routed_containers() -> Facts:
    """Containers at 172.17 addresses of their own that are routed, each beside a docker0 of the host's."""
    facts = []
    for number in range(2):
        one = node(f"host{number}", number, ip=f"172.17.{number + 1}.2", master="172.17.1.2")
        assert one.host is not None
        docker = Interface("docker0", ("172.17.0.1",), (16,))
        facts.append(with_host(one, interfaces=(*one.host.interfaces, docker)))
    return met(*facts)


def nccl_without_gloo_at_docker() -> Facts:
    """gloo would take docker0, but the job makes no gloo group and none was tried."""
    facts: list[Any] = []
    for one in healthy(2):
        one = picks(with_plan(with_gpus(one, 2), backend="nccl"), "docker0", "172.17.0.1")
        facts.append(replace(one, stages=tuple(s for s in one.stages if s.stage != "gloo")))
    return tuple(facts)


def contained(at: str = "172.17.0.2", outcome: str = "unreachable", seen: str = "10.77.0.99", of: int = 2) -> Facts:
    """The last node is a container at this address: its machine, ``seen``, puts its own address on what it sends. The
    others find no way to it."""
    *others, last = healthy(of)
    last = picks(with_network(last, primary=AddressChoice(at, "eth1", "route")), "eth1", at)
    translated = tuple(Translated(one.key, at, seen) for one in others)
    last = replace(last, mesh=MeshFacts(good=of - 1, translated=translated))
    bad = (Link(last.key, at, 40001, ("gloo", "primary"), outcome, 101 if outcome == "unreachable" else None),)  # type: ignore[arg-type]
    return (*(replace(one, mesh=MeshFacts(good=of - 2, bad=bad)) for one in others), last)


def routed_pod() -> Facts:
    """Return what a pod sends is translated, and the others have a route to it all the same: every link works."""
    a, b = contained()
    return replace(a, mesh=MeshFacts(good=1)), b


def only_one_has_no_route() -> Facts:
    """Of three, one node has no route to a node behind translation, which the other reaches: the route is missing."""
    a, b, c = contained(of=3)
    return a, replace(b, mesh=MeshFacts(good=2)), c


ROWS = [
    Row("a container, and no route to it", contained, ("host1",), "warn", together=True),
    Row("a container, dialled", lambda: contained("10.5.0.2"), ("host1",), together=True),
    Row(
        "a container, and a silent way to it", lambda: contained(outcome="no-answer"), ("host1",), "warn", together=True
    ),
    Row("a container among three", lambda: contained("10.5.0.2", of=3), ("host2",), together=True),
    Row("docker0 on both", docker0, BOTH, together=True),
    Row("docker0 on one", docker0_on_one, ("host1",), "warn", together=True),
    Row("tun0 that is dialled", lambda: vpn_on_one("10.8.0.6"), ("host1",), together=True),
    Row("tun0 that dials", lambda: vpn_on_one("100.64.0.6"), ("host1",), "warn", together=True),
    Row("docker0 for nccl", nccl_docker0, BOTH, together=True),
    Row("loopback for nccl", lambda: nccl_loopback(0, 1), BOTH, together=True),
    Row("a link-local address first", link_local_first, ("host1",), together=True),
    Row("loopback for nccl on one", lambda: nccl_loopback(1), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("VPN that all nodes are in", vpn_everywhere),
    LookAlike("containers with routed 172.17 addresses", routed_containers),
    LookAlike("nccl beside docker0", nccl_without_gloo_at_docker),
    LookAlike("a pod whose connections are translated, with a route to it", routed_pod),
    LookAlike("one of two others has no route to a node behind translation", only_one_has_no_route, "network/no-route"),
]

CURES = [
    Cure("docker0 on one", docker0_on_one, {"host1": {"env": {"GLOO_SOCKET_IFNAME": "eth0"}}}),
    Cure("loopback for nccl", lambda: nccl_loopback(1), {"host1": {"env": {"NCCL_SOCKET_IFNAME": "eth0"}}}),
    Cure(
        "a link-local address first",
        link_local_first,
        {"host1": {"commands": ("ip address del 169.254.5.5/16 dev eth0 && ip address add 169.254.5.5/16 dev eth0",)}},
        unsaid=("container", "--network"),
    ),
    Cure("docker0 for nccl", nccl_docker0, on_each(BOTH, {"env": {"NCCL_SOCKET_IFNAME": "eth0"}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

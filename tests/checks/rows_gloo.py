"""Rows about the address that gloo advertises."""

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Interface, Link, MeshFacts, NodeFacts, Resolution, StageFacts
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    failing,
    healthy,
    loopback_name,
    met,
    node,
    with_gpus,
    with_host,
    with_plan,
)

LOOPBACK = "gloo/loopback-address"
BOTH = ("host0", "host1")


REFUSED = "connectFullMesh failed with [connect [127.0.1.1]:1234: Connection refused]"


def loopback_both() -> Facts:
    a, b = healthy(2)
    return failing(loopback_name(a), "gloo", REFUSED), failing(loopback_name(b), "gloo", "ended after 3 s", killed=True)


def loopback_one(network: str = "10.77.0") -> Facts:
    master = f"{network}.10"
    a, b = node("host0", 0, ip=master, master=master), node("host1", 1, ip=f"{network}.11", master=master)
    return met(a, loopback_name(b))


def loopback_of_other_family() -> Facts:
    """host1's own name means ::1 before its real address; gloo compares families before anybody connects."""
    a, b = healthy(2)
    said = "[enforce fail at device.cc:285] ss1.ss_family == ss2.ss_family. {}"
    return failing(a, "gloo", said.format("2 vs 10")), failing(loopback_name(b, "::1"), "gloo", said.format("10 vs 2"))


def loopback_variable() -> Facts:
    return tuple(with_host(one, gloo=AddressChoice("127.0.0.1", "lo", "variable", "lo")) for one in healthy(2))


def unresolvable_both() -> Facts:
    facts = []
    for one in healthy(2):
        own = Resolution(one.identity.hostname, error="Name or service not known")
        facts.append(with_host(one, own_name=own, gloo=AddressChoice("127.0.0.1", "lo", "fallback")))
    return tuple(failing(one, "gloo", REFUSED.replace("127.0.1.1", "127.0.0.1")) for one in facts)


def nccl_only(one: NodeFacts) -> NodeFacts:
    """--backend nccl, and gloo was not probed."""
    one = with_plan(one, backend="nccl")
    return replace(one, ranks=tuple(replace(r, gpu=None, stages=()) for r in one.ranks), stages=one.stages[:2])


def nccl_loopback() -> Facts:
    return tuple(nccl_only(loopback_name(one)) for one in healthy(2))


def nccl_loopback_skipped() -> Facts:
    return tuple(replace(one, stages=(*one.stages, StageFacts("gloo", "skipped"))) for one in nccl_loopback())


def nccl_gloo_probed() -> Facts:
    """--backend nccl; gloo is probed all the same."""
    facts = (failing(loopback_name(one), "gloo", REFUSED) for one in healthy(2))
    return tuple(with_gpus(with_plan(one, backend="nccl"), 2) for one in facts)


def nccl_unresolvable() -> Facts:
    a, b = healthy(2)
    return nccl_only(a), nccl_only(with_host(b, own_name=Resolution("host1", error="unknown", timed_out=True)))


def not_found(value: str = "ib0") -> Facts:
    a, b = healthy(2)
    b = with_host(b, gloo=AddressChoice(None, None, "not-found", value))
    return failing(a, "gloo", "ended", killed=True), failing(b, "gloo", f"Unable to find address for: {value}")


def not_found_and_loopback_name() -> Facts:
    a, b = not_found()
    return a, with_host(b, own_name=Resolution("host1", ("127.0.1.1",)))


def second_network(at: str) -> Facts:
    """host1's gloo takes eth1, to which host0 has no way."""
    a, b = healthy(2)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("eth1", (at,), (24,))))
    b = with_host(b, gloo=AddressChoice(at, "eth1", "variable", "eth1"))
    bad = Link(b.key, at, 40001, ("gloo",), "unreachable", 113)
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


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


ROWS = [
    Row("127.0.1.1 on both", loopback_both, LOOPBACK, BOTH, together=True),
    Row("127.0.1.1 on one, 10.x", loopback_one, LOOPBACK, ("host1",), "warn", together=True),
    Row("127.0.1.1 on one, 192.168", lambda: loopback_one("192.168.7"), LOOPBACK, ("host1",), together=True),
    Row("::1 on one, IPv4 on the other", loopback_of_other_family, LOOPBACK, ("host1",), together=True),
    Row("GLOO_SOCKET_IFNAME=lo", loopback_variable, LOOPBACK, BOTH, together=True),
    Row("own name unknown", unresolvable_both, LOOPBACK, BOTH, together=True),
    Row("nccl only", nccl_loopback, "host/hostname-loopback", BOTH, "warn", together=True),
    Row("nccl only, gloo skipped", nccl_loopback_skipped, "host/hostname-loopback", BOTH, "warn", together=True),
    Row("nccl, gloo probed", nccl_gloo_probed, LOOPBACK, BOTH, "warn", together=True),
    Row("nccl only, unknown", nccl_unresolvable, "host/hostname-unresolvable", ("host1",), "warn", together=True),
    Row("no such interface", not_found, "gloo/interface-not-found", ("host1",), together=True),
    Row(
        "no such interface, 127.0.1.1",
        not_found_and_loopback_name,
        "gloo/interface-not-found",
        ("host1",),
        together=True,
    ),
    Row(
        "second network", lambda: second_network("10.55.1.11"), "gloo/interface-unreachable", ("host1",), together=True
    ),
    Row(
        "second network that dials",
        lambda: second_network("10.99.1.11"),
        "gloo/interface-unreachable",
        ("host1",),
        "warn",
        together=True,
    ),
    Row("docker0 on both", docker0, "network/wrong-interface", BOTH, together=True),
]

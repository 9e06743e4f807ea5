"""network/overlapping-subnets: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Contact, HardwareAddress, InterfaceContact, NodeFacts, TableRoute
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import PORT, healthy, outside, waited_in_vain, with_host, with_network

CHECK = "network/overlapping-subnets"
LAN = "10.77.0.0/24"


def doubled(facts: NodeFacts, own: str, first: str = "eth1", second: str = "eth0") -> NodeFacts:
    """The node has one more interface in the LAN, by which it sends to that where it is the first."""
    assert facts.host is not None
    name = first if first != "eth0" else second
    more = replace(facts.host.interfaces[1], name=name, addresses=(own,), prefix_lengths=(24,))
    return with_network(
        with_host(facts, interfaces=(*facts.host.interfaces, more)),
        routes=(TableRoute(LAN, None, first), TableRoute(LAN, None, second)),
    )


def client(outcome: str = "refused", first: str = "eth1") -> Facts:
    """Node 1 sends by eth1 (or another), where nobody answers."""
    a, b = healthy(2, declared=True)
    other = InterfaceContact("eth0", Contact("10.77.0.10", PORT, outcome))  # type: ignore[arg-type]
    b = with_network(doubled(outside(b, "unreachable", errno=113), "10.77.0.111", first), other_ways=(other,))
    return waited_in_vain(a), b


def master() -> Facts:
    """Node 0 answers by eth1, and nobody is there."""
    a, b = healthy(2, declared=True)
    a = with_network(
        doubled(waited_in_vain(a), "10.77.0.110"),
        unanswered=(HardwareAddress("10.77.0.11", "", "eth1"),),
        hardware_addresses=(HardwareAddress("10.77.0.11", "02:00:00:00:00:01", "eth0"),),
    )
    return a, outside(b, "no-answer", control="no-answer")


def both_lead_there() -> Facts:
    a, b = healthy(2)
    return a, doubled(b, "10.77.0.111")


def nobody_there() -> Facts:
    """Whoever is asked for, by whichever interface: the other host is down."""
    _, b = client("unreachable")
    return (with_network(b, unanswered=(HardwareAddress("10.77.0.10", "", "eth1"),)),)


ROWS = [
    Row("a node sends by the wrong one", client, ("host1",), alone=("store/nodes-missing",)),
    Row(
        "a docker network has the LAN's addresses",
        lambda: client(first="br-3f2a9c1b7d04"),
        ("host1",),
        alone=("store/nodes-missing",),
    ),
    Row("node 0 answers by the wrong one", master, ("host0",), alone=("store/nodes-missing", "network/port-filtered")),
]

LOOK_ALIKES = [
    LookAlike("both lead to the same switch", both_lead_there),
    LookAlike("nobody is there by either", nobody_there, "store/nodes-missing"),
]

CURES = [
    Cure(
        "a docker network",
        lambda: client(first="br-3f2a9c1b7d04"),
        {"host1": {"commands": (f"ip route del {LAN} dev br-3f2a9c1b7d04",)}},
    ),
    Cure("the first route", client, {"host1": {"commands": (f"ip route del {LAN} dev eth1",)}}),
    Cure("node 0", master, {"host0": {"commands": (f"ip route del {LAN} dev eth1",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

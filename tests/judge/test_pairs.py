"""Two things wrong at once, on two nodes of three: each is told as a failure of its own, none as the other's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import pytest

from distdoctor.model.facts import Link, MeshFacts, NodeFacts
from tests.clusters.links import cut, into, out_of
from tests.facts_builder import (
    PORT,
    alone,
    blocking,
    healthy,
    judged,
    loopback_name,
    outside,
    waited_in_vain,
    with_master,
    with_meeting,
    with_network,
    with_plan,
    with_variables,
)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a node, and the check that tells it."""

    check: str
    make: Callable[[NodeFacts], NodeFacts]
    rule: str = ""
    """What node 0's packet filter does to packets from that node."""
    meets: bool = False
    """It gets to the store all the same."""


def no_torch(one: NodeFacts) -> NodeFacts:
    identity = replace(one.identity, torch=None, torch_error="No module named 'torch'")
    return replace(alone(one), identity=identity)


DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
FAULTS = (
    Fault("network/port-filtered", lambda one: outside(one, "no-answer", control="refused"), "drop"),
    Fault("network/port-rejected", lambda one: outside(one, "rejected", errno=113), "reject"),
    Fault("network/port-refused", outside, "reject with tcp reset"),
    Fault("network/no-route", lambda one: outside(one, "unreachable", errno=101)),
    Fault("network/master-unreachable", lambda one: outside(one, "unreachable", errno=113)),
    Fault("network/master-unresolvable", lambda one: outside(with_master(one, "host0", own=None, resolved=[]), None)),
    Fault(
        "network/master-resolves-differently",
        lambda one: outside(with_master(one, "host0", resolved=["10.77.0.200"]), "unreachable", errno=113),
    ),
    Fault("environment/master-mismatch", lambda one: outside(with_plan(one, master_port=PORT + 200))),
    Fault("environment/torch-missing", no_torch, meets=True),
    Fault(
        "environment/setting-mismatch", lambda one: with_variables(one, TORCH_DISTRIBUTED_DEBUG="DETAIL"), meets=True
    ),
    Fault("gloo/loopback-address", loopback_name, meets=True),
)
PAIRS = list(combinations(FAULTS, 2))


def both(one: Fault, other: Fault) -> tuple[NodeFacts, ...]:
    """The first is host1's, the second host2's."""
    nodes = [with_master(f, "host0", own=n == 0, resolved=["10.77.0.10"]) for n, f in enumerate(healthy(3))]
    rules = []
    for number, fault in ((1, one), (2, other)):
        nodes[number] = fault.make(nodes[number])
        if fault.rule:
            rules.append(f"ip saddr 10.77.0.1{number} tcp dport {PORT} {fault.rule}")
    came = (nodes[0].key, *(nodes[n].key for n, fault in ((1, one), (2, other)) if fault.meets))
    zero = waited_in_vain(nodes[0], 3) if len(came) == 1 else nodes[0]
    nodes[0] = with_meeting(zero, arrived=came, ended=True, expected=3, waited=60.0)
    if rules:
        nodes[0] = with_network(nodes[0], firewall=blocking(*rules))
    return tuple(nodes)


@pytest.mark.parametrize(
    ("one", "other"), list(combinations(FAULTS, 2)), ids=lambda fault: fault.check.partition("/")[2]
)
def test_two_faults_of_two_nodes_are_two_roots(one: Fault, other: Fault) -> None:
    assert {found.check for found in judged(*both(one, other)).roots} == {one.check, other.check}


def test_what_one_host_keeps_out_is_no_reason_why_another_keeps_out_others() -> None:
    """host0 drops host2's packets for the master's port; host1 lets in nothing but that port."""
    a, b, c = healthy(3)
    a = with_network(a, firewall=blocking(f"ip saddr 10.77.0.12 tcp dport {PORT} drop"))
    a = with_meeting(a, arrived=(a.key, b.key))
    to_b = Link(b.key, "10.77.0.11", 40001, ("gloo", "primary"), "no-answer")
    a = replace(a, mesh=MeshFacts(good=0, bad=(to_b,)))
    b = replace(with_network(b, firewall=blocking(policy="drop")), mesh=MeshFacts(good=1))
    found = judged(a, b, outside(c, "no-answer", control="refused")).roots
    assert {(one.check, one.nodes) for one in found} == {
        ("network/port-filtered", ("host0",)),
        ("mesh/peer-ports-blocked", ("host1",)),
    }


def test_who_knows_no_way_to_node_0_lacks_it_whatever_else_node_0_lacks() -> None:
    """host0 has no torch, and hosts nothing; host1 has no route to it; host2 would come, and is refused."""
    a, b, c = (with_master(f, "host0", own=n == 0, resolved=["10.77.0.10"]) for n, f in enumerate(healthy(3)))
    found = judged(no_torch(a), outside(b, "unreachable", errno=101), outside(c, "refused")).roots
    assert {(one.check, one.nodes) for one in found} == {
        ("environment/torch-missing", ("host0",)),
        ("network/no-route", ("host1",)),
    }


def test_that_one_node_is_cut_off_is_no_reason_why_two_others_lose_large_packets() -> None:
    """Nor where it cannot be told which of the two it is."""
    facts = list(cut(into(1, 5) | out_of(1, 5), 5))
    for here, there in ((2, 3), (3, 2)):
        mesh = facts[here].mesh
        assert mesh is not None
        stalled = Link(facts[there].key, f"10.77.0.1{there}", 40000, ("gloo", "primary"), "stalled")
        facts[here] = replace(facts[here], mesh=replace(mesh, bad=(*mesh.bad, stalled)))
    assert {(one.check, one.nodes) for one in judged(*facts).roots} == {
        ("mesh/node-isolated", ("host1",)),
        ("mesh/mtu-blackhole", ("host2", "host3")),
    }

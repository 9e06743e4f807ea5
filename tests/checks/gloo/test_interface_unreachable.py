"""gloo/interface-unreachable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import AddressChoice, Contact, Interface, Link, MeshFacts
from tests.checks.gloo.test_interface_not_found import not_found
from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.clusters.interfaces import interfaces
from tests.facts_builder import healthy, judged, with_host, with_network

CHECK = "gloo/interface-unreachable"


def second_network(at: str) -> Facts:
    """host1's gloo takes eth1, to which host0 has no way."""
    a, b = healthy(2)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("eth1", (at,), (24,))))
    b = with_host(b, gloo=AddressChoice(at, "eth1", "variable", "eth1"))
    bad = Link(b.key, at, 40001, ("gloo",), "unreachable", 113)
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


def second_leads_nowhere() -> Facts:
    a, b = interfaces("eth0,eth1", "eth0,eth1", shared=False)
    back = Link(a.key, "10.90.0.10", 40000, ("gloo",), "unreachable", 101)
    there = Link(b.key, "10.91.0.11", 40001, ("gloo",), "unreachable", 101)
    return replace(a, mesh=MeshFacts(good=1, bad=(there,))), replace(b, mesh=MeshFacts(good=1, bad=(back,)))


def nobodys(nproc: int = 2) -> Facts:
    """host1's own name means a floating address that it has not, at which gloo may listen all the same."""
    a, b = healthy(2, nproc=nproc)
    b = with_host(b, gloo=AddressChoice("10.77.0.250", None, "hostname"))
    b = with_network(b, own_port=Contact("10.77.0.250", 40001, "no-answer", None, 1.0))
    bad = Link(b.key, "10.77.0.250", 40001, ("gloo",), "no-answer")
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


ROWS = [
    Row("an address of no interface", nobodys, ("host1",), together=True),
    Row("an address of no interface, one rank", lambda: nobodys(1), ("host1",), "warn", together=True),
    Row("second network", lambda: second_network("10.55.1.11"), ("host1",), together=True),
    Row("second network that dials", lambda: second_network("10.99.1.11"), ("host1",), "warn", together=True),
    Row("the second interface leads nowhere", second_leads_nowhere, BOTH, together=True),
]

LOOK_ALIKES = [LookAlike("no such interface", not_found, "gloo/interface-not-found")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_an_interface_whose_first_address_is_the_wrong_one_is_not_named() -> None:
    """gloo would take the same address again."""
    a, b = healthy(2)
    assert b.host is not None
    eth0 = replace(b.host.interfaces[1], addresses=("10.55.0.11", "10.77.0.11"), prefix_lengths=(24, 24))
    b = with_host(b, interfaces=(b.host.interfaces[0], eth0), gloo=AddressChoice("10.55.0.11", "eth0", "hostname"))
    bad = Link(b.key, "10.55.0.11", 40001, ("gloo",), "unreachable", 113)
    (root,) = judged(replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b).roots
    assert root.check == CHECK
    assert [(fix.env, "10.77.0.11" in fix.text) for fix in root.fixes] == [({}, True)]


@pytest.mark.parametrize(
    ("meant", "said"), [("10.77.0.11", "gloo then binds 10.77.0.11"), ("10.55.0.11", "/etc/hosts")]
)
def test_a_variable_that_leads_to_the_first_address_is_unset(meant: str, said: str) -> None:
    """Whatever the own name means, gloo does not ask for it while GLOO_SOCKET_IFNAME is set."""
    a, b = healthy(2)
    assert b.host is not None
    eth0 = replace(b.host.interfaces[1], addresses=("10.55.0.11", "10.77.0.11"), prefix_lengths=(24, 24))
    b = with_host(
        b, interfaces=(b.host.interfaces[0], eth0), gloo=AddressChoice("10.55.0.11", "eth0", "variable", "eth0")
    )
    b = with_host(b, own_name=replace(b.host.own_name, addresses=(meant,)) if b.host else None)
    bad = Link(b.key, "10.55.0.11", 40001, ("gloo",), "unreachable", 101)
    (root,) = judged(replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b).roots
    assert root.check == CHECK
    assert [fix.env for fix in root.fixes] == [{"GLOO_SOCKET_IFNAME": None}]
    assert said in root.fixes[0].text

"""network/rendezvous-unhosted: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import AddressChoice, Interface, Resolution
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.facts_builder import healthy, with_host, with_network, with_plan

CHECK = "network/rendezvous-unhosted"
SECOND = "10.99.0.10"


def c10d(master: str, addresses: tuple[str, ...], own: tuple[str, ...] = ("10.77.0.10",), **plan: Any) -> Facts:
    """Two nodes that meet at ``master``, which is host0's; its own name has the addresses ``own`` there."""
    a, b = healthy(2)
    facts = [
        with_network(
            with_plan(one, rdzv_backend="c10d", master_addr=master, sources={"master_addr": "--rdzv-endpoint"}, **plan),
            master=Resolution(master, addresses),
            master_is_own=one is a,
        )
        for one in (a, b)
    ]
    assert a.host is not None
    interfaces = (*a.host.interfaces, Interface("eth1", (SECOND,), (24,), mtu=1500))
    announced = Resolution("host0", own)
    gloo = AddressChoice("10.77.0.10", "eth0", "variable")
    a = with_host(facts[0], own_name=announced, announced=announced, interfaces=interfaces, gloo=gloo)
    return a, facts[1]


def second_card() -> Facts:
    return c10d(SECOND, (SECOND,))


def debian(**plan: Any) -> Facts:
    """gloo is told its interface, so that 127.0.1.1 harms nothing but this."""
    return c10d("10.77.0.10", ("10.77.0.10",), ("127.0.1.1",), **plan)


ROWS = [
    Row("the endpoint is the second card", second_card, ("host0",), together=True),
    Row("the own name is 127.0.1.1", debian, ("host0",), together=True),
    Row("an alias of the second card", lambda: c10d("ib-host0", (SECOND,)), ("host0",), together=True),
    Row("is_host is false on all", lambda: c10d("host0", ("10.77.0.10",), is_host=False), ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike("the endpoint is the own name, at 127.0.1.1", lambda: c10d("host0", ("127.0.1.1",), ("127.0.1.1",))),
    LookAlike("an alias of the own name's address", lambda: c10d("master", ("10.77.0.10",))),
    LookAlike("the name's address in another spelling", lambda: c10d("10.77.0.10", ("::ffff:10.77.0.10",))),
    LookAlike("node 0 is told that it hosts", lambda: debian(is_host=True)),
    LookAlike("the static rendezvous", lambda: tuple(with_plan(one, rdzv_backend="static") for one in second_card())),
]

CURES = [
    Cure("second card", second_card, {"host0": {"flags": {"--rdzv-conf": "is_host=true"}}}),
    Cure("127.0.1.1", debian, {"host0": {"flags": {"--rdzv-conf": "is_host=true"}}}, only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_the_address_of_the_own_name_is_the_other_way() -> None:
    other = [fix for fix in fixes(*second_card()) if fix.option == 2]
    assert [(fix.nodes, fix.flags) for fix in other] == [(BOTH, {"--rdzv-endpoint": "10.77.0.10:29500"})]

"""host/lo-down: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Bind, Contact
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, outside, with_host, with_master, with_meeting, with_network, with_plan

CHECK = "host/lo-down"


def loopback(which: int, *, up: bool = False, addresses: tuple[str, ...] = (), nproc: int = 2) -> Facts:
    """That of one of two nodes."""
    nodes = list(healthy(2, nproc=nproc))
    host = nodes[which].host
    assert host is not None
    ours = tuple(replace(one, up=up, addresses=addresses) if one.loopback else one for one in host.interfaces)
    nodes[which] = with_host(nodes[which], interfaces=ours)
    return tuple(nodes)


def alone(master: str = "127.0.0.1") -> Facts:
    """One node whose loopback interface is up and has no address."""
    (node,) = healthy(1)
    assert node.host is not None
    ours = tuple(replace(one, addresses=()) if one.loopback else one for one in node.host.interfaces)
    return (with_plan(with_host(node, interfaces=ours), master_addr=master),)


def never_set_up() -> Facts:
    """One node in a network namespace whose loopback interface was never set up: 127.0.0.1 is no address of it."""
    (node,) = healthy(1)
    assert node.host is not None
    ours = tuple(replace(one, up=False, addresses=()) if one.loopback else one for one in node.host.interfaces)
    node = outside(with_master(with_host(node, interfaces=ours), "127.0.0.1"), "unreachable", errno=101)
    bind = Bind(True, 29500)
    return (with_meeting(with_network(node, bind=bind), hosted=True, expected=1),)


def lost_on_it() -> Facts:
    """Return what host1 sends to a port of its own gets no answer, as from a packet filter."""
    a, b = loopback(1)
    return a, with_network(b, own_port=Contact("10.77.0.11", 40001, "no-answer", None, 1.0))


ROWS = [
    Row("and what goes over it is lost", lost_on_it, ("host1",), together=True),
    Row("never set up, and the store is to be at 127.0.0.1", never_set_up, ("host0",)),
    Row("no address, one node", alone, ("host0",), together=True),
    Row("of node 1", lambda: loopback(1), ("host1",), together=True),
    Row("of node 0 with one rank", lambda: loopback(0, nproc=1), ("host0",), together=True),
    Row("down with its addresses", lambda: loopback(1, addresses=("127.0.0.1",)), ("host1",), together=True),
    Row("one rank, on node 1", lambda: loopback(1, nproc=1), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("up without an address of IPv6", lambda: loopback(1, up=True, addresses=("127.0.0.1",))),
    LookAlike("no address, and the store is elsewhere", lambda: alone("10.77.0.10")),
]

CURES = [
    Cure("up", lambda: loopback(1), {"host1": {"commands": ("ip link set lo up",)}}, only=True),
    Cure("its address", alone, {"host0": {"commands": ("ip address add 127.0.0.1/8 dev lo",)}}, only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

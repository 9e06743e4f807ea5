"""store/foreign-store: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Answer, Bind
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.master import SSHD, held
from tests.facts_builder import PORT, healthy, outside, waited_in_vain, with_host, with_meeting, with_network

CHECK = "store/foreign-store"


def own_store_without_the_mark() -> Facts:
    """Node 0 hosts the store, and does not get to it itself: its loopback interface is down."""
    a, b = healthy(2)
    assert a.host is not None
    lo, eth0 = a.host.interfaces
    a = with_host(waited_in_vain(a), interfaces=(replace(lo, up=False), eth0))
    a = with_network(a, bind=Bind(True, PORT))
    b = with_meeting(with_network(outside(b, "open"), answer=Answer("tcpstore", "2.5+")), ours=False)
    return a, b


def empty_store() -> Facts:
    """Node 1 alone: the store has no key until it stops waiting, so it may be its own node 0's."""
    b = outside(healthy(2)[1], "open")
    return (with_meeting(with_network(b, answer=Answer("tcpstore", "2.5+", empty=True)), ours=False),)


ROWS = [Row("foreign store", lambda: held(Answer("tcpstore", "2.5+")), ("host0",))]

LOOK_ALIKES = [
    LookAlike("the own store, without the mark", own_store_without_the_mark, "host/lo-down"),
    LookAlike("a store without any key", empty_store, "store/nodes-missing"),
    LookAlike("another service", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

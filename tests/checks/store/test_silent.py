"""store/silent: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.master import SSHD, held
from tests.clusters.routes import LAN, NO_FILTER, route, routed
from tests.facts_builder import healthy, outside, waited_in_vain, with_meeting, with_network

CHECK = "store/silent"


def silent() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), with_network(outside(b, "open"), answer=Answer("silent"))


def closed() -> Facts:
    """Node 0 hosts the store and nobody came to it: others hold so many connections to it that it has no descriptor
    left."""
    a, b = healthy(2)
    return waited_in_vain(a), with_network(outside(b, "open"), answer=Answer("closed"))


def by_a_router(gateway: str | None = "10.77.0.12", answers: bool = True) -> Facts:
    """host1 sends to node 0, a neighbour, by a router, whose firewall lets nothing but the first packet through."""
    a, b = silent()
    if not answers:
        a = with_meeting(a, arrived=())
    return routed(a, route(LAN)), routed(b, route(LAN), route("10.77.0.10/32", gateway))


ROWS = [
    Row("half of the connection goes by a router", by_a_router, ("host1",), together=True),
    Row("the route to node 0 has no router", lambda: by_a_router(None), ("host0",), together=True),
    Row("the store does not answer node 0 either", lambda: by_a_router(answers=False), ("host0",), together=True),
    Row("silent listener", silent, ("host0",)),
    Row("a store that closes each further connection", closed, ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "a service that answers", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service"
    )
]

CURES = [
    Cure(
        "half of the connection goes by a router",
        by_a_router,
        {"host1": {"commands": ("ip route del 10.77.0.10/32 via 10.77.0.12",)}},
        only=True,
        unsaid=NO_FILTER,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

"""network/service-mesh: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer, AnswerKind
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import healthy, outside, waited_in_vain, with_network

CHECK = "network/service-mesh"
PORTS = (1, 9, 11)


def caught(kind: AnswerKind = "closed", *, ports: tuple[int, ...] = PORTS, here: bool = False) -> Facts:
    """host1 is connected to MASTER_PORT, and no store answers; these other ports accept its connections, too."""
    a, b = healthy(2)
    b = with_network(outside(b, "open"), answer=Answer(kind), intercepted=ports, intercepted_here=here)
    return waited_in_vain(a), b


def passed_on() -> Facts:
    """At first the sidecar closed what came; node 0 was not there yet."""
    a, b = healthy(2)
    return a, with_network(b, answer=Answer("distdoctor", "2.5+"), intercepted=PORTS, intercepted_here=True)


ROWS = [
    Row("its own sidecar", lambda: caught(here=True), ("host1",)),
    Row("the sidecar of node 0", caught, ("host0",), alone=()),
    Row("one that stays silent", lambda: caught("silent"), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("only MASTER_PORT is accepted", lambda: caught(ports=()), "store/silent"),
    LookAlike("a sidecar that passes all on", passed_on),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

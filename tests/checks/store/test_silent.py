"""store/silent: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.master import SSHD, held
from tests.facts_builder import healthy, outside, waited_in_vain, with_network

CHECK = "store/silent"


def silent() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), with_network(outside(b, "open"), answer=Answer("silent"))


ROWS = [
    Row("silent listener", silent, ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "a service that answers", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service"
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

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


def closed() -> Facts:
    """Node 0 hosts the store and nobody came to it: others hold so many connections to it that it has no descriptor
    left."""
    a, b = healthy(2)
    return waited_in_vain(a), with_network(outside(b, "open"), answer=Answer("closed"))


ROWS = [
    Row("silent listener", silent, ("host0",)),
    Row("a store that closes each further connection", closed, ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "a service that answers", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service"
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

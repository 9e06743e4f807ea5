"""store/foreign-store: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.master import SSHD, held

CHECK = "store/foreign-store"


ROWS = [
    Row("foreign store", lambda: held(Answer("tcpstore", "2.5+")), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("another service", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

"""network/port-rejected: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.master import own_rule, shut

CHECK = "network/port-rejected"


ROWS = [
    Row("rejected", lambda: shut("rejected", rules=("tcp dport 29500 reject",)), ("host0",)),
    Row("node 0 knows its own rule", lambda: own_rule("reject"), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "no answer",
        lambda: shut("no-answer", control="refused", rules=("tcp dport 29500 drop",)),
        "network/port-filtered",
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

"""store/forged-message: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.trust import FORGED, forged_marker, without_token
from tests.facts_builder import healthy, with_meeting

CHECK = "store/forged-message"


def forged_for_node_0() -> Facts:
    a, b = healthy(2)
    return with_meeting(a, forged=FORGED), b


def forged_for_a_member() -> Facts:
    a, b = healthy(2)
    return a, with_meeting(b, forged=("report/0 is not the report that node 0 announced",))


ROWS = [
    Row("written before node 0", forged_for_node_0, ("host0",), together=True),
    Row("another report", forged_for_a_member, ("host0",), together=True),
    Row("a mark that is none", forged_marker, ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("another token", lambda: without_token("different"), "store/token-mismatch"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

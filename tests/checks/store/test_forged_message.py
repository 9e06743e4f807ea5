"""store/forged-message: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.trust import FORGED, forged_marker, without_token
from tests.facts_builder import failing, healthy, judged, with_meeting

CHECK = "store/forged-message"


def forged_for_node_0() -> Facts:
    a, b = healthy(2)
    return with_meeting(a, forged=FORGED), b


def forged_for_a_member() -> Facts:
    a, b = healthy(2)
    return a, with_meeting(b, forged=("report/0 is not the report that node 0 announced",))


def damaged_report() -> Facts:
    """Return what `report/0` is on a node that gets damaged data: too long for one packet, it is as damaged."""
    a, b = forged_for_a_member()
    return a, failing(b, "collective", "wrong results: send_recv", wrong=["send_recv"])


def forged_beside_damage() -> Facts:
    a, b = damaged_report()
    return with_meeting(a, forged=FORGED), b


ROWS = [
    Row("written before node 0", forged_for_node_0, ("host0",), together=True),
    Row("another report", forged_for_a_member, ("host0",), together=True),
    Row("a mark that is none", forged_marker, ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("a report damaged on the way", damaged_report, "collective/wrong-result"),
    LookAlike("another token", lambda: without_token("different"), "store/token-mismatch"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_what_stands_there_too_early_is_nobodys_damage() -> None:
    roots = judged(*forged_beside_damage()).roots
    assert {finding.id for finding in roots} == {CHECK, "collective/wrong-result"}
    (finding,) = (finding for finding in roots if finding.id == CHECK)
    assert finding.evidence == (f"host0: {FORGED[0]}",)

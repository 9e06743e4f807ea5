"""store/token-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.trust import forged_marker, without_token
from tests.facts_builder import judged, node, outside, waited_in_vain, with_meeting, with_network

CHECK = "store/token-mismatch"


ROWS = [
    Row("no token on node 1", lambda: without_token("missing"), ("host1",)),
    Row("another token on node 1", lambda: without_token("different"), ("host1",)),
    Row("a token on node 1 alone", lambda: without_token("unexpected"), ("host1",)),
]

LOOK_ALIKES = [
    LookAlike("a mark that is none", forged_marker, "store/forged-message"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_node_without_the_token_beside_node_0_on_one_host_is_of_the_same_run() -> None:
    """Its own plan does not make it node 0: the port is where it belongs."""
    a, b = (node("h", n, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=n + 1) for n in range(2))
    b = with_meeting(with_network(outside(b, "open"), answer=Answer("distdoctor")), token="missing", ours=False)
    roots = judged(with_meeting(waited_in_vain(a), token="agreed"), b).roots
    assert [root.check for root in roots] == [CHECK]
    assert [fix.flags for fix in roots[0].fixes] == [{}, {"--master-port": "29501"}]

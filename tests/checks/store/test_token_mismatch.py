"""store/token-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Literal

from distdoctor.model.facts import Answer, Caller
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.trust import forged_marker, without_token
from tests.facts_builder import healthy, judged, node, outside, waited_in_vain, with_meeting, with_network

CHECK = "store/token-mismatch"


def called(how: Literal["missing", "unexpected", "different"], host: str, nodes: int = 2) -> Facts:
    """Node 0's own facts, after ``host`` called with such a token; nobody else came."""
    zero, caller = waited_in_vain(healthy(nodes)[0], nodes), Caller(host, "10.0.0.9", how)
    return (with_meeting(zero, token="" if how == "unexpected" else "agreed", callers=(caller,)),)


ROWS = [
    Row("no token on node 1", lambda: without_token("missing"), ("host1",)),
    Row("another token on node 1", lambda: without_token("different"), ("host1",)),
    Row("a token on node 1 alone", lambda: without_token("unexpected"), ("host1",)),
    Row("node 0 alone, and a caller without the token", lambda: called("missing", "host1"), ("host1",)),
    Row("node 0 alone, and a caller with another token", lambda: called("different", "host1"), ("host1",)),
    Row("node 0 alone, and a caller with a token", lambda: called("unexpected", "host1"), ("host1",)),
]

LOOK_ALIKES = [LookAlike("a mark that is none", forged_marker, "store/forged-message")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_node_without_the_token_beside_node_0_on_one_host_is_of_the_same_run() -> None:
    """Its own plan does not make it node 0: the port is where it belongs."""
    a, b = (node("h", n, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=n + 1) for n in range(2))
    b = with_meeting(with_network(outside(b, "open"), answer=Answer("distdoctor")), token="missing", ours=False)
    roots = judged(with_meeting(waited_in_vain(a), token="agreed"), b).roots
    assert [root.check for root in roots] == [CHECK]
    assert [fix.flags for fix in roots[0].fixes] == [{}, {}, {"--master-port": "29501"}]


def test_who_was_turned_away_is_named_and_who_never_called_is_another_matter() -> None:
    judgement = judged(*called("missing", "host1", nodes=3))
    found = {finding.id: (finding.nodes, finding.because_of) for finding in judgement.findings}
    assert found["store/token-mismatch"] == (("host1",), None)
    missing = [value for id, value in found.items() if id.startswith("store/nodes-missing")]
    assert sorted(missing, key=str) == [(("host1",), "store/token-mismatch"), (("node2",), None)]
    assert judgement.verdict == "incomplete"


def test_a_caller_on_the_host_of_node_0_is_the_node_that_is_missing() -> None:
    judgement = judged(*called("different", "host0"))
    assert [root.check for root in judgement.roots] == [CHECK]

"""barrier/rank-missing: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.interfaces import interfaces
from tests.clusters.limits import limited
from tests.clusters.ranks import KILLED, ended
from tests.facts_builder import failing, healthy, judged, with_identity

CHECK = "barrier/rank-missing"


def barrier() -> Facts:
    a, b = healthy(2)
    text = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 8000 ms"
    return failing(a, "barrier", text), failing(b, "barrier", "ended", killed=True)


ROWS = [
    Row("barrier", barrier, ("host1",), together=True),
    *(
        Row(f"killed in {stage}", lambda stage=stage: ended(stage, 1, died=KILLED), ("host1",), together=True)  # type: ignore[misc]
        for stage in ("store", "gloo", "barrier", "collective")
    ),
]

LOOK_ALIKES = [LookAlike("stopped in gloo", lambda: ended("gloo", 1, state="T"), "barrier/rank-stopped")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_rank_that_ended_is_named_with_how() -> None:
    (root,) = judged(*ended("gloo", 1, died=KILLED)).roots
    assert root.ranks == (2,)
    assert "ended by signal 9" in root.summary and "pid 4242" in root.evidence[0]


def test_a_rank_that_a_signal_ended_does_not_follow_from_what_another_node_lacks() -> None:
    """host1 has no such interface, so that gloo fails there; somebody killed a rank of host2 meanwhile."""
    a, b, c = interfaces(None, "ib0", None)
    b = failing(
        b, "gloo", "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: ib0"
    )
    a = failing(a, "gloo", "ended after 2 s: another rank failed", killed=True)
    c = failing(c, "gloo", KILLED, died=True)
    assert {(one.check, one.nodes) for one in judged(a, b, c).roots} == {
        ("gloo/interface-not-found", ("host1",)),
        (CHECK, ("host2",)),
    }
    group = next(one for one in judged(a, b, c).findings if one.check == "gloo/init-failed")
    assert group.nodes == ("host1",)
    crashed = failing(c, "gloo", "the process was ended by signal 6", died=True)
    assert {one.check for one in judged(a, b, crashed).roots} == {"gloo/interface-not-found"}


def test_but_from_what_its_own_lacks_it_may() -> None:
    a, b = ended("gloo", 1, died=KILLED)
    short = with_identity(limited(b, memory=300 << 20, memory_used=100 << 20), torch_memory=200 << 20)
    assert {(one.check, one.nodes) for one in judged(a, short).roots} == {("host/memory-limit", ("host1",))}

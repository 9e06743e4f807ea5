"""barrier/rank-missing: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.ranks import KILLED, ended
from tests.facts_builder import failing, healthy, judged

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

LOOK_ALIKES = [
    LookAlike("stopped in gloo", lambda: ended("gloo", 1, state="T"), "barrier/rank-stopped"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_rank_that_ended_is_named_with_how() -> None:
    (root,) = judged(*ended("gloo", 1, died=KILLED)).roots
    assert root.ranks == (2,)
    assert "ended by signal 9" in root.summary and "pid 4242" in root.evidence[0]

"""barrier/rank-stopped: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.ranks import KILLED, ended
from tests.facts_builder import judged

CHECK = "barrier/rank-stopped"


ROWS = [
    *(
        Row(f"stopped in {stage}", lambda stage=stage: ended(stage, 1, state="T"), ("host1",), together=True)  # type: ignore[misc]
        for stage in ("store", "gloo", "barrier", "collective")
    ),
    Row("rank 0 stopped", lambda: ended("barrier", 0, state="T"), ("host0",), together=True),
    Row("traced", lambda: ended("gloo", 2, of=3, state="t"), ("host2",), together=True),
]

LOOK_ALIKES = [LookAlike("killed in the barrier", lambda: ended("barrier", 1, died=KILLED), "barrier/rank-missing")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_rank_that_is_stopped_is_named_with_its_process() -> None:
    (root,) = judged(*ended("barrier", 1, state="T")).roots
    assert root.ranks == (2,)
    assert "pid 4242" in root.evidence[0] and "stopped by a signal" in root.evidence[0]

"""collective/wrong-result: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import several
from tests.facts_builder import failing, healthy

CHECK = "collective/wrong-result"


def spoilt_on_the_way() -> Facts:
    """Return what rank 2 sends to the last node by all_to_all arrives as something else."""
    first, second, third = several({}, {}, {})
    return first, second, failing(third, "nccl", "wrong results: all_to_all", wrong=["all_to_all"], senders=[2])


ROWS = [
    Row(
        "wrong result",
        lambda: (
            failing(healthy(2)[0], "collective", "wrong results: all_reduce", wrong=["all_reduce"]),
            healthy(2)[1],
        ),
        ("host0",),
        together=True,
    ),
    Row("of one rank, by NCCL", spoilt_on_the_way, ("host1", "host2"), blame="one-of", together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "no result", lambda: (failing(healthy(2)[0], "collective", "Read error"), healthy(2)[1]), "collective/failed"
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

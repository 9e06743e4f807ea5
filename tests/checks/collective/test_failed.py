"""collective/failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.facts_builder import failing, healthy

CHECK = "collective/failed"


ROWS = [
    Row(
        "collective",
        lambda: (failing(healthy(2)[0], "collective", "Read error"), healthy(2)[1]),
        ("host0",),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike(
        "wrong result",
        lambda: (
            failing(healthy(2)[0], "collective", "wrong results: all_reduce", wrong=["all_reduce"]),
            healthy(2)[1],
        ),
        "collective/wrong-result",
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

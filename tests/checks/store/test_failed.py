"""store/failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.facts_builder import failing, healthy

CHECK = "store/failed"


ROWS = [Row("store", lambda: (failing(healthy(2)[0], "store", "some error"), healthy(2)[1]), ("host0",), together=True)]

LOOK_ALIKES = [
    LookAlike("gloo failed", lambda: (failing(healthy(2)[0], "gloo", "some error"), healthy(2)[1]), "gloo/init-failed")
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

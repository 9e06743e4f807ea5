"""environment/uneven-ranks: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.gpus import uneven_gpus
from tests.clusters.odd import uneven

CHECK = "environment/uneven-ranks"


ROWS = [
    Row("8 and 4 ranks", lambda: uneven_gpus(8, 4), BOTH, "warn", "one-of", together=True),
    Row("8, 8 and 4 ranks", lambda: uneven_gpus(8, 8, 4), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("without GPUs", uneven),
]

CURES = [
    Cure("the fewest ranks", lambda: uneven_gpus(8, 8, 4), on_each(BOTH, {"flags": {"--nproc-per-node": "4"}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

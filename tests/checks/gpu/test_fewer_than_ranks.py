"""gpu/fewer-than-ranks: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, fixes, found, left_alone
from tests.clusters.odd import eight_gpus
from tests.facts_builder import met, node, with_gpus

CHECK = "gpu/fewer-than-ranks"


ROWS = [
    Row(
        "fewer GPUs",
        lambda: met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))),
        ("host1",),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("as many as ranks", eight_gpus),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_fewer_gpus_means_fewer_ranks() -> None:
    (fix,) = fixes(*met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))))
    assert (fix.nodes, fix.flags) == (("host1",), {"--nproc-per-node": "7"})

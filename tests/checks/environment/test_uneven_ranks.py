"""environment/uneven-ranks: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.gpus import uneven_gpus
from tests.clusters.odd import uneven
from tests.facts_builder import healthy, with_identity, with_variables

CHECK = "environment/uneven-ranks"


IDENTICAL = "TORCH_ELASTIC_WORKER_IDENTICAL"


def said_to_be_alike(value: str, torch: str = "2.13.0+cpu") -> Facts:
    return tuple(with_identity(with_variables(one, **{IDENTICAL: value}), torch=torch) for one in uneven())


ROWS = [
    Row("8 and 4 ranks", lambda: uneven_gpus(8, 4), BOTH, "warn", "one-of", together=True),
    Row("8, 8 and 4 ranks", lambda: uneven_gpus(8, 8, 4), ("host2",), "warn", together=True),
    Row("said to be alike", lambda: said_to_be_alike("1"), BOTH, "fail", "one-of", together=True),
]

LOOK_ALIKES = [
    LookAlike("without GPUs", uneven),
    LookAlike("said not to be alike", lambda: said_to_be_alike("0")),
    LookAlike("said to be alike to a torch that does not ask", lambda: said_to_be_alike("1", torch="2.5.1")),
    LookAlike("alike, as they say", lambda: tuple(with_variables(one, **{IDENTICAL: "1"}) for one in healthy(2))),
]

CURES = [
    Cure("torchrun counts", lambda: said_to_be_alike("1"), on_each(BOTH, {"env": {IDENTICAL: None}})),
    Cure("the fewest ranks", lambda: uneven_gpus(8, 8, 4), on_each(BOTH, {"flags": {"--nproc-per-node": "4"}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

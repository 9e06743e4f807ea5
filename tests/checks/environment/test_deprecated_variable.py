"""environment/deprecated-variable: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.gpus import gpus
from tests.facts_builder import healthy, with_variables

CHECK = "environment/deprecated-variable"


def old_name(*, nccl: bool) -> Facts:
    return tuple(with_variables(one, NCCL_BLOCKING_WAIT="1") for one in (gpus() if nccl else healthy(2)))


ROWS = [
    Row("NCCL_BLOCKING_WAIT", lambda: old_name(nccl=True), BOTH, "warn", together=True),
    Row("NCCL_BLOCKING_WAIT, no NCCL", lambda: old_name(nccl=False), BOTH, "info", together=True),
]

LOOK_ALIKES = [
    LookAlike("the new name", lambda: tuple(with_variables(one, TORCH_NCCL_BLOCKING_WAIT="1") for one in gpus()))
]

CURES = [
    Cure(
        "the new name",
        lambda: old_name(nccl=True),
        on_each(BOTH, {"env": {"NCCL_BLOCKING_WAIT": None, "TORCH_NCCL_BLOCKING_WAIT": "1"}}),
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

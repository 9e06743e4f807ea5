"""host/port-privileged: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Bind
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.limits import limited
from tests.facts_builder import healthy, outside, with_network, with_plan

CHECK = "host/port-privileged"


def privileged() -> Facts:
    a, b = (
        with_plan(one, master_port=80, sources={"master_port": "--master-port"}) for one in healthy(2, declared=True)
    )
    a, b = limited(outside(a, None)), limited(outside(b, "refused"))
    return with_network(a, bind=Bind(False, 80, 13, "permission denied"), master_is_own=True), b


ROWS = [Row("port 80", privileged, ("host0",))]

LOOK_ALIKES = [
    LookAlike(
        "root on port 80",
        lambda: tuple(
            limited(with_plan(one, master_port=80, sources={"master_port": "--master-port"}), may_bind_privileged=True)
            for one in healthy(2)
        ),
    )
]

CURES = [Cure("an unprivileged port", privileged, on_each(BOTH, {"flags": {"--master-port": "29500"}}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

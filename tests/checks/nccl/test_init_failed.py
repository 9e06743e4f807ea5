"""nccl/init-failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts, SmallerGroup
from tests.checks.row import BOTH, THREE, LookAlike, Row, found, left_alone
from tests.facts_builder import failing, healthy, with_gpus, with_plan

CHECK = "nccl/init-failed"


def searched(*groups: tuple[str, bool], error: str = "NCCL error") -> tuple[NodeFacts, ...]:
    """Three nodes whose group failed, and the smaller ones that were tried: numbers of nodes, and whether it passed."""
    nodes = [failing(with_gpus(one, 2), "nccl", error) for one in healthy(3)]
    tried = [
        SmallerGroup(tuple(nodes[int(n)].key for n in names), good, "" if good else error) for names, good in groups
    ]
    return replace(nodes[0], groups=tuple(tried)), *nodes[1:]


GOOD_ALONE = (("0", True), ("1", True), ("2", True))
ROWS = [
    Row("one fails alone", lambda: searched(("0", True), ("1", False), ("2", True)), ("host1",), together=True),
    Row(
        "one fails with all others",
        lambda: searched(*GOOD_ALONE, ("01", False), ("02", True), ("12", False)),
        ("host1",),
        together=True,
    ),
    Row(
        "two fail together",
        lambda: searched(*GOOD_ALONE, ("01", True), ("02", False), ("12", True)),
        ("host0", "host2"),
        together=True,
    ),
    Row(
        "every pair passes",
        lambda: searched(*GOOD_ALONE, ("01", True), ("02", True), ("12", True)),
        THREE,
        together=True,
    ),
    Row(
        "every pair fails",
        lambda: searched(*GOOD_ALONE, ("01", False), ("02", False), ("12", False)),
        THREE,
        together=True,
    ),
    Row(
        "nccl, planned",
        lambda: tuple(failing(with_gpus(one, 2), "nccl", "NCCL error") for one in healthy(2)),
        BOTH,
        together=True,
    ),
    Row(
        "nccl, not planned",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "nccl", "NCCL error") for one in healthy(2)
        ),
        BOTH,
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike(
        "gloo failed",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "gloo", "some error") for one in healthy(2)
        ),
        "gloo/init-failed",
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

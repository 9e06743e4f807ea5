"""environment/rendezvous-id-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import healthy, met, with_plan

CHECK = "environment/rendezvous-id-mismatch"


def run_ids(*ids: str, backend: str = "c10d") -> Facts:
    facts = healthy(len(ids))
    return tuple(with_plan(one, run_id=run, rdzv_backend=backend) for one, run in zip(facts, ids, strict=True))


def run_ids_of_three_two_came() -> Facts:
    """The conflict was seen at once, and node 0 did not wait for the third."""
    a, b, _ = healthy(3)
    return met(with_plan(a, run_id="a"), with_plan(b, run_id="b"), expected=3)


ROWS = [
    Row("ids differ", lambda: run_ids("a", "b"), BOTH, blame="one-of", together=True),
    Row("one id differs", lambda: run_ids("a", "b", "a"), ("host1",), together=True),
    Row("one id not given", lambda: run_ids("a", "none", "a", backend="static"), ("host1",), together=True),
    Row("ids differ, two of three came", run_ids_of_three_two_came, BOTH, blame="one-of", together=True),
]

LOOK_ALIKES = [LookAlike("one rendezvous id", lambda: run_ids("a", "a"))]

CURES = [
    Cure("the usual id", lambda: run_ids("a", "b", "a"), {"host1": {"flags": {"--rdzv-id": "a"}}}),
    Cure(
        "an id where none was given",
        lambda: run_ids("none", "x", "none"),
        on_each(("host0", "host2"), {"flags": {"--rdzv-id": "x"}}),
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

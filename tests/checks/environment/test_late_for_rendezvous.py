"""environment/late-for-rendezvous: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import healthy, with_mesh, with_plan

CHECK = "environment/late-for-rendezvous"


def came(*after: float, clock: float = 0.0, **plan: Any) -> Facts:
    """One node for each number, started so many seconds after node 0; the clocks of the others are so far behind."""
    plan = {"rdzv_backend": "c10d", "join_timeout": 10, **plan}
    facts = [with_plan(one, **plan) for one in healthy(len(after) + 1)]
    zero = replace(facts[0], started_at=1000.0)
    others = (
        replace(with_mesh(one, clock_offset=clock, clock_error=0.01), started_at=1000.0 + seconds - clock)
        for one, seconds in zip(facts[1:], after, strict=True)
    )
    return zero, *others


ROWS = [
    Row("one of two", lambda: came(12), ("host1",), "warn", together=True),
    Row("one of three", lambda: came(2, 12), ("host2",), "warn", together=True),
    Row("node 0", lambda: came(-12), ("host0",), "warn", together=True),
    Row("by another clock", lambda: came(12, clock=3), ("host1",), "warn", together=True),
    Row("later than torch's own", lambda: came(700, join_timeout=None), ("host1",), "warn", together=True),
    Row("one that an elastic job needs", lambda: came(2, 12, min_nodes=3), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("in time", lambda: came(9)),
    LookAlike("only its clock is late", lambda: came(1, clock=-4)),
    LookAlike("a job that starts without it", lambda: came(2, 12, min_nodes=2)),
    LookAlike("within torch's own time", lambda: came(12, join_timeout=None)),
    LookAlike("static", lambda: came(12, rdzv_backend="static")),
    LookAlike("a clock that was not compared", lambda: tuple(with_mesh(one, clock_offset=None) for one in came(12))),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

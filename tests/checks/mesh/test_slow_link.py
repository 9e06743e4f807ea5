"""mesh/slow-link: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.clusters.links import FAST, into, measured, out_of

CHECK = "mesh/slow-link"


def receiver_limited() -> Facts:
    """A receiver that does not keep up: its host is loaded, its link is not slow."""
    facts = []
    for one in measured(3, slow=into(2, 3), busy=1.0):
        assert one.mesh is not None
        rates = tuple(
            replace(r, receiver_limited=0.9) if (r.bytes_per_second or 0) < FAST else r for r in one.mesh.rates
        )
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    return tuple(facts)


def uneven_speeds(*factors: float) -> Facts:
    """Links of different speeds, none of them far below the others."""
    facts = []
    for one, factor in zip(measured(len(factors)), factors, strict=True):
        assert one.mesh is not None
        rates = tuple(replace(r, bytes_per_second=FAST * factor, delivery_rate=None) for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates, rate_median=FAST * factor)))
    return tuple(facts)


ROWS = [
    Row("slow, two nodes", lambda: measured(2, slow=[(1, 0)]), BOTH, "warn", "one-of", together=True),
    Row("slow, one node's way out", lambda: measured(3, slow=out_of(1, 3)), ("host1",), "warn", together=True),
    Row("slow, one node", lambda: measured(4, slow=into(3, 4) | out_of(3, 4)), ("host3",), "warn", together=True),
    Row(
        "slow, one pair",
        lambda: measured(4, slow=[(1, 2), (2, 1)]),
        ("host1", "host2"),
        "warn",
        "one-of",
        together=True,
    ),
    Row("slow on a busy machine", lambda: measured(3, slow=out_of(2, 3), busy=1.0), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("measured", lambda: measured(4)),
    LookAlike("measured, busy", lambda: measured(3, busy=1.0)),
    LookAlike("slower on a busy machine", lambda: measured(3, slow=out_of(2, 3), busy=1.0, speed=9e7)),
    LookAlike("two nodes, 100 Mbit/s", lambda: measured(2, slow=[(0, 1), (1, 0)], speed=1.1e7)),
    LookAlike("receiver that does not keep up", receiver_limited),
    LookAlike("10 and 40 Gbit/s", lambda: uneven_speeds(1.0, 0.5, 0.25)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

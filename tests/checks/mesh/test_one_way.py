"""mesh/one-way: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.links import across, cut, out_of

CHECK = "mesh/one-way"


ROWS = [
    Row("one direction of 3", lambda: cut([(2, 1)], 3, ruled=(1,)), ("host1",), together=True),
    Row(
        "one direction of 3, harmless to gloo",
        lambda: cut([(1, 2)], 3, ruled=(2,), failed=False),
        ("host2",),
        "warn",
        together=True,
    ),
    Row("one direction of 3, no rules", lambda: cut([(2, 1)], 3), ("host1", "host2"), blame="one-of", together=True),
    Row("reaches nobody", lambda: cut(out_of(2, 4), 4), ("host2",), together=True),
]

LOOK_ALIKES = [LookAlike("both directions", lambda: cut(across((1,), (2,)), 4), "mesh/peer-ports-blocked")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

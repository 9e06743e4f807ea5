"""mesh/node-isolated: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.links import across, cut

CHECK = "mesh/node-isolated"


ROWS = [
    Row("isolated of 3", lambda: cut(across((0, 1), (2,)), 3), ("host2",), together=True),
    Row("isolated of 3, with rules", lambda: cut(across((0, 1), (2,)), 3, ruled=(2,)), ("host2",), together=True),
    Row("two isolated of 4", lambda: cut(across((0, 1), (2,), (3,)), 4), ("host2", "host3"), together=True),
    Row("node 0 isolated", lambda: cut(across((0,), (1, 2)), 3), ("host0",), together=True),
]

LOOK_ALIKES = [LookAlike("three and two", lambda: cut(across((0, 1, 2), (3, 4)), 5), "mesh/partition")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

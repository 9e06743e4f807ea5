"""mesh/partition: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.links import across, cut
from tests.facts_builder import judged

CHECK = "mesh/partition"


ROWS = [
    Row("three and two", lambda: cut(across((0, 1, 2), (3, 4)), 5), ("host3", "host4"), together=True),
    Row(
        "two and two",
        lambda: cut(across((0, 1), (2, 3)), 4),
        ("host0", "host1", "host2", "host3"),
        blame="one-of",
        together=True,
    ),
    Row(
        "two and two, with rules",
        lambda: cut(across((0, 1), (2, 3)), 4, ruled=(2, 3)),
        ("host2", "host3"),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("one node", lambda: cut(across((0, 1), (2,)), 3), "mesh/node-isolated"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_where_one_nodes_facts_are_missing_nobody_is_to_blame_for_sure() -> None:
    """The node that is left of a group reaches one whose facts are not here: it is not isolated."""
    facts = cut(across((0, 1), (2, 3)), 4)
    for number in range(4):
        (root,) = judged(*facts[:number], *facts[number + 1 :]).roots
        assert (root.check, root.blame, len(root.nodes)) == (CHECK, "one-of", 3)

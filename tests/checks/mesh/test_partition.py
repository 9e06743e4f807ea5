"""mesh/partition: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.checks.row import LookAlike, Row, first, found, left_alone
from tests.clusters.links import across, cut
from tests.facts_builder import judged

CHECK = "mesh/partition"
RACKS = across(tuple(range(30)), tuple(range(30, 40)))
HOSTS = tuple(f"host{n}" for n in range(40))

ROWS = [
    Row("three and two", lambda: cut(across((0, 1, 2), (3, 4)), 5), ("host3", "host4"), together=True),
    Row(
        "two and two",
        lambda: cut(across((0, 1), (2, 3)), 4),
        ("host0", "host1", "host2", "host3"),
        blame="one-of",
        together=True,
    ),
    Row("racks of thirty and ten", lambda: cut(RACKS, 40), HOSTS[30:], together=True),
    Row("with rules of each of the ten", lambda: cut(RACKS, 40, ruled=(*range(30, 40),)), HOSTS[30:], together=True),
    Row("with rules of all forty", lambda: cut(RACKS, 40, ruled=(*range(40),)), HOSTS, together=True),
    Row(
        "two and two, with rules",
        lambda: cut(across((0, 1), (2, 3)), 4, ruled=(2, 3)),
        ("host2", "host3"),
        together=True,
    ),
]

LOOK_ALIKES = [LookAlike("one node", lambda: cut(across((0, 1), (2,)), 3), "mesh/node-isolated")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_where_one_nodes_facts_are_missing_nobody_is_to_blame_for_sure() -> None:
    """The node that is left of a group reaches one whose facts are not here: it is not isolated."""
    facts = cut(across((0, 1), (2, 3)), 4)
    for number in range(4):
        (root,) = judged(*facts[:number], *facts[number + 1 :]).roots
        assert (root.check, root.blame, len(root.nodes)) == (CHECK, "one-of", 3)


@pytest.mark.parametrize("ruled", [range(30, 40), range(40)])
def test_each_node_is_told_to_let_in_all_of_the_other_group(ruled: range) -> None:
    told = {fix.nodes: fix.commands for fix in first(*cut(RACKS, 40, ruled=(*ruled,)))}
    for number in [*ruled][:32]:
        (command,) = told[f"host{number}",]
        others = range(30, 40) if number < 30 else range(30)
        assert all(f"10.77.0.{10 + other}" in command for other in others)

"""Faults and the roots they lead to: over all nodes' facts exactly one, and from each node alone no other.

Every row is a cluster as it would be after the fault, with the check, the nodes, the severity and the blame expected.
"""

from __future__ import annotations

import pytest

from tests.checks import (
    rows_gloo,
    rows_host,
    rows_launch,
    rows_master,
    rows_net,
    rows_ranks,
    rows_routes,
    rows_settings,
    rows_trust,
)
from tests.checks.row import Row
from tests.facts_builder import CHECKS, judged

NODES_MISSING = "store/nodes-missing"
ROWS = [
    *rows_launch.ROWS,
    *rows_gloo.ROWS,
    *rows_master.ROWS,
    *rows_ranks.ROWS,
    *rows_host.ROWS,
    *rows_net.ROWS,
    *rows_settings.ROWS,
    *rows_routes.ROWS,
    *rows_trust.ROWS,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.root}: {row.name}")
def test_all_facts_together_give_exactly_this_root(row: Row) -> None:
    result = judged(*row.facts())
    assert [(f.id, f.nodes, f.severity, f.blame) for f in result.roots] == [
        (row.root, row.nodes, row.severity, row.blame)
    ]
    assert all(f.because_of == result.roots[0].id for f in result.findings[1:])


@pytest.mark.parametrize("row", [r for r in ROWS if not r.together], ids=lambda row: f"{row.root}: {row.name}")
def test_each_node_alone_names_it_or_that_others_did_not_come(row: Row) -> None:
    for one in row.facts():
        result = judged(one)
        assert {f.id for f in result.roots} <= {row.root, NODES_MISSING, *row.alone}, one.identity.hostname
        # A node that met the others leaves the roll call to node 0.
        guest = one.meeting is not None and one.meeting.joined and not one.meeting.hosted and not one.meeting.host_lost
        assert len(result.roots) == (0 if guest else 1), one.identity.hostname


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.root}: {row.name}")
def test_the_root_says_what_was_seen_and_what_to_do(row: Row) -> None:
    """Evidence and a fix, on nodes that the cluster has; the first option is not empty."""
    root = judged(*row.facts()).roots[0]
    assert (
        root.evidence and root.fixes and root.title and root.summary.endswith((".", "error", "closed by peer", "text"))
    ), root
    assert {fix.option for fix in root.fixes} == set(range(1, max(fix.option for fix in root.fixes) + 1))
    assert all("None" not in line for line in (root.summary, *root.evidence, *(fix.text for fix in root.fixes)))


def test_every_check_is_the_root_of_a_row() -> None:
    assert {row.root for row in ROWS} == {check.id for check in CHECKS}

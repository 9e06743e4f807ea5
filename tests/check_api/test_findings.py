"""Findings and fixes as a check writes them down: of nodes, not of their names."""

from __future__ import annotations

from distdoctor.check_api import Finding, Fix
from distdoctor.model.cluster import build
from tests.facts_builder import met, rank_node


def test_a_finding_about_nodes_blames_them_and_their_ranks() -> None:
    nodes = build(met(*(rank_node(f"host{number}", number) for number in range(3)))).nodes
    fixes = (Fix.on(node, "Set it.", env={"RANK": "0"}) for node in nodes[1:])
    found = Finding.about(nodes[1:], "Two are wrong.", unsure=True, evidence=(n.name for n in nodes), fixes=fixes)
    assert (found.nodes, found.ranks, found.blame) == (("host1", "host2"), (1, 2), "one-of")
    assert found.evidence == ("host0", "host1", "host2")
    assert found.fixes == tuple(Fix("Set it.", (name,), env={"RANK": "0"}) for name in ("host1", "host2"))


def test_a_node_whose_facts_are_not_here_goes_by_its_name() -> None:
    (node,) = build([rank_node("host0", 0)]).nodes
    found = Finding.about([node, "host1"], "They do not meet.")
    assert (found.nodes, found.ranks, found.blame) == (("host0", "host1"), (0,), "all")
    assert Finding.about([node], "No rank of it is to blame.", ranks=()).ranks == ()
    assert Fix.on([node, "host1"], "Start both.", 2) == Fix("Start both.", ("host0", "host1"), 2)
    assert Fix.on("host1", "Start it.") == Fix("Start it.", ("host1",))

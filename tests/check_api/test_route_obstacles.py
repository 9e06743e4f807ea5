"""Each kind of obstacle on a way between two nodes has its sentence and its fix."""

from __future__ import annotations

from typing import get_args

from distdoctor.check_api import RouteObstacle, repair_route_fix, route_findings, route_obstacle_evidence
from distdoctor.check_api.routes import Kind
from distdoctor.model.facts import TableRoute
from tests.facts_builder import cluster, node


def test_no_kind_is_without_its_sentence_or_fix() -> None:
    kinds = {*get_args(Kind)}
    assert {*route_findings._EVIDENCE} == kinds
    assert {*route_findings._FIXES} == kinds - {"none", "down"}  # these need a way that the other nodes know


def test_what_a_filter_of_sources_drops_is_told_also_where_a_rule_leads_the_answer_elsewhere() -> None:
    """It was told as packets that the rule rejects."""
    both = cluster(node("host0", 0), node("host1", 1))
    route = TableRoute("10.0.0.0/24", None, "eth1", rule="from 10.0.0.2 lookup 7")
    one = RouteObstacle(both.nodes[1], both.nodes[0], "10.0.0.1", "reverse-path", route, "eth0")
    seen = route_obstacle_evidence(one)
    assert "rp_filter of eth0 is 1" in seen and "rejected" not in seen
    assert repair_route_fix(both, one).commands == ("sysctl -w net/ipv4/conf/eth0/rp_filter=2",)

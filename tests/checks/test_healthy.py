"""No check says anything of a healthy cluster, however odd."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Firewall, RankFacts
from tests.checks.tables import LOOK_ALIKES
from tests.clusters.odd import CLUSTERS
from tests.facts_builder import healthy, judged, node, with_network

ALL = CLUSTERS | {f"{check}: {one.name}": one.facts() for check, one in LOOK_ALIKES if one.instead is None}


@pytest.mark.parametrize("name", ALL)
def test_healthy_cluster_has_no_finding(name: str) -> None:
    result = judged(*ALL[name])
    assert [(f.id, f.summary) for f in result.findings] == []
    assert result.verdict == "pass"


@pytest.mark.parametrize("name", ALL)
def test_each_node_of_a_healthy_cluster_alone_has_no_failure(name: str) -> None:
    """One saved file of a run that went well; what only the others' facts would settle is a warning at most."""
    for one in ALL[name]:
        assert [f.id for f in judged(one).findings if f.severity == "fail"] == []


def test_bare_facts_are_not_judged() -> None:
    """Facts of a process that looked at nothing but its plan: every check copes."""
    bare = replace(node(), host=None, network=None, meeting=None, mesh=None, ranks=(RankFacts(None, 0),), stages=())
    assert judged(bare).findings == ()
    assert judged(bare, replace(bare, identity=replace(bare.identity, hostname="other"))).findings == ()


def test_firewall_facts_without_chains_are_clean() -> None:
    assert judged(*(with_network(one, firewall=Firewall(True)) for one in healthy(2))).verdict == "pass"

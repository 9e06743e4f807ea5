"""Why a warning is one: each says its own reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.check_api.ranks import NOT_CHECKED
from distdoctor.judge.catalog import Check
from distdoctor.model.findings import NO_GLOO
from distdoctor.model.stages import stage_index
from tests.checks.tables import ROWS
from tests.facts_builder import CHECKS, healthy, judged, loopback_name, outside, with_meeting

WARN = [check for check in CHECKS if '"warn"' in check.path.read_text()]


@pytest.mark.parametrize("check", WARN, ids=lambda check: check.id)
def test_a_check_that_warns_has_a_reason(check: Check) -> None:
    assert check.matters
    assert not check.matters.endswith(".")
    assert len(check.matters) <= 120


def test_every_warning_says_its_own_reason_and_nothing_else_does() -> None:
    """Also the findings about a backend that the job does not use."""
    found = [finding for _, row in ROWS for finding in judged(*row.facts()).findings]
    warnings = [finding for finding in found if finding.severity == "warn"]
    assert len({finding.check for finding in warnings}) > 20
    assert [finding.check for finding in warnings if not finding.matters] == []
    assert [finding.check for finding in found if finding.matters and finding.severity != "warn"] == []
    own = next(check.matters for check in CHECKS if check.id == "gloo/loopback-address")
    assert {finding.matters for finding in warnings if finding.check == "gloo/loopback-address"} == {
        own,
        NO_GLOO,
        NOT_CHECKED,
    }


BY_LUCK = {
    "gloo/loopback-address",
    "gloo/interface-unreachable",
    "network/wrong-interface",
    "network/no-route",
    "mesh/one-way",
    "mesh/peer-ports-blocked",
}


@pytest.mark.parametrize("last", ["store", "network"])
def test_that_gloo_runs_by_luck_is_said_only_where_it_was_seen_to_run(last: str) -> None:
    """The same facts from a check that was interrupted, or that ended with ``--until``, below gloo's stage."""
    found: dict[str, set[str]] = {}
    for _, row in (one for one in ROWS if one[0] in BY_LUCK):
        climbed = [replace(one, stages=one.stages[: stage_index(last) + 1]) for one in row.facts()]
        for finding in judged(*climbed).findings:
            if finding.severity == "warn" and finding.matters != NO_GLOO:
                found.setdefault(finding.check, set()).add(finding.matters)
    assert {check: found[check] for check in BY_LUCK} == {check: {NOT_CHECKED} for check in BY_LUCK}


def test_of_a_node_alone_it_is_not_known_whom_its_gloo_would_connect_to() -> None:
    _, b = (loopback_name(one) for one in healthy(2))
    waiting = with_meeting(outside(b), ended=False)
    (matters,) = (f.matters for f in judged(waiting).findings if f.check == "gloo/loopback-address")
    assert matters == NOT_CHECKED

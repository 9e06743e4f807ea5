"""Why a warning is one: each says its own reason."""

from __future__ import annotations

import pytest

from distdoctor.judge.catalog import Check
from distdoctor.model.findings import NO_GLOO
from tests.checks.test_roots import ROWS
from tests.facts_builder import CHECKS, judged

WARN = [check for check in CHECKS if '"warn"' in check.path.read_text()]


@pytest.mark.parametrize("check", WARN, ids=lambda check: check.id)
def test_a_check_that_warns_has_a_reason(check: Check) -> None:
    assert check.matters
    assert not check.matters.endswith(".")
    assert len(check.matters) <= 120


def test_every_warning_says_its_own_reason_and_nothing_else_does() -> None:
    """Also the findings about a backend that the job does not use."""
    found = [finding for row in ROWS for finding in judged(*row.facts()).findings]
    warnings = [finding for finding in found if finding.severity == "warn"]
    assert len({finding.check for finding in warnings}) > 20
    assert [finding.check for finding in warnings if not finding.matters] == []
    assert [finding.check for finding in found if finding.matters and finding.severity != "warn"] == []
    own = next(check.matters for check in CHECKS if check.id == "gloo/loopback-address")
    assert {finding.matters for finding in warnings if finding.check == "gloo/loopback-address"} == {own, NO_GLOO}

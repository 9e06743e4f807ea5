"""What a process tells of a report of node 0's that nothing confirms."""

from __future__ import annotations

from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.session.confirm import with_unconfirmed
from tests.facts_builder import CHECKS


def report(*checks: str, verdict: str = "fail") -> Report:
    """One with a finding of host1 by each of these checks."""
    found = tuple(Finding("seen", check=one, id=one, severity="fail", nodes=("host1",)) for one in checks)
    return Report(verdict, "0.1.0", "2.13.0", "", 1.0, {}, (), (), found)  # type: ignore[arg-type]


def test_what_follows_from_what_node_0_is_said_to_have_found_is_no_second_failure() -> None:
    """Its port is forwarded alone: node 0 cannot be asked, and the ranks' own failure has the cause that it names."""
    told = with_unconfirmed(report("gloo/init-failed"), report("network/no-route"), CHECKS)
    assert [(one.id, one.because_of) for one in told.findings] == [
        ("network/no-route", None),
        ("gloo/init-failed", "network/no-route"),
    ]


def test_a_failure_of_its_own_stays_one() -> None:
    told = with_unconfirmed(report("environment/torch-missing"), report("network/no-route"), CHECKS)
    assert {one.id for one in told.findings if one.because_of is None} >= {"environment/torch-missing"}


def test_nothing_passes() -> None:
    assert with_unconfirmed(report(verdict="pass"), report(verdict="pass"), CHECKS).verdict == "incomplete"

"""The exit status: a table of what was found against what it is to fail on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.findings import Finding, Severity
from distdoctor.model.report import ReportStage
from distdoctor.render.exit_status import FailOn, exit_status, own_status
from tests.render.reports import report


@pytest.mark.parametrize(
    ("verdict", "severities", "fail_on", "signal", "status"),
    [
        ("pass", (), "fail", None, 0),
        ("pass", ("info",), "warn", None, 0),
        ("warn", ("warn",), "fail", None, 0),
        ("warn", ("warn",), "warn", None, 1),
        ("warn", ("warn",), "never", None, 0),
        ("fail", ("fail",), "fail", None, 1),
        ("fail", ("fail",), "warn", None, 1),
        ("fail", ("fail",), "never", None, 0),
        ("incomplete", ("fail",), "fail", None, 3),
        ("incomplete", (), "fail", None, 3),
        ("incomplete", ("fail", "warn"), "warn", None, 3),
        ("incomplete", ("fail",), "never", None, 3),
        ("incomplete", (), "fail", 2, 130),
        ("fail", ("fail",), "fail", 15, 143),
        ("pass", (), "never", 1, 129),
    ],
)
def test_exit_status(
    verdict: Any, severities: tuple[Severity, ...], fail_on: FailOn, signal: int | None, status: int
) -> None:
    findings = tuple(Finding("x", severity=severity, check="a/b", id="a/b") for severity in severities)
    assert exit_status(report(verdict=verdict, findings=findings), fail_on, signal) == status


@pytest.mark.parametrize(
    ("verdict", "findings", "here", "other"),
    [
        ("pass", (), 0, 0),
        ("fail", (Finding("x", severity="fail", nodes=("host1",)),), 0, 1),
        ("fail", (Finding("x", severity="fail", nodes=("host0", "host1"), blame="one-of"),), 1, 1),
        # what follows from it on the other node is not that node's
        (
            "fail",
            (Finding("x", severity="fail", nodes=("host1",)), Finding("y", nodes=("host0",), because_of="a/b")),
            0,
            1,
        ),
        ("warn", (Finding("x", severity="warn", nodes=("host1",)),), 0, 0),
        # host0 waited for host1, which never came
        ("incomplete", (Finding("x", severity="fail", nodes=("host1",), incomplete=True),), 0, 3),
        ("incomplete", (), 3, 3),
    ],
)
def test_a_node_s_own_status_is_that_of_what_blames_it(
    verdict: Any, findings: tuple[Finding, ...], here: int, other: int
) -> None:
    one = report(verdict=verdict, findings=findings)
    assert (own_status(one, "fail", None, ["host0"]), own_status(one, "fail", None, ["host1"])) == (here, other)
    assert own_status(one, "fail", 15, ["host0"]) == 143


def test_a_warning_and_a_probe_that_broke_are_a_node_s_own() -> None:
    warned = report(verdict="warn", findings=(Finding("x", severity="warn", nodes=("host1",)),))
    assert [own_status(warned, "warn", None, [name]) for name in ("host0", "host1")] == [0, 1]
    assert own_status(warned, "never", None, ["host1"]) == 0
    broken = report(verdict="incomplete", stages=(ReportStage("gpu", "host1", "error", 0.1),))
    broken = replace(broken, findings=warned.findings)
    assert [own_status(broken, "fail", None, [name]) for name in ("host0", "host1")] == [0, 3]

"""The exit status: a table of what was found against what it is to fail on."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.model.findings import Finding, Severity
from distdoctor.render.exit_status import FailOn, exit_status
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

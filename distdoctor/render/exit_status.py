"""The exit status of a run: what scripts and schedulers read of it."""

from __future__ import annotations

from typing import Literal

from distdoctor.model.findings import at_least
from distdoctor.model.report import Report

FailOn = Literal["fail", "warn", "never"]
FAIL_ON: tuple[FailOn, ...] = ("fail", "warn", "never")

OK = 0
"""Nothing at or above ``--fail-on``."""
FINDINGS = 1
USAGE = 2
"""The command line, or a file it names, cannot be used."""
INCOMPLETE = 3
"""The run could not finish: a node never came, a probe crashed."""


def exit_status(report: Report, fail_on: FailOn, signal: int | None = None) -> int:
    """The status for ``report``; ``signal`` is the number of the signal that ended the run, None without one.

    An incomplete run is 3 whatever ``fail_on`` says: what was not looked at cannot be called healthy.
    """
    if signal is not None:
        return 128 + signal
    if report.verdict == "incomplete":
        return INCOMPLETE
    if fail_on == "never":
        return OK
    if report.verdict == "fail" or any(at_least(finding.severity, fail_on) for finding in report.findings):
        return FINDINGS
    return OK

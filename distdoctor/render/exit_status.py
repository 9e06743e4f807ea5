"""The exit status of a run: what scripts and schedulers read of it."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from distdoctor.model.findings import at_least
from distdoctor.model.report import Report

FailOn = Literal["fail", "warn", "never"]
FAIL_ON: tuple[FailOn, ...] = ("fail", "warn", "never")
EXIT_STATUS_OF = ("all", "own")
"""``--exit-status``: for the findings of all nodes, or for those that blame this one."""

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


def own_status(report: Report, fail_on: FailOn, signal: int | None, here: Container[str]) -> int:
    """The status for one node of ``report``, for a scheduler that takes a node out by it: that of what blames this
    node, and 0 on the others. ``here``: the report's names of this node.

    What may be one of several nodes counts on each of them. Nodes that never came are blamed for that, and not the one
    that waited.
    """
    if signal is not None:
        return 128 + signal
    blaming = [f for f in report.findings if f.because_of is None and any(node in here for node in f.nodes)]
    if fail_on != "never" and any(at_least(f.severity, fail_on) and not f.incomplete for f in blaming):
        return FINDINGS
    unfinished = any(f.incomplete for f in blaming)
    broken = any(stage.node in here and stage.status == "error" for stage in report.stages)
    untold = report.verdict == "incomplete" and not report.findings
    return INCOMPLETE if unfinished or broken or untold else OK

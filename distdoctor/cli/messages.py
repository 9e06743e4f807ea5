"""``distdoctor explain MESSAGE``: what an error message shows, by the wordings that ``diagnose`` knows of logs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import datetime, timezone

from distdoctor import __version__
from distdoctor.judge.catalog import Check
from distdoctor.judge.log_findings import first_fix, judge_logs
from distdoctor.logs.collect import Collector
from distdoctor.model.report import Report
from distdoctor.render.logs import write_candidates
from distdoctor.render.page import Page

NAME = "message"
"""What the message is called in the report, as if it were a file."""


def is_message(text: str) -> bool:
    """Whether it cannot be meant as the id of a check, or as a part of one."""
    return re.fullmatch(r"[\w./*#-]*", text.strip()) is None


def report_on(text: str, checks: Sequence[Check]) -> Report:
    """The report on one message, of as many lines as it has; incomplete where it does not show a cause."""
    began = time.monotonic()
    collector = Collector({check.id: check.log for check in checks})
    log = collector.log(NAME, "log")
    log.feed(text.encode(errors="replace") + b"\n")
    collector.end(log)
    judged = judge_logs(collector.collected().logs, checks)
    known = bool(judged.findings or judged.candidates)
    return Report(
        verdict=judged.verdict if known else "incomplete",
        distdoctor=__version__,
        torch=None,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 3),
        plan={},
        nodes=(),
        stages=(),
        findings=judged.findings,
        notes=judged.notes if known else ("no check knows this message",),
        details={"logs": {NAME: {"kind": "log", "lines": text.count("\n") + 1}}},
        candidates=judged.candidates,
    )


def write_head(page: Page, report: Report, checks: Sequence[Check], program: str) -> None:
    """What the message shows, in a few lines, or that it cannot be told; the remedy where it is not that of the page,
    which comes after it."""
    root = next((one for one in report.findings if one.because_of is None), None)
    if root is not None:
        page.prose(f"This message shows {root.check}: {root.title}", hang=2)
        usual = {first_fix(check) for check in checks if check.id == root.check}
        for fix in root.fixes:
            if fix.text not in usual:
                page.prose(f"fix: {fix.text}", hang=2)
                for command in fix.commands:
                    page.line(f"    {command}")
        for other in report.findings:
            if not {*other.evidence} <= {*root.evidence}:  # of the same line, it is what follows from it
                page.prose(f"it also shows {other.check}: {other.title}", hang=2)
                page.line(f"  more: {program} explain {other.check}")
    elif report.candidates:
        page.prose("CANNOT TELL: this message shows that the job failed, and not why.", hang=2)
        write_candidates(page, report, program)
    else:
        page.prose("CANNOT TELL: no check knows this message.", hang=2)
        page.prose(
            f"The whole log may show more: {program} diagnose LOG, or while the job hangs, {program} hang", hang=2
        )

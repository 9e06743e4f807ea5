"""``distdoctor inside``: the worker behind ``distdoctor.preflight()`` and ``distdoctor.explain()`` in a running job.

It reads its order on stdin and writes its answer to stdout, each as one JSON document.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from distdoctor import streams
from distdoctor.cli import ending
from distdoctor.cli.check import CheckCommand
from distdoctor.cli.checks import load_checks
from distdoctor.cli.explain import report_on, write_head, write_page
from distdoctor.cli.options import ReportFlags, RunFlags
from distdoctor.cli.output import leave_cause, with_checks
from distdoctor.cli.preload import begin_for
from distdoctor.cli.program import program, require_one_of, torchrun
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.stages import STAGES
from distdoctor.plan.values import Flags
from distdoctor.render import json as as_json
from distdoctor.render import text
from distdoctor.render.exit_status import FAIL_ON, INCOMPLETE, OK, USAGE, FailOn, exit_status
from distdoctor.render.page import Page
from distdoctor.render.style import PLAIN, Style


def inside() -> int:
    """Carry out the order, and answer. Return 0 if there is an answer."""
    try:
        order = json.loads(sys.stdin.buffer.read())
        task = order["task"]
    except (ValueError, KeyError, TypeError):
        raise UsageError("inside is started by distdoctor.preflight(), which tells it what to do") from None
    if task == "explain":
        return _explain(str(order["text"]))
    try:
        return _check(order)
    except UsageError as err:
        _answer(wrong=True, text=str(err))
        return USAGE


def _explain(message: str) -> int:
    checks = load_checks(())
    report = report_on(message, checks)
    page = Page()
    write_head(page, report, checks, PLAIN, message)
    root = next(iter(report.findings), None)
    for check in checks:
        if root is not None and check.id == root.check:
            page.blank()
            write_page(page, check.page)
    _answer(report=as_json.document(report), text=page.plain())
    return OK


def _check(order: Mapping[str, Any]) -> int:
    from distdoctor.session.run import run

    flags = ReportFlags(**order["report"])
    command = CheckCommand(Flags(**order["flags"]), RunFlags(**order["how"]), flags)
    fail_on = cast(FailOn, require_one_of("fail_on", flags.fail_on, FAIL_ON))
    require_one_of("until", command.how.until, STAGES)
    begin_for(command.how.until)
    options = command.options()
    if order.get("own_store"):  # rank 0 of the job hosts it, and every rank of the check is a client, as of an agent's
        options = replace(options, plan=replace(options.plan, agent_store=True))
    if order["turn"] > 1 and options.plan.agent_store:
        # The agent's store outlives one check: values of an earlier check are not this one's.
        options = replace(options, plan=replace(options.plan, run_id=f"{options.plan.run_id}/{order['turn']}"))
    observer = command.observer(options.plan)

    def take_report(report: Report) -> None:
        observer.close()
        style = Style(_width(), program=shlex.join(program()), torchrun=shlex.join(torchrun()), given=command.given())
        whole = text.render(report, with_checks(style, flags.checks or (), report))
        answer(report, whole)

    def answer(report: Report, shown: str) -> None:
        if ending.claim():
            status = exit_status(report, fail_on)
            if status != OK and fail_on != "never":
                leave_cause(os.environ, report)
            _answer(report=as_json.document(report), text=shown, status=status)

    try:
        outcome = run(options, observer, take_report)
    finally:
        observer.close()
    answer(outcome.report, _short(outcome.report))
    return OK if outcome.exit_signal is None else INCOMPLETE


def _short(report: Report) -> str:
    """Return a line for each root cause; the rank that speaks for all prints the whole report."""
    roots = [finding for finding in report.findings if finding.because_of is None]
    return "\n".join(f"{root.check}: {root.summary}" for root in roots) or "\n".join(report.notes)


def _width() -> int:
    return shutil.get_terminal_size().columns if streams.is_terminal(sys.stderr) else 0


def _answer(**fields: Any) -> None:
    streams.write(json.dumps(as_json.plain(fields)) + "\n")

"""``distdoctor explain`` and ``distdoctor list``: pages of the checks, and what an error message shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from distdoctor import __version__, streams
from distdoctor.cli.checks import load_checks
from distdoctor.cli.likely_causes import Symptom, candidates_of, similar, symptom_of
from distdoctor.cli.parsing import nearest
from distdoctor.cli.program import program
from distdoctor.judge.catalog import Check
from distdoctor.judge.logs.findings import first_fix, judge_logs
from distdoctor.logs.collect import Collector
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.stages import LOG_STAGES, STAGES
from distdoctor.render.check_page import whole_page
from distdoctor.render.exit_status import INCOMPLETE, OK
from distdoctor.render.json import document
from distdoctor.render.page import Page
from distdoctor.render.style import Style

LONGEST_MESSAGE = 1 << 20
"""Limit of the bytes of stdin that are read."""


def explain_check(check_id: str | None, folders: Sequence[Path], *, as_json: bool = False) -> int:
    """``distdoctor explain``: print a check's page, the checks of a prefix, or a message. Raises UsageError."""
    if check_id is None:
        raise UsageError(
            "explain needs the ID of a check, such as gloo/loopback-address, or an error message in quotes; distdoctor "
            "list shows all"
        )
    checks = {check.id: check for check in load_checks(folders)}
    message = _message(check_id)
    if message is not None:
        return _explain_message(message, checks, folders, as_json)
    wanted = check_id.strip().strip("/").partition("#")[0].replace("_", "-")
    matches = [wanted] if wanted in checks else [known for known in checks if known.partition("/")[2] == wanted]
    if len(matches) > 1:
        raise UsageError(f"{check_id!r} is the last part of several checks: {', '.join(matches)}")
    page = Page(_width())
    if matches and as_json:
        _write_json(_entry(checks[matches[0]]) | {"page": whole_page(checks[matches[0]])})
    elif matches:
        _write_check(page, checks[matches[0]])
    elif members := with_prefix(wanted, checks.values()):
        if as_json:
            return list_checks(wanted, folders, as_json=True)
        _write_list(page, members)
        page.blank()
        page.line(f"The page of one: {shlex.join(program())} explain {members[0].id}")
    elif symptom_of(check_id) is not None:
        return _explain_message(check_id, checks, folders, as_json)
    else:
        raise UsageError(f"no check {check_id!r}{nearest(wanted, checks)} (distdoctor list shows all)")
    streams.write(page.plain())
    return OK


def with_prefix(prefix: str, checks: Iterable[Check]) -> list[Check]:
    """Return the checks whose id begins with ``prefix`` (a stage, or more of the id), a pattern's ``*`` left out."""
    start = prefix.strip().rstrip("*").replace("_", "-")
    start = start if "/" in start else f"{start}/"
    return [check for check in checks if check.id.startswith(start)]


def _message(text: str) -> str | None:
    """Return the message, from stdin for ``-``; None where ``text`` is the id of a check."""
    if text == "-":
        return sys.stdin.buffer.read(LONGEST_MESSAGE).decode(errors="replace")
    return text if is_message(text) else None


def _explain_message(text: str, checks: Mapping[str, Check], folders: Sequence[Path], as_json: bool) -> int:
    every, page = [*checks.values()], Page(_width())
    report = report_on(text, every)
    status = OK if report.findings else INCOMPLETE
    if as_json:
        _write_json(document(report))
        return status
    write_head(page, report, every, Style(program=shlex.join(program()), checks=[*map(str, folders)]), text)
    if report.findings:
        page.blank()
        _write_check(page, checks[report.findings[0].check])
    streams.write(page.plain())
    return status


def _write_check(page: Page, check: Check) -> None:
    page.line(f"{check.id} ({check.severity})")
    page.blank()
    write_page(page, whole_page(check))
    if check.docs_url:
        page.blank()
        page.line(f"Online: {check.docs_url}")


def write_page(page: Page, text: str) -> None:
    """Write a check's page: paragraphs filled to the width of the page; indented lines and headings as they are."""
    for block in re.split(r"\n\s*\n", text.rstrip()):
        page.blank()
        lines = block.splitlines()
        if len(lines) > 1 and re.fullmatch(r"-{3,}", lines[1].strip()):
            page.line(lines.pop(0))
            page.line(lines.pop(0))
        if page.width <= 0 or any(line.startswith((" ", "\t", "- ", "* ")) for line in lines):
            for line in lines:
                page.line(line)
        elif lines:
            page.prose(" ".join(lines))


def list_checks(prefix: str | None, folders: Sequence[Path], *, as_json: bool) -> int:
    """``distdoctor list``: the checks by stage, or those of a prefix. Raises UsageError."""
    checks = load_checks(folders)
    chosen = list(checks) if prefix is None else with_prefix(prefix, checks)
    if prefix is not None and not chosen:
        raise UsageError(f"no check begins with {prefix!r}{nearest(prefix, [check.id for check in checks])}")
    if as_json:
        _write_json([_entry(check) for check in chosen])
        return OK
    page = Page(_width())
    _write_list(page, chosen)
    streams.write(page.plain())
    return OK


def _write_list(page: Page, checks: Sequence[Check]) -> None:
    width = max((len(check.id) for check in checks), default=0)
    for stage in (*STAGES, *LOG_STAGES):
        members = [check for check in checks if check.stage == stage]
        if members:
            page.blank()
            page.line(stage)
        for check in members:
            whole = f"  {check.id:<{width}}  {check.severity}  {check.title}"
            if page.width <= 0 or len(whole) <= page.width:
                page.line(whole)
            else:
                page.line(f"  {check.id}  {check.severity}")
                page.prose(f"      {check.title}", hang=6)


def print_schema() -> int:
    """Print the JSON schema of ``-o json``."""
    from distdoctor.render.schema import schema

    _write_json(schema())
    return OK


def _entry(check: Check) -> dict[str, str]:
    return {name: getattr(check, name) for name in ("id", "stage", "severity", "title", "docs_url")}


def _write_json(value: object) -> None:
    streams.write(json.dumps(value, indent=2) + "\n")


def _width() -> int:
    return shutil.get_terminal_size().columns if streams.is_terminal(sys.stdout) else 0


# ``distdoctor explain MESSAGE``: the wordings that ``diagnose`` knows, else the likely causes of the message.

NAME = "message"
"""Name of the message in the report, as if it were a file."""


def is_message(text: str) -> bool:
    """Return whether the text cannot be the id of a check, or a part of one."""
    return re.fullmatch(r"[\w./*#-]*", text.strip()) is None


def report_on(text: str, checks: Sequence[Check]) -> Report:
    """The report on one message, of one or several lines; incomplete where it does not prove a cause."""
    began = time.monotonic()
    collector = Collector({check.id: check.log for check in checks})
    log = collector.log(NAME, "log")
    log.feed(text.encode(errors="replace") + b"\n")
    collector.end(log)
    judged = judge_logs(collector.collected().logs, checks)
    root, symptom = judged.reading.root, symptom_of(text)
    if symptom is not None and root is not None and root.why:  # a cause that other evidence would have to confirm
        judged = replace(judged, verdict="incomplete", findings=())
    if symptom is not None and (not judged.findings or judged.findings[0].check == symptom.proves):
        judged = replace(judged, candidates=candidates_of(symptom, text, judged.candidates))
    known = bool(judged.findings or judged.candidates)
    return Report(
        verdict=judged.verdict if judged.findings else "incomplete",
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


def write_head(page: Page, report: Report, checks: Sequence[Check], style: Style, text: str) -> None:
    """Write the check that the message proves with its own fix, else its likely causes; the check's page follows."""
    root = next((finding for finding in report.findings if finding.because_of is None), None)
    if root is not None:
        page.prose(f"This message shows {root.check}: {root.title}", hang=2)
        usual = {first_fix(check) for check in checks if check.id == root.check}
        for fix in root.fixes:
            if fix.text not in usual:
                page.prose(f"fix: {fix.text}", hang=2)
                for command in fix.commands:
                    page.line(f"    {command}")
        for other in report.findings:
            if not {*other.evidence} <= {*root.evidence}:  # of the same line, it is a consequence
                page.prose(f"it also shows {other.check}: {other.title}", hang=2)
                page.line(f"  more: {style.explain(other.check)}")
    elif report.candidates:
        page.prose("INCONCLUSIVE: this message alone does not prove its cause.", hang=2)
    else:
        page.prose("INCONCLUSIVE: no check knows this message.", hang=2)
        if near := similar(text, checks):
            page.blank()
            page.line("Checks with similar messages:")
            for check in near:
                page.prose(f"  {check.id}: {check.title}", hang=6)
    if report.candidates:
        _write_causes(page, report, checks, symptom_of(text))
    if root is None:
        _write_next(page, report, style)


def _write_causes(page: Page, report: Report, checks: Sequence[Check], symptom: Symptom | None) -> None:
    """Write the likely causes, two lines each: the failure, and the command with the result that confirms it."""
    titles = {check.id: check.title for check in checks}
    page.blank()
    if symptom is not None and symptom.first:
        page.prose(symptom.first)
        page.blank()
    page.line("Likely causes, most likely first. Each command confirms its cause:")
    for number, candidate in enumerate(report.candidates, 1):
        page.prose(f"{number:>3}. {candidate.check}: {titles.get(candidate.check, '')}", hang=5)
        page.line(f"       {candidate.command or 'distdoctor diagnose LOGS...'}    # {candidate.next}")


def _write_next(page: Page, report: Report, style: Style) -> None:
    page.blank()
    page.line("Next, for proof, give the logs of all ranks:")
    page.line(f"    {style.program} diagnose LOGS...")
    page.line("or, while the job hangs, on one of its nodes:")
    page.line(f"    {style.program} hang")
    if report.candidates:
        page.line(f"Details: {style.explain(report.candidates[0].check)}")

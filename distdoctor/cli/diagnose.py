"""``distdoctor diagnose``: what killed a job, from whatever it left behind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from distdoctor import __version__, interrupts
from distdoctor.cli.catalog import known_ids, load_checks
from distdoctor.cli.flags import ReportFlags
from distdoctor.cli.report_output import Telling
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report, ReportNode
from distdoctor.render.exit_status import exit_status

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.judge.log_findings import LogJudgement
    from distdoctor.model.facts import NodeFacts
    from distdoctor.model.facts.logs import LogFacts


def diagnose_files(files: Iterable[Path], flags: ReportFlags) -> int:
    """Judge facts, logs and dumps together and tell. Raises UsageError."""
    from distdoctor.model.facts.files import BadFile, read

    telling = Telling.from_flags(flags)
    checks = load_checks(flags.checks or ())
    patterns = known_ids(flags.ignore or (), checks)
    paths = [*files]
    if only_facts(paths):
        try:
            report = _of_facts(read(paths), checks, patterns)
        except BadFile as err:
            raise UsageError(str(err)) from None
    else:
        report = _of_logs(paths, checks, patterns)
    interrupts.hold()  # half a report helps nobody
    telling.show(report)
    return exit_status(report, telling.fail_on)


def only_facts(paths: Sequence[Path]) -> bool:
    """Whether these are what ``check --save`` wrote and nothing else, by their names and their first bytes."""
    for path in paths:
        inside = [one for one in path.iterdir() if not one.name.startswith(".")] if path.is_dir() else [path]
        if not inside or not all(one.name.endswith((".json", ".json.gz")) for one in inside):
            return False
        if any(map(_is_something_else, inside)):
            return False
    return True


def _is_something_else(path: Path) -> bool:
    """Whether it is known for what it is, and is no facts file; what is nothing known is to be told as bad facts."""
    from distdoctor.logs import json_lines
    from distdoctor.logs.reader import HEAD, Source, Unreadable, opened

    try:
        kind, raw = opened(Source(str(path), path))
    except Unreadable:
        return False
    with raw:
        return kind in ("error-file", "flight-recorder") or (kind == "log" and json_lines.is_log(raw.peek(HEAD)[:HEAD]))


def _of_logs(paths: Sequence[Path], checks: Sequence[Check], ignore: Sequence[str]) -> Report:
    from fnmatch import fnmatchcase

    from distdoctor.judge.log_findings import judge_logs
    from distdoctor.logs.collect import collect
    from distdoctor.logs.reader import Unreadable

    started = time.monotonic()
    wordings = {check.id: check.log for check in checks if not any(fnmatchcase(check.id, one) for one in ignore)}
    try:
        collected = collect(paths, wordings)
    except Unreadable as err:
        raise UsageError(str(err)) from None
    if not any(source.bytes or source.kind != "log" for source in collected.logs.sources):
        raise UsageError(next(iter(collected.logs.notes), f"{', '.join(map(str, paths[:3]))}: empty"))
    judged = judge_logs(collected.logs, checks, ignore)
    report = _report(judged, collected.logs, time.monotonic() - started)
    if not collected.facts:
        return report
    return together(_of_facts(collected.facts, checks, ignore), report)


def _of_facts(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Sequence[str]) -> Report:
    """The report on what `check --save` or `hang --save` kept."""
    if any(one.jobs for one in facts):
        from distdoctor.inspection.report import of_saved

        return of_saved(facts, checks, ignore)
    from distdoctor.judge.saved import diagnose

    return diagnose(facts, checks, ignore)


def _report(judged: LogJudgement, logs: LogFacts, seconds: float) -> Report:
    names = sorted({node for finding in judged.findings for node in finding.nodes})
    read = {source.name: {"kind": source.kind, "lines": source.lines} for source in logs.sources}
    return Report(
        verdict=judged.verdict,
        distdoctor=__version__,
        torch=None,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        plan={},
        nodes=tuple(ReportNode(name, None, True, name) for name in names),
        stages=(),
        findings=judged.findings,
        notes=judged.notes,
        details={"logs": read},
        candidates=judged.candidates,
    )


def together(facts: Report, logs: Report) -> Report:
    """The report on facts and logs of one job: what the checks found in the facts explains what the logs only show."""
    ids = {finding.id for finding in facts.findings}
    added = tuple(finding for finding in logs.findings if finding.id not in ids)
    failing = next((f.id for f in facts.findings if f.severity == "fail" and f.because_of is None), None)
    told = failing is None and logs.verdict in ("fail", "incomplete")
    nodes = {node.name for node in facts.nodes}
    return replace(
        facts,
        verdict=logs.verdict if told else facts.verdict,
        findings=(*facts.findings, *added),
        notes=(*facts.notes, *logs.notes),
        nodes=(*facts.nodes, *(node for node in logs.nodes if node.name not in nodes)),
        candidates=() if failing else logs.candidates,
        details={**facts.details, **logs.details},
    )

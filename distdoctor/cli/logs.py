"""``distdoctor diagnose`` of logs: read once, or followed, and judged with whatever facts lie beside them."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from distdoctor import __version__, interrupts, streams
from distdoctor.cli.flags import LogFlags
from distdoctor.interrupts import Interrupted
from distdoctor.judge.catalog import Check
from distdoctor.judge.log_findings import LogJudgement, judge_logs
from distdoctor.judge.log_selection import of_ranks, ranks_of, span_of, time_of
from distdoctor.logs import archive, reader
from distdoctor.logs.budget import Budget
from distdoctor.logs.collect import Collected, Collector
from distdoctor.logs.follow import Follower
from distdoctor.logs.last_time import last_time
from distdoctor.model.errors import UsageError
from distdoctor.model.facts.logs import LogFacts, Match
from distdoctor.model.findings import Finding
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report, ReportNode
from distdoctor.model.sanitize import clean

EVERY = 0.5
"""Seconds between two looks at files that are followed."""
MATCHES = 2000
"""Lines that ``-v`` tells."""


class LogCommand:
    """One ``diagnose`` with logs among the files. ``whole``: the report has all lines that are known; ``sources``: the
    files in ``paths``, where they are to be told of by other names. ``observer`` is told which is read."""

    def __init__(
        self,
        paths: Sequence[Path],
        checks: Sequence[Check],
        ignore: Sequence[str],
        which: LogFlags,
        whole: bool,
        sources: Sequence[reader.Source] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._paths, self._checks, self._ignore, self._whole = paths, checks, ignore, whole
        self._sources, self._observer = sources, observer or Observer()
        self._began = time.monotonic()
        wordings = {check.id: check.log for check in checks}
        try:
            self._ranks = ranks_of(which.rank) if which.rank is not None else None
            self._since = self._since_when(which.since) if which.since is not None else None
        except (ValueError, reader.Unreadable) as err:
            raise UsageError(str(err)) from None
        self._follow, self.collector = which.follow, Collector(wordings, self._since)

    def run(self) -> tuple[Report, int | None]:
        """The report, and the signal that ended the run where one did. Raises UsageError."""
        number = None
        try:
            if self._follow:
                follower = Follower(self._paths, self.collector)
                number = self._followed(follower)
                collected = follower.collected()
            else:
                collected = self._read()
        except reader.Unreadable as err:
            raise UsageError(str(err)) from None
        if not self._follow and not any(source.bytes or source.kind != "log" for source in collected.logs.sources):
            names = ["stdin" if str(path) == "-" else str(path) for path in self._paths[:3]]
            empty = f"{', '.join(names)}: empty"
            raise UsageError(next(iter(collected.logs.notes), empty))
        return self.report(collected), number

    def _read(self) -> Collected:
        """All that is in the files, one after the other."""
        files = self.collector.arranged(self._found())
        for number, source in enumerate(files, start=1):
            what = f"reading {f'{number} of {len(files)}: ' if len(files) > 1 else ''}{source.name}"
            self._observer.waits(what)
            self.collector.add(source)
            self._observer.waited(what)
        self._observer.waits("judging what is in them")
        return self.collector.collected()

    def _since_when(self, text: str) -> float | None:
        span = span_of(text)
        if span is None:
            return time_of(text)
        if any(str(path) == "-" for path in self._paths):
            raise ValueError(f"--since {text} needs files; of stdin the end is not known: give a time")
        budget = Budget()
        end = last_time(archive.unpacked(self._found(), budget)[0], budget)
        return None if end is None else end - span

    def _found(self) -> Sequence[reader.Source]:
        return self._sources if self._sources is not None else reader.find(self._paths)

    # -- following ----------------------------------------------------------------------------------------------

    def _followed(self, follower: Follower) -> int | None:
        """Read on until nothing more can come, or a signal ends it: which one."""
        told = seen = ""
        try:
            while not follower.ended:
                if follower.poll() or seen != told:
                    before, seen = seen, root_line(self._judged(follower.collected().logs).findings)
                    if seen == before and seen != told:  # twice the same: it is not half of a traceback
                        _say(seen or "the job went on after it")
                        told = seen
                time.sleep(EVERY)
        except (Interrupted, KeyboardInterrupt) as err:
            interrupts.hold()
            follower.close()
            return err.number if isinstance(err, Interrupted) else signal.SIGINT
        follower.close()
        return None

    # -- the report ---------------------------------------------------------------------------------------------

    def _judged(self, logs: LogFacts) -> LogJudgement:
        if self._ranks is None:
            return judge_logs(logs, self._checks, self._ignore)
        judged = judge_logs(of_ranks(logs, self._ranks), self._checks, self._ignore)
        if judged.verdict not in ("pass", "warn"):
            return judged
        others = judge_logs(logs, self._checks, self._ignore)
        if others.verdict not in ("fail", "incomplete"):
            return judged
        note = "what other ranks said, or what names no rank, shows a failure: leave out --rank"
        return replace(judged, verdict="incomplete", notes=(note, *judged.notes))

    def report(self, collected: Collected) -> Report:
        """The report on what was collected, with the facts among it."""
        judged, logs = self._judged(collected.logs), collected.logs
        names = sorted({node for finding in judged.findings for node in finding.nodes})
        details: dict[str, Any] = {
            "logs": {source.name: {"kind": source.kind, "lines": source.lines} for source in logs.sources}
        }
        if logs.settings:
            details["settings"] = logs.settings
        if self._whole:
            details["lines"] = list(_lines(judged))[:MATCHES]
        report = Report(
            verdict=judged.verdict,
            distdoctor=__version__,
            torch=None,
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._began, 3),
            plan={},
            nodes=tuple(ReportNode(name, None, True, name) for name in names),
            stages=(),
            findings=judged.findings,
            ignored=judged.ignored,
            notes=judged.notes,
            details=details,
            candidates=judged.candidates,
        )
        if not collected.facts:
            return report
        from distdoctor.cli.saved import of_facts
        from distdoctor.judge.logs_and_facts import together

        return together(of_facts(collected.facts, self._checks, self._ignore), report, self._checks)


def root_line(findings: Sequence[Finding]) -> str:
    """The root cause in a line; empty without one."""
    root = next((one for one in findings if one.because_of is None), None)
    if root is None or root.severity != "fail":
        return ""
    return f"{root.id}: {root.title}: {next(iter(root.evidence), root.summary)}"


def _say(text: str) -> None:
    streams.write(f"distdoctor: {time.strftime('%H:%M:%S')} {clean(text)}\n", sys.stderr)


def _lines(judged: LogJudgement) -> Iterator[dict[str, Any]]:
    """Every line that is known, in the order of the logs, with what it proves."""
    reading = judged.reading
    root = [reading.root] if reading.root is not None else []
    labelled = [
        *((match, "root cause") for match in root),
        *((match, _LABELS[match.shows]) for match in (*reading.others, *reading.symptoms)),
        *((match, "noise") for match in reading.noise),
    ]
    for match, label in sorted(labelled, key=lambda pair: pair[0].order):
        yield {
            "check": match.check,
            "shows": label,
            "file": match.source,
            "line": match.line,
            "rank": match.who.rank,
            "host": match.who.host,
            "time": match.who.time,
            "count": match.count,
            "text": match.text,
            "why": _why(match, label),
        }


_LABELS = {"cause": "cause", "exception": "cause", "end": "how it ended", "symptom": "symptom", "hint": "symptom"}


def _why(match: Match, label: str) -> str:
    if label != "noise" or match.shows == "noise":
        return match.why
    return "the job went on after it"

"""``distdoctor diagnose``: the root cause of a job's end, from its logs, dumps and facts."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from distdoctor import __version__, interrupts, streams
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.cli.hosts.progress import observer_of
from distdoctor.cli.options import LogFlags, ReportFlags
from distdoctor.cli.output import Telling
from distdoctor.interrupts import Interrupted
from distdoctor.judge.catalog import Check
from distdoctor.judge.logs.filters import of_ranks, ranks_of, span_of, time_of
from distdoctor.judge.logs.findings import LogJudgement, judge_logs
from distdoctor.logs.collect import Collected, Collector
from distdoctor.logs.reading import reader
from distdoctor.logs.reading.budget import Budget
from distdoctor.logs.reading.follow import LogFollower, last_time
from distdoctor.model.errors import UsageError
from distdoctor.model.facts import NodeFacts
from distdoctor.model.facts.logs import LogFacts, Match
from distdoctor.model.findings import Finding
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report, ReportNode
from distdoctor.model.text import clean


def diagnose_files(files: Iterable[Path], which: LogFlags, flags: ReportFlags) -> int:
    """Judge facts, logs and dumps together and print the report. Raises UsageError."""
    telling = Telling.from_flags(flags)
    checks = load_checks(flags.checks or ())
    patterns = known_ids(flags.ignore or (), checks)
    observer = observer_of(flags.quiet)
    try:
        report, number = judged([*files], checks, patterns, which, whole=telling.lines, observer=observer)
    finally:
        observer.close()
    interrupts.hold()  # half a report helps nobody
    telling.show(report)
    return telling.status(report, number)


def judged(
    paths: Sequence[Path],
    checks: Sequence[Check],
    ignore: Sequence[str],
    which: LogFlags,
    *,
    whole: bool,
    sources: Sequence[reader.Source] | None = None,
    observer: Observer | None = None,
) -> tuple[Report, int | None]:
    """Return the report on these paths, and the signal that ended the run, if one did. Raises UsageError.

    ``sources``: the files in them, if they are reported under other names; ``observer`` sees which one is read.
    """
    from distdoctor.cli.check import read_baseline
    from distdoctor.model.facts.files import BadFile, read
    from distdoctor.session.baseline import with_changes

    if which.follow or not only_facts(paths):
        if which.baseline is not None:
            raise UsageError("--baseline is compared with facts (check --save), and there are logs among the files")

        return LogCommand(paths, checks, ignore, which, whole, sources, observer).run()
    try:
        facts, earlier = read(paths), read_baseline(which.baseline)
        return with_changes(of_facts(facts, checks, ignore), facts, earlier), None
    except BadFile as err:
        raise UsageError(str(err)) from None


def only_facts(paths: Sequence[Path]) -> bool:
    """Return whether these are files of ``check --save`` and nothing else, by their names and their first bytes."""
    for path in paths:
        inside = [entry for entry in path.iterdir() if not entry.name.startswith(".")] if path.is_dir() else [path]
        if not inside or not all(entry.name.endswith((".json", ".json.gz")) for entry in inside):
            return False
        if any(map(_is_something_else, inside)):
            return False
    return True


def _is_something_else(path: Path) -> bool:
    """Return whether the file is of a known kind other than facts; an unknown one is reported as bad facts."""
    from distdoctor.logs.reading import formats
    from distdoctor.logs.reading.reader import HEAD, Source, Unreadable, opened

    try:
        kind, raw = opened(Source(str(path), path))
    except Unreadable:
        return False
    with raw:
        return kind in ("error-file", "flight-recorder") or (
            kind == "log" and formats.is_json_log(raw.peek(HEAD)[:HEAD])
        )


# Logs: read once, or followed, and judged with the facts beside them.


EVERY = 0.5
"""Seconds between two looks at files that are followed."""
MATCHES = 2000
"""Limit of the lines that ``-v`` prints."""


class LogCommand:
    """One ``diagnose`` with logs among the files.

    ``whole``: the report has all known lines; ``sources``: the files in ``paths``, if they are reported under other
    names; ``observer`` sees which one is read.
    """

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
        """Return the report, and the signal that ended the run, if one did. Raises UsageError."""
        number = None
        try:
            if self._follow:
                follower = LogFollower(self._paths, self.collector)
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
        """Read all files, one after the other."""
        files = self.collector.arranged(self._input_sources())
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
        end = last_time(reader.unpack_archives(self._input_sources(), budget)[0], budget)
        return None if end is None else end - span

    def _input_sources(self) -> Sequence[reader.Source]:
        return self._sources if self._sources is not None else reader.find(self._paths)

    # Following

    def _followed(self, follower: LogFollower) -> int | None:
        """Read on until nothing more can follow, or a signal ends it. Return the signal."""
        printed = seen = ""
        try:
            while not follower.ended:
                if follower.poll() or seen != printed:
                    before, seen = seen, root_line(self._judged(follower.collected().logs).findings)
                    if seen == before and seen != printed:  # twice the same: it is not half of a traceback
                        _say(seen or "the job went on after it")
                        printed = seen
                time.sleep(EVERY)
        except (Interrupted, KeyboardInterrupt) as err:
            interrupts.hold()
            follower.close()
            return err.number if isinstance(err, Interrupted) else signal.SIGINT
        follower.close()
        return None

    # The report

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
        """Return the report on the collected logs, with the facts among them."""
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
        from distdoctor.judge.saved import together

        return together(of_facts(collected.facts, self._checks, self._ignore), report, self._checks)


def root_line(findings: Sequence[Finding]) -> str:
    """Return the root cause in a line; empty without one."""
    root = next((finding for finding in findings if finding.because_of is None), None)
    if root is None or root.severity != "fail":
        return ""
    return f"{root.id}: {root.title}: {next(iter(root.evidence), root.summary)}"


def _say(text: str) -> None:
    streams.write(f"distdoctor: {time.strftime('%H:%M:%S')} {clean(text)}\n", sys.stderr)


def _lines(judged: LogJudgement) -> Iterator[dict[str, Any]]:
    """Yield every known line, in the order of the logs, with its meaning."""
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


# Reports on saved facts.


def of_facts(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Sequence[str]) -> Report:
    """Return the report on facts of `check --save` or `hang --save`."""
    if any(entry.jobs for entry in facts):
        from distdoctor.hang.report import of_saved

        return of_saved(facts, checks, ignore)
    from distdoctor.judge.saved import diagnose

    return diagnose(facts, checks, ignore)

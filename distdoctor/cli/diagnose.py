"""``distdoctor diagnose``: what killed a job, from whatever it left behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from distdoctor import interrupts
from distdoctor.cli.catalog import known_ids, load_checks
from distdoctor.cli.fanout_progress import observer_of
from distdoctor.cli.flags import LogFlags, ReportFlags
from distdoctor.cli.report_output import Telling
from distdoctor.model.errors import UsageError

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.logs.reader import Source
    from distdoctor.model.observer import Observer
    from distdoctor.model.report import Report


def diagnose_files(files: Iterable[Path], which: LogFlags, flags: ReportFlags) -> int:
    """Judge facts, logs and dumps together and tell. Raises UsageError."""
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
    sources: Sequence[Source] | None = None,
    observer: Observer | None = None,
) -> tuple[Report, int | None]:
    """The report on what is in these paths, and the signal that ended the run where one did. Raises UsageError.

    ``sources``: the files in them, where they are to be told of by other names; ``observer`` is told which is read.
    """
    from distdoctor.cli.check import read_baseline
    from distdoctor.cli.saved import of_facts
    from distdoctor.model.facts.files import BadFile, read
    from distdoctor.session.baseline import with_changes

    if which.follow or not only_facts(paths):
        if which.baseline is not None:
            raise UsageError("--baseline is compared with facts (check --save), and there are logs among the files")
        from distdoctor.cli.logs import LogCommand

        return LogCommand(paths, checks, ignore, which, whole, sources, observer).run()
    try:
        facts, earlier = read(paths), read_baseline(which.baseline)
        return with_changes(of_facts(facts, checks, ignore), facts, earlier), None
    except BadFile as err:
        raise UsageError(str(err)) from None


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

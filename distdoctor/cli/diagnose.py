"""``distdoctor diagnose``: saved facts, judged and told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from distdoctor import interrupts
from distdoctor.cli.catalog import known_ids, load_checks
from distdoctor.cli.flags import ReportFlags
from distdoctor.cli.report_output import Telling
from distdoctor.judge.saved import diagnose
from distdoctor.model.errors import UsageError
from distdoctor.model.facts.files import BadFile, read
from distdoctor.render.exit_status import exit_status


def diagnose_files(files: Iterable[Path], flags: ReportFlags) -> int:
    """Judge the files together, tell, and return the exit status. Raises UsageError."""
    telling = Telling.from_flags(flags)
    checks = load_checks(flags.checks or ())
    patterns = known_ids(flags.ignore or (), checks)
    try:
        report = diagnose(read(files), checks, patterns)
    except BadFile as err:
        raise UsageError(str(err)) from None
    interrupts.hold()  # half a report helps nobody
    telling.show(report)
    return exit_status(report, telling.fail_on)

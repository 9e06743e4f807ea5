"""``distdoctor hang``: missing and stuck ranks, and their positions, in a job that hangs now."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from distdoctor import interrupts, streams
from distdoctor.cli import ending
from distdoctor.cli.check import save_path
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.cli.options import STACKS, HangFlags, ReportFlags
from distdoctor.cli.output import Telling
from distdoctor.cli.program import require_one_of
from distdoctor.hang.inspect import NoJob, Wanted, inspect
from distdoctor.hang.report import changes, progressed_ranks, report_on_jobs
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.text import clean, first_of
from distdoctor.plan.syntax import split_endpoint
from distdoctor.render.exit_status import INCOMPLETE, OK
from distdoctor.render.formats import USUAL

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.model.facts import NodeFacts

_SHOWN = 8
"""Limit of the ranks that are named."""
Judging: TypeAlias = "tuple[Sequence[Check], Sequence[str]]"
"""Checks, and patterns of the ignored ones."""


def hang_command(how: HangFlags, flags: ReportFlags) -> int:
    """Look at the selected job, judge and print the report. Raises UsageError."""
    telling = Telling.from_flags(flags)
    if how.store is not None and split_endpoint(how.store)[1] is None:
        raise UsageError(f"--store {how.store!r} is no HOST:PORT")
    if how.watch is not None and telling.output != USUAL:
        raise UsageError("--watch tells one report after the other, which only text can")
    wanted = Wanted(how.pid, how.run_id, how.store, require_one_of("--stacks", how.stacks, STACKS))
    save = save_path(how.save) if how.save is not None else None

    @cache
    def judging() -> Judging:
        checks = load_checks(flags.checks or ())
        return checks, known_ids(flags.ignore or (), checks)

    report, unsaved = _looked(wanted, judging, save)
    before: Report | None = None
    while how.watch is not None:
        if before is None or changes(before, report):
            telling.show(report)
        before = report
        try:
            time.sleep(how.watch)
            ending.begin()
            report, unsaved = _looked(wanted, judging, save)
        except UsageError as err:
            streams.write(f"\n{_now()} {clean(err)}\n")
            return _status(OK, unsaved)
        except (KeyboardInterrupt, interrupts.Interrupted):
            return _status(telling.status(before), unsaved)
        lines = changes(before, report)
        if again := progressed_ranks(before, report):
            lines.append(f"got on meanwhile, and where they were before: {first_of(again, _SHOWN)}")
        elif not lines:
            lines.append("nothing changed, and no rank that waits for others got on")
        streams.write("".join(f"\n{_now()} {clean(line)}" for line in lines) + "\n\n")
    interrupts.hold()  # half a report helps nobody
    telling.show(report)
    return _status(telling.status(report), unsaved)


def _status(status: int, unsaved: bool) -> int:
    """Return the exit status: facts that could not be saved make a good one incomplete."""
    return INCOMPLETE if status == OK and unsaved else status


def _looked(wanted: Wanted, judging: Callable[[], Judging], save: Path | None) -> tuple[Report, bool]:
    """Return the report on the job, and whether its facts could not be saved. Raises UsageError, also without such a
    job."""
    began, started_at = time.monotonic(), datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        facts = inspect(wanted, meanwhile=judging)
    except NoJob as err:
        raise UsageError(str(err)) from None
    checks, ignore = judging()
    report = report_on_jobs([facts], checks, ignore, started_at=started_at, seconds=time.monotonic() - began)
    return report, save is not None and not _saved(save, facts)


def _saved(path: Path, facts: NodeFacts) -> bool:
    from distdoctor.model.facts.files import write

    try:
        write(path, facts, leads_node=True)
    except OSError as err:
        streams.write(f"distdoctor: the facts could not be saved: {clean(err)}\n", sys.stderr)
        return False
    return True


def _now() -> str:
    return datetime.now().strftime("%H:%M:%S")

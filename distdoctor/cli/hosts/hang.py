"""``distdoctor hang --hosts``: a hanging job, looked at on all of its nodes at once, with one report."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone

from distdoctor import interrupts
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.cli.hosts import orchestrate
from distdoctor.cli.hosts.check import on_calls_alone
from distdoctor.cli.hosts.progress import Progress, observer_of
from distdoctor.cli.options import STACKS, HangFlags, HostFlags, ReportFlags
from distdoctor.cli.output import Telling
from distdoctor.cli.program import require_one_of
from distdoctor.hang.report import report_on_jobs
from distdoctor.model.errors import UsageError
from distdoctor.plan.syntax import split_endpoint
from distdoctor.remote import transports
from distdoctor.render.exit_status import INCOMPLETE, OK

LIMIT = 90.0
"""Limit for all: to connect, two looks with the stores, and back."""


def hang_on_hosts(how: HangFlags, flags: ReportFlags, where: HostFlags) -> int:
    """Look on all hosts, judge and print the report. Raises UsageError."""
    telling, began = Telling.from_flags(flags), time.monotonic()
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    hosts_flag, targets = orchestrate.targets_of(where)
    for flag, value in (("--pid", how.pid), ("--watch", how.watch)):
        if value is not None:
            raise UsageError(f"{flag} does not go with {hosts_flag}: it is of one host")
    if how.store is not None and split_endpoint(how.store)[1] is None:
        raise UsageError(f"--store {how.store!r} is no HOST:PORT")
    wanted = {"run_id": how.run_id, "store": how.store, "stacks": require_one_of("--stacks", how.stacks, STACKS)}
    place = orchestrate.folder(how.save)
    checks = load_checks(flags.checks or ())
    ignore = known_ids(flags.ignore or (), checks)
    observer = observer_of(flags.quiet)
    try:
        lines, calls = orchestrate.carry_out(
            targets,
            [orchestrate.order(hosts_flag, task="hang", wanted=wanted) for _ in targets],
            Progress(observer, [target.host.name for target in targets]),
            setup=where.setup,
            wait=2.0 * transports.CONNECT_SECONDS,
            limit=LIMIT,
        )
    finally:
        observer.close()
    facts, nothing = orchestrate.facts_of(lines), {one.target.host.name: one.nothing for one in lines if one.nothing}
    if not facts and len(nothing) == len(lines):
        reasons = "; ".join(
            f"{', '.join(h for h in nothing if nothing[h] == why)}: {why}" for why in {*nothing.values()}
        )
        raise UsageError(f"there is no job to look at: {reasons}")
    if facts:
        seconds = time.monotonic() - began
        report = report_on_jobs(facts, checks, ignore, started_at=started_at, seconds=seconds, calls=calls)
    else:
        report = replace(on_calls_alone(calls, checks, ignore), started_at=started_at)
    unsaved = orchestrate.keep(place, facts)
    notes = [*(f"{host}: {why}" for host, why in nothing.items()), *filter(None, [unsaved])]
    report = orchestrate.after_signal(replace(report, notes=(*report.notes, *notes)))
    telling.show(report)
    status = telling.status(report, interrupts.pending())
    return INCOMPLETE if status == OK and unsaved else status

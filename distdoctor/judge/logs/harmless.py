"""Principles by which a line about a failure is set aside: it ended no process of this job. Pure.

Each principle takes the timeline that the ones before it left, and returns the lines that it sets aside.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from time import strptime

from distdoctor.judge.logs.clocks import before_the_job, lines_about_other_processes, long_before_the_job
from distdoctor.judge.logs.lifelines import (
    ACCOUNT,
    ASKED_TO_END,
    Lifeline,
    Timeline,
    by_scheduler,
    is_raised,
    is_ranks,
    process,
)
from distdoctor.model.facts.logs import LogSource, Match

_RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\b")
"""Beginning of a logger's line: the program goes on, at least for now."""
_WARNED = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?)\b")
"""Beginning of a logger's line below the level of an error."""
_REJECTED = re.compile(
    r"(?:usage: )?[\w./-]{1,80}: error: (?:the following arg|unrecognized arg|argument |ambiguous opt)"
    r"|Error: (?:No such|Invalid|Missing|Got)\b"
    r"|(?:.{1,200}: line \d+|(?:\S{0,200}/)?(?:ba|da|k|z)?sh(?::(?: line)? ?\d+)?): "
    r"(?:command not found: \S|\S{1,200}: (?:command )?not found)"
)
"""Report of a program that rejects its command line, and ends, or of a shell that finds no program, and goes on: the
work below that is of another program."""
FROM_OUTSIDE = ("cancelled", "launcher signalled", "preempted", "sent by launcher", "time limit")
"""Reasons for which a scheduler or a launcher ends a process that did not fail."""
BUFFERED = 400
"""Fewest lines that are more than Python's buffers of two processes hold: it flushes them behind the traceback of
``python -m`` (pymain_run_module() in Modules/main.c) and of a multiprocessing child."""
AT_ONCE = 60.0
"""Seconds within which a process that ends has written them."""
LAST_WORDS = 30
"""Most lines of a log behind its program's own report of its end."""
_FATAL = re.compile(
    r"(?:[\w./-]{0,200}/)?(?:slurm\w{0,20}|srun|sbatch|mpirun|mpiexec|python[\d.]{0,5}|(?:ba|da|z)?sh|[\w.-]{1,80}\.sh)"
    r"(?:\[\d+\])?: |[\w.-]{1,80}\.py: error: |terminate called "
    r"|.{0,80}(?:Watchdog caught|terminated with exception|entire process down)"
)
"""Beginning of a line by a launcher that sees programs end, or by a process that ends itself."""


# After the job's success is teardown.


def after_success(timeline: Timeline) -> list[Match]:
    """Return what the job's success makes harmless: all before it, and all after it if no process crashed.

    What libraries and ranks report while the job is torn down is at most a warning. A process that a launcher or the
    interpreter reports as ended badly is a failure of the teardown.
    """
    found = list[Match]()
    for life in timeline.lifelines.values():
        if life.source.success:
            later = [match for match in life.events if match.line > life.source.success]
            crashed = any(map(_crashed, later))
            found += [match for match in life.events if not (crashed and match.line > life.source.success)]
    return found


OBEYED = 10
"""Most lines between an order to stop and the report of its process that it ends in order."""


def obeyed(timeline: Timeline) -> list[Match]:
    """Return the orders to stop below which their process reports that it ends in order: an engine whose program needs
    it no more."""
    left = [match for match in timeline.matches if match.has("leaves") and match.who.pid is not None]
    return [
        match
        for match in timeline.events
        if is_order(match)
        and any(
            (one.source, one.who.pid) == (match.source, match.who.pid) and 0 < one.line - match.line <= OBEYED
            for one in left
        )
    ]


def after_a_stop(timeline: Timeline) -> list[Match]:
    """Return the orders to stop that a program obeyed, and all below its report of that: its teardown."""
    return [
        match
        for life in timeline.lifelines.values()
        if life.source.stopped
        for match in life.events
        if match.line > life.source.stopped or (is_order(match) and match.shows != "cause")
    ]


def after_the_exit(timeline: Timeline) -> list[Match]:
    """Return the lost peers that ranks report below their own exit, in logs where nothing failed: their store left
    first."""
    left: dict[tuple[str, int | None], int] = {
        (match.source, rank): match.line
        for match in reversed(timeline.matches)
        if match.has("leaves")
        for rank in (match.who.rank, *match.ranks)
        if rank is not None
    }
    return [
        match
        for life in timeline.lifelines.values()
        if all(match.shows == "symptom" for match in life.events)
        for match in life.events
        if all(left.get((match.source, rank), match.line) < match.line for rank in match.ranks or (match.who.rank,))
    ]


def _crashed(match: Match) -> bool:
    """Return whether a process ended badly, by itself, by the report of its launcher or of Python."""
    end = match.ended
    if end is not None and end.reason in FROM_OUTSIDE:
        return False
    if end is None:
        return match.shows == "end" or match.has("uncaught", "whole")
    return bool(end.reason) or (end.code or 0) not in (0, *ASKED_TO_END) or end.signal not in (None, 2, 15)


# Only steps of the same speaker, or the end of its work, show that it survived an error.


def survived(timeline: Timeline) -> list[Match]:
    """Return the failures below which their speaker, or its log, goes on with its work or ends it.

    A container that ended well after a restart survived its first end, too.
    """
    found, lives = list[Match](), [*timeline.lifelines.values()]
    for place, life in enumerate(lives):
        if life.source.kind == "kernel":
            continue
        found += [match for match in life.events if match.has("restarted")]
        overcome = _overcome(life)
        rest = Lifeline(life.source, tuple(match for match in life.events if match not in overcome))
        found += overcome
        if rest.events and (_goes_on(rest) or _goes_on_in_next(rest, lives[place + 1 :])):
            found += rest.events
    return found


def _overcome(life: Lifeline) -> list[Match]:
    """Return the exceptions after which their process, or others, made steps before another failure.

    torch writes the rank before an uncaught exception: steps without a rank do not show that it was survived.
    """
    raised = [
        match
        for match in life.events
        if is_raised(match)
        or match.has("head")
        or (match.shows == "cause" and (_RECORD.match(match.text) or _REJECTED.match(match.text)))
    ]
    last = max((match.last_line for match in raised if match.shows == "cause" or match.exception), default=0)
    return [
        match
        for match in raised
        if not match.has("uncaught") and match.last_line < max(_signs_of_work(match, life, raised, last), default=0)
    ]


def _signs_of_work(match: Match, life: Lifeline, raised: Sequence[Match], last: int) -> Iterator[int]:
    """Yield lines below work that shows that ``match`` was survived. ``last``: line of the last error.

    Steps of others count only for another exception or a cause: output that a process buffers until it ends may come
    behind another's death, and then behind its consequences.
    """
    source, ranked = life.source, (match.who.rank, match.who.local_rank) != (None, None)
    yield from (line for who, line in source.alive if line <= last and (not ranked or who[:2] != (None, None)))
    if ranked:
        yield life.stepped(match)
    # Launchers start Python unbuffered, and so many lines fit in no buffer: so many steps are a job's.
    ordered = max((one.last_line for one in life.events if is_order(one)), default=0)
    if not ranked and (life.launcher_ended or ordered - match.last_line > BUFFERED):
        yield from (line for _, line in source.worked)
    if _WARNED.match(match.text):
        yield from (line for _, line in source.alive)
    if match.has("caught", "logged"):
        yield from (line for who, line in source.resumed if who == match.who.speaker and line <= last)
    if _REJECTED.match(match.text):  # what another program wrote for a while before it failed
        below = [one.line for one in raised if one.line > match.last_line and not _REJECTED.match(one.text)]
        yield from (line for line in below[:1] if line - match.last_line > LAST_WORDS and line <= last)


def _goes_on(life: Lifeline) -> bool:
    """Return whether the log shows steps, or the end of the job, below all its failures.

    A launcher that reports a failure has ended the job; the script around it may print "finished" all the same. Errors
    while all ranks leave are no failure of their work.
    """
    source, over = life.source, life.source.finished > life.last
    if not over and (
        any(_may_be_flushed(match, life) for match in life.events) or any(match.has("final") for match in life.events)
    ):
        return False  # the steps below were written before
    if source.progress > life.last or (source.advanced > life.last and not life.launcher_ended and _is_caught(life)):
        return True
    left = source.done and all(match.shows == "symptom" for match in life.events)
    return (over or left) and not life.launcher_ended and not any(_is_death(match, source) for match in life.events)


def _is_caught(life: Lifeline) -> bool:
    """Return whether the speaker of the log's last step caught every error in it: Python's traceback begins in one of
    its functions, or its logger wrote the error."""
    raised = [match for match in life.events if not match.has("head")]
    return bool(raised) and all(
        match.who.speaker == life.source.stepper
        and (match.has("caught", "logged") or _WARNED.match(match.text) is not None)
        for match in raised
    )


def _may_be_flushed(match: Match, life: Lifeline) -> bool:
    """Return whether what stands below an uncaught exception may be what its process had buffered: a process that ends
    writes no more than its buffers hold, and at once."""
    source, above = life.source, [one.who.time for one in life.events if one.line <= match.line]
    since = max((time for time in above if time is not None), default=None)
    later = source.ended is not None and since is not None and source.ended - since > AT_ONCE
    return match.has("uncaught") and source.lines - match.last_line < BUFFERED and not later


def _goes_on_in_next(life: Lifeline, later: Iterable[Lifeline]) -> bool:
    """Return whether a newer part of the same log shows steps of a working job, and no failure."""
    name = life.source.part_of
    if not name or life.launcher_ended:
        return False
    return any(
        (one.source.progress or one.source.finished or one.source.alive)
        and name in (one.source.name, one.source.part_of)
        and (bool(one.source.alive) or not one.events)
        for one in later
    )


def _is_death(match: Match, source: LogSource) -> bool:
    """Return whether ``match`` shows the end of a process that had not reported the end of the job.

    A dead process does not report it: the script around it does.
    """
    if not _is_last(match, source) or source.known >= match.last_line:
        return False
    end = match.ended
    parent = end is not None and (
        end.reason in ("gave up", "failed") or (not (end.reason or end.launcher) and end.signal in (6, 15))
    )
    own = match.shows == "end" or match.has("whole", "final") or _FATAL.match(match.text)
    return bool(own) or parent


def _is_last(match: Match, source: LogSource) -> bool:
    """Return whether no steps are below ``match``, and no end of the job above it, which another process than the
    failed rank may have reported."""
    others = match.has("whole") and match.who.rank is not None and match.shows == "cause"
    return source.progress <= match.last_line and (others or not 0 < source.over < match.line)


def reports_after_recovery(sources: Iterable[LogSource], matches: Iterable[Match]) -> list[Match]:
    """Return the causes among the survived ``matches`` below whose last steps only a report claims the end of the
    job."""
    of = {source.name: source for source in sources}
    return [
        match
        for match in matches
        if (match.shows == "cause" or match.exception) and not _WARNED.match(match.text)
        if (source := of.get(match.source)) is not None and (_is_last(match, source) or match.has("whole"))
        if max(source.progress, source.known) <= match.last_line < source.finished
    ]


# What a line revokes, what a program only logged or caught, and what others ended.


def of_the_script(timeline: Timeline) -> list[Match]:
    """Return the errors of programs that a script ran before the ranks: ``srun --label`` marks every line of a rank,
    and the script went on to start them."""
    found = list[Match]()
    for life in timeline.lifelines.values():
        until = max((match.line for match in life.events if match.who.task is not None), default=0)
        found += [
            match
            for match in life.events
            if match.last_line < until
            and match.ended is None
            and {match.who.task, match.who.rank, match.who.local_rank} == {None}
            and (is_raised(match) or match.has("head") or _REJECTED.match(match.text))
        ]
    return found


def revoked(timeline: Timeline) -> list[Match]:
    """Return the lines that a later line of the same check in the same log revokes."""
    over = {
        (match.check, match.source): match.last_line
        for match in timeline.matches
        if match.shows == "noise" and not match.has("leaves") and "well" not in match.values
    }
    return [
        match
        for match in timeline.matches
        if match.shows in ("symptom", "hint", "end") and match.last_line < over.get((match.check, match.source), 0)
    ]


def logged(timeline: Timeline) -> list[Match]:
    """Return the exceptions that a program logged before it went on, if nothing reports its end, and those of single
    requests that a server refused."""
    found, every = list[Match](), timeline.events
    raising = {match.check for match in every if match.exception}
    # Somebody reports a failure that is no traceback of the program's own.
    lost = any(one.shows == "symptom" and one.check not in raising for one in every)
    for life in timeline.lifelines.values():
        if life.launcher_ended or any(match.shows == "end" for match in life.events):
            continue
        raised = [match for match in life.events if match.exception]
        own = [
            match
            for match in raised
            if match.has("answered")
            or (
                match.has("logged")
                and life.source.record > match.last_line
                and not (lost and _is_end(life.source, match) and life.worked(match))
            )
        ]
        found += own
        if own and len(own) == len(raised):  # their heads, too
            found += [match for match in life.events if match.shows == "symptom" and match.check == own[0].check]
    return found


def _is_end(source: LogSource, match: Match) -> bool:
    """Return whether only text of an ending program is below ``match``."""
    return source.lines - match.last_line <= LAST_WORDS and source.progress < match.last_line


def caught(timeline: Timeline) -> list[Match]:
    """Return errors that programs caught and reported in one stream, while the other stream shows steps or the end of
    the job.

    Nobody else reports a failure: other ranks would miss one that ended.
    """
    lives = [life for life in timeline.lifelines.values() if life.source.lines]
    ended = {process(life.source.name) for life in lives if life.source.done}
    alive = {process(life.source.name) for life in lives if life.source.progress} | ended
    whole = {match.source for match in timeline.events} <= timeline.lifelines.keys()
    failed = [life for life in lives if life.events]
    return [*timeline.events] if whole and all(_was_caught(life, ended, alive) for life in failed) else []


def _was_caught(life: Lifeline, ended: Collection[str], alive: Collection[str]) -> bool:
    """Return whether the program caught all errors of this stream: its last one, and those of threads, as its other
    stream shows."""
    name, raised = process(life.source.name), [match for match in life.events if not match.has("head")]
    if life.source.progress or life.source.done or name not in alive or not raised:
        return False
    if name in ended and is_ranks(life.source) and all(match.has("thread") for match in raised):
        return True
    misses_a_peer = any(match.shows == "symptom" for match in raised)  # and may have reported that itself
    last = max(raised, key=lambda match: match.last_line)
    return last.has("caught") and all(map(is_raised, raised)) and (name in ended or not misses_a_peer)


PATIENCE = 29
"""Seconds, less one as the times of the rows are truncated, after which torchrun sends SIGKILL to the rest of a node's
ranks when one has failed (timeout of PContext.close(), torch/distributed/elastic/multiprocessing/api.py)."""
SIGKILL = 9
KILLS_ITS_TREE = ("sglang",)
OF_JOB = ("shell", "systemd")
"""Sources that report the end of the launcher; a monitor ends ranks."""


def ended_by_launcher(timeline: Timeline) -> list[Match]:
    """Return the rows of torchrun's tables for ranks that torchrun killed, by the time after the table's first
    failure."""
    rows = [(match, time) for match in timeline.matches if (time := _time(match)) is not None]
    first: dict[tuple[str, str | None], float] = {}
    for match, time in rows:
        table = match.source, match.who.host
        first[table] = min(time, first.get(table, time))
    return [
        match for match, time in rows if _is_killed(match) and time - first[match.source, match.who.host] >= PATIENCE
    ]


def ended_by_monitor(timeline: Timeline) -> list[Match]:
    """Return the SIGKILL reports below a monitor's complaint about a rank, if there was none above it.

    An engine that kills its whole process tree ends its launcher, too, as the shell then reports.
    """
    found = list[Match]()
    for life in timeline.lifelines.values():
        tree = [one for one in life.events if one.ended is not None and one.ended.launcher in KILLS_ITS_TREE]
        begun = min((one.line for one in life.events if one.has("monitor") or one in tree), default=0)
        killed = [one for one in life.events if one.shows == "end" and _is_killed(one, () if tree else OF_JOB)]
        if begun and killed and begun < min(one.line for one in killed):
            found += killed
    return found


def _is_killed(match: Match, besides: Collection[str] = ()) -> bool:
    end = match.ended
    return end is not None and end.signal == SIGKILL and end.launcher not in besides


def _time(match: Match) -> float | None:
    """Return the time at which torchrun saw the process of a row end."""
    try:
        return float(calendar.timegm(strptime(match.values.get("row_time", ""), "%Y-%m-%d_%H:%M:%S")))
    except ValueError:
        return None


def of_another_day(timeline: Timeline) -> list[Match]:
    """Return the kernel's old lines about an ended process, and its old symptoms; see :func:`long_before_the_job`."""
    old = long_before_the_job(timeline)
    return [match for match in old if match.check.startswith("process/") or match.shows in ("symptom", "hint")]


PRINCIPLES: tuple[Callable[[Timeline], list[Match]], ...] = (
    of_another_day,
    after_success,
    obeyed,
    after_a_stop,
    after_the_exit,
    survived,
    of_the_script,
    revoked,
    logged,
    lines_about_other_processes,
    ended_by_launcher,
    ended_by_monitor,
    before_the_job,
    caught,
)


def set_aside(timeline: Timeline) -> dict[str, list[Match]]:
    """Return what each principle sets aside, by its name."""
    found: dict[str, list[Match]] = {}
    for principle in PRINCIPLES:
        found[principle.__name__] = gone = principle(timeline)
        timeline = timeline.without({match.order for match in gone}) if gone else timeline
    return found


# Whoever was asked to stop did not fail.


ORDERS = ("cancelled", "launcher signalled", "preempted", "time limit")
"""Reasons for which somebody outside of the job stops it."""


def is_order(match: Match) -> bool:
    """Return whether somebody outside of the job asks it to stop: a scheduler, a signal, or Ctrl-C."""
    if match.ended is not None:
        return match.ended.reason in ORDERS
    return match.text.startswith("KeyboardInterrupt") or match.has("outside")


def asked_to_stop(matches: Iterable[Match]) -> list[Match]:
    """Return the exceptions and ends that follow from an order to stop: those below it, if nothing failed above it.

    A known cause, such as a full disk, follows from no order, and the scheduler's state of the job is not a process's
    failure. ``matches`` in the order of their lines.
    """
    ordered: dict[str, bool] = {}
    found = list[Match]()
    for match in matches:
        if by_scheduler(match) or match.has("head"):
            continue
        follows = ordered.setdefault(match.source, is_order(match)) and not is_order(match)
        if follows and (match.exception or match.shows == "end"):
            found.append(match)
    return found


# An exception that an earlier line of the same process explains.


def explained(matches: Sequence[Match]) -> list[Match]:
    """Return exceptions that their own process raised because of a line above them, by Python's traceback.

    That line is a symptom, or the cause of an end in whose clean-up (such as ``finally``) the groups were gone.
    ``matches`` in the order of their lines.
    """
    found: list[Match] = []
    for match, of in _raised_in_turn(matches):
        if not match.chained or of is None or not _is_above(of, match):
            continue
        symptom = of.shows == "symptom" and of.check != match.check and " Caught " not in of.text
        over = of.shows == "cause" and of.check != match.check and match.has("without_group")
        if over or (match.exception and (symptom or of in found)):
            found.append(match)
    # An error that others raise, too, after a peer ended belongs to the program's end, whatever caused that.
    alike = {(match.exception, match.values.get("message")) for match in found if match.exception}
    return [
        match
        for match in matches
        if match in found or (match.chained and (match.exception, match.values.get("message")) in alike)
    ]


def _raised_in_turn(matches: Iterable[Match]) -> Iterator[tuple[Match, Match | None]]:
    """Yield each exception with the one that the same process raised before it, None for its first."""
    before: dict[tuple[object, ...], Match] = {}
    for match in matches:
        if match.has("head") or not is_raised(match):
            continue
        own = (match.source, match.who.rank, match.who.local_rank, match.who.host, match.who.task)
        yield match, before.get(own)
        before[own] = match


def _is_above(of: Match, match: Match) -> bool:
    """Return whether only a traceback is between them."""
    return 0 < match.line - (of.last_line if of.last_line < match.line else of.line) <= ACCOUNT

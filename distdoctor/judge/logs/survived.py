"""Lines that ended no process: caught exceptions, logged errors, and failures after which the work went on. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from distdoctor.model.facts.logs import LogSource, Match

FAR = 1000
"""Lines after the last failure from which a log is taken to have survived it."""

RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory)\b"
)
"""Beginning of an exception's own line."""
_RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\b")
"""Beginning of a logger's line: the program goes on, at least for now."""
_WARNED = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?)\b")
"""Beginning of a logger's line below the level of an error."""
LAST_WORDS = 30
"""Most lines of a log behind its program's own report of its end."""
ACCOUNT = 150
"""Most lines of a traceback and of the text around it."""


def survived(sources: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]]) -> list[Match]:
    """Return the matches in a log that goes on with its work after the last of them, and ends with it."""
    found: list[Match] = []
    every = [*sources]
    for place, source in enumerate(every):
        own = [match for match in by_source.get(source.name, ()) if match.shows not in ("noise", "hint")]
        if source.kind == "kernel":
            continue
        found += (past := before_or_at_teardown(source, own))
        own = [match for match in own if match not in past]
        found += [match for match in own if "restarted" in match.values]  # a container that did well after a restart
        found += (went_on := [*_went_on(source, own), *_executed(source, own)])
        own = [match for match in own if match not in went_on]
        last = max((last_line(match) for match in own), default=0)
        if any(match.values.get("final") for match in own) and source.finished <= last:
            continue
        # A launcher that reports a failure has ended the job; the script around it may print "finished" all the same.
        ended = any(_ends(match) for match in own)
        if source.died and not source.finished > last:
            continue  # the text below was written before
        # A dead process does not report the end of the job: the script around it does.
        dead = any(_is_death(match, source) for match in own)
        alive = source.progress > last or (source.finished > last and not ended and not dead)
        alive = alive or source.lines - last > FAR
        alive = alive or (bool(source.part_of) and not ended and _goes_on(source, every[place + 1 :], by_source))
        # Errors while all ranks leave are no failure of their work.
        left = source.done and not ended and not dead and all(match.shows == "symptom" for match in own)
        if own and (alive or left):
            found += own
    return found


def before_or_at_teardown(source: LogSource, own: Sequence[Match]) -> list[Match]:
    """Return the matches that the job's success makes harmless: all before it, and all after it if no process crashed.

    What libraries and ranks report while the job is torn down is at most a warning. A process that a launcher or the
    interpreter reports as ended badly is a failure of the teardown.
    """
    if not source.success:
        return []
    later = [match for match in own if match.line > source.success]
    return [*own] if not any(map(_crashed, later)) else [match for match in own if match not in later]


def _crashed(match: Match) -> bool:
    """Return whether a process ended badly, by itself, by the report of its launcher or of Python."""
    end = match.ended
    if end is None or end.reason == "sent by launcher":
        return match.shows == "end" or bool(match.values.keys() & {"uncaught", "whole"})
    return bool(end.reason) or (end.code or 0) not in (0, *TOLD_TO_END) or end.signal not in (None, 2, 15)


def _is_death(match: Match, source: LogSource) -> bool:
    """Return whether ``match`` shows the end of a process that had not reported the end of the job."""
    if not _is_last(match, source) or match.values.keys() & {"thread", "child"}:
        return False
    reported = (
        match.shows == "end" or match.values.keys() & {"whole", "final"} or _FATAL.match(match.text) or _reports(match)
    )
    return bool(reported) and source.known < last_line(match)


def _is_last(match: Match, source: LogSource) -> bool:
    """Return whether no steps are below ``match``, and no end of the job above it, which another process than the
    failed rank may have reported."""
    others = "whole" in match.values and match.who.rank is not None and match.shows == "cause"
    return source.progress <= last_line(match) and (others or not 0 < source.over < match.line)


def reports_after_recovery(sources: Iterable[LogSource], matches: Iterable[Match]) -> list[Match]:
    """Return the causes among the survived ``matches`` below whose last steps only a report claims the end of the
    job."""
    of = {source.name: source for source in sources}
    return [
        match
        for match in matches
        if (match.shows == "cause" or match.exception) and not _WARNED.match(match.text)
        if (source := of.get(match.source)) is not None and (_is_last(match, source) or "whole" in match.values)
        if max(source.progress, source.known) <= last_line(match) < source.finished
    ]


def _went_on(source: LogSource, own: Sequence[Match]) -> list[Match]:
    """Return the exceptions after which their process, or others, made steps before another failure.

    Steps of others count only for another exception or a cause: output that a process buffers until it ends may come
    behind another's death, and then behind its consequences. torch writes the rank before an uncaught exception: steps
    without a rank do not show that it was survived.
    """
    raised = [match for match in own if match.exception or "head" in match.values or RAISED.match(match.text)]
    raised += [match for match in own if match.shows == "cause" and match not in raised and _RECORD.match(match.text)]
    launched = any(_ends(match) for match in own)
    last = max((last_line(match) for match in raised if match.shows == "cause" or match.exception), default=0)
    found = []
    for match in raised:
        speaker = (match.who.rank, match.who.local_rank, match.who.host, match.who.task, match.who.pid)
        ranked = speaker[:2] != (None, None)
        mine = (line for who, line in source.alive if ranked and who == speaker and "thread" not in match.values)
        others = (line for who, line in source.alive if line <= last and (not ranked or who[:2] != (None, None)))
        # Launchers start Python unbuffered: so many steps are those of a job that goes on.
        many = (line for _, line in source.worked if launched and not ranked)
        after = (line for _, line in source.alive if _WARNED.match(match.text))
        if last_line(match) < max((*mine, *others, *many, *after), default=0) and "uncaught" not in match.values:
            found.append(match)
    return found


def _executed(source: LogSource, own: Sequence[Match]) -> list[Match]:
    """Return the exceptions, with their heads, in code that a program executes (such as a model's output).

    The log goes on below the last of them and nothing else in it failed, or something else in it shows the cause.
    """
    raised = [match for match in own if "executed" in match.values]
    others = [match for match in own if match not in raised and "head" not in match.values]
    last = max(map(last_line, raised), default=0)
    if others:
        return raised if any(match.shows == "cause" for match in others) else []
    return [*own] if raised and source.lines > last else []


def _goes_on(source: LogSource, later: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]]) -> bool:
    """Return whether a newer part of the same log shows steps of a working job, and no failure."""
    return any(
        (one.progress or one.finished or one.alive)
        and source.part_of in (one.name, one.part_of)
        and (bool(one.alive) or all(match.shows in ("noise", "hint") for match in by_source.get(one.name, ())))
        for one in later
    )


def logged(
    sources: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]], over: Sequence[Match]
) -> list[Match]:
    """Return exceptions that a program logged before it went on, if nothing reports its end.

    ``over``: matches known to be survived.
    """
    found: list[Match] = []
    gone = {match.order for match in over}
    every = [match for own in by_source.values() for match in own]
    raising = {match.check for match in every if match.exception}
    # Somebody reports a failure that is no traceback of the program's own.
    lost = any(one.shows == "symptom" and one.check not in raising and one.order not in gone for one in every)
    for source in sources:
        own = by_source.get(source.name, [])
        if any(match.shows == "end" or (match.shows == "symptom" and _ends(match)) for match in own):
            continue
        raised = [match for match in own if match.exception]
        logged = [match for match in raised if match.values.get("logged") and source.record > last_line(match)]
        logged = [
            match
            for match in logged
            if not (_is_end(source, match) and (_is_listed_as_dead(match, every) or (lost and _worked(source, match))))
        ]
        found += logged
        if logged and len(logged) == len(raised):  # their heads, too
            found += [match for match in own if match.shows == "symptom" and match.check == logged[0].check]
    return found


def _is_end(source: LogSource, match: Match) -> bool:
    """Return whether only text of an ending program is below ``match``."""
    return source.lines - last_line(match) <= LAST_WORDS and source.progress < last_line(match)


def _worked(source: LogSource, match: Match) -> bool:
    """Return whether steps are right above ``match``."""
    return any(0 <= last_line(match) - line <= ACCOUNT for _, line in source.alive)


def _is_listed_as_dead(match: Match, every: Iterable[Match]) -> bool:
    """Return whether torchrun's table in another log lists the rank of ``match`` as ended by itself."""
    rows = [
        one.who
        for one in every
        if one.values.get("row") and one.source != match.source and one.ended and (one.ended.code or 0) > 0
    ]
    ranks, local = {row.rank for row in rows} - {None}, {(row.local_rank, row.host) for row in rows}
    if match.who.rank is not None:
        return match.who.rank in ranks
    hosts = {host for _, host in local}
    own = {host for number, host in local if number is not None and number == match.who.local_rank}
    return bool(own) and (match.who.host in own or (match.who.host is None and len(hosts) == 1))


TOLD_TO_END = (130, 143)
"""Exit codes of a process that was told to end when the job was done, such as a monitor: no failure."""
_FATAL = re.compile(
    r"(?:[\w./-]{0,200}/)?(?:slurm\w{0,20}|srun|sbatch|mpirun|mpiexec|python[\d.]{0,5}|(?:ba|da|z)?sh|[\w.-]{1,80}\.sh)"
    r"(?:\[\d+\])?: |[\w.-]{1,80}\.py: error: |terminate called "
    r"|.{0,80}(?:Watchdog caught|terminated with exception|entire process down)"
)
"""Beginning of a line by a launcher that sees programs end, or by a process that ends itself."""


def _reports(match: Match) -> bool:
    """Return whether the parent of a process reports that it gave up, failed, or was ended by SIGABRT or SIGTERM."""
    end = match.ended
    return end is not None and (
        end.reason in ("gave up", "failed") or (not (end.reason or end.launcher) and end.signal in (6, 15))
    )


def _ends(match: Match) -> bool:
    """Return whether a launcher reports the end of a job."""
    end = match.ended
    if end is None:
        return False
    ended = end.launcher in ("torchrun", "deepspeed") or end.reason in ("gave up", "first to fail")
    return ended or ((end.code or 0) != 0 and end.code not in TOLD_TO_END) or by_scheduler(match)


def by_scheduler(match: Match) -> bool:
    """Return whether it is the scheduler's state of the job: it failed, whatever its log shows."""
    return "state" in match.values or "of_table" in match.values


def revoked_causes(matches: Sequence[Match]) -> list[Match]:
    """Return causes that a later line of the same check in the same log revokes."""
    over = {
        (match.check, match.source): last_line(match)
        for match in matches
        if match.shows == "noise" and "well" not in match.values
    }
    return [
        match
        for match in matches
        if match.shows in ("symptom", "hint", "end") and last_line(match) < over.get((match.check, match.source), 0)
    ]


def raised_by_symptoms(matches: Sequence[Match]) -> list[Match]:
    """Return exceptions that their own process raised because of a symptom, by Python's traceback.

    Why the symptom came, they do not show. ``matches`` in the order of their lines.
    """
    found: list[Match] = []
    for match, of in _raised_in_turn(matches):
        if match.exception and match.chained and of is not None and _is_above(of, match):
            because = of.shows == "symptom" and of.check != match.check and " Caught " not in of.text
            found += [match] if because or of in found else []
    # An error that others raise, too, after a peer ended belongs to the program's end, whatever caused that.
    alike = {(match.exception, match.values.get("message")) for match in found}
    return [
        match
        for match in matches
        if match in found or (match.chained and (match.exception, match.values.get("message")) in alike)
    ]


def errors_at_exit(matches: Sequence[Match]) -> list[Match]:
    """Return exceptions of a process that used its groups in its clean-up (such as ``finally``) when they were gone.

    They come on top of the cause of its end. ``matches`` in the order of their lines.
    """
    found: list[Match] = []
    for match, of in _raised_in_turn(matches):
        over = match.chained and of is not None and of.shows == "cause" and of.check != match.check
        if over and of is not None and "without_group" in match.values and _is_above(of, match):
            found.append(match)
    return found


def _raised_in_turn(matches: Iterable[Match]) -> Iterator[tuple[Match, Match | None]]:
    """Yield each exception with the one that the same process raised before it, None for its first."""
    before: dict[tuple[object, ...], Match] = {}
    for match in matches:
        if "head" in match.values or not (match.exception or RAISED.match(match.text)):
            continue
        process = (match.source, match.who.rank, match.who.local_rank, match.who.host, match.who.task)
        yield match, before.get(process)
        before[process] = match


def _is_above(of: Match, match: Match) -> bool:
    """Return whether only a traceback is between them."""
    return 0 < match.line - (last_line(of) if last_line(of) < match.line else of.line) <= ACCOUNT


def last_line(match: Match) -> int:
    """Return the last line of the file with the same text."""
    return int(match.values.get("last_line", match.line))


# Two streams of one process in separate files: their order in time is unknown, but they show one process.


_STREAM = re.compile(
    r"(?:[._-]?\b(?:std)?(?:out|err)(?:\.log|\.txt)?)$"
    r"|(?<=\.)(?:p?[oe](?=\d{1,12}(?:[.-]\d{1,6})?$)|OU$|ER$)"  # qsub's names, and PBS's while the job runs
)


def process(name: str) -> str:
    """Return a file's name without the part that distinguishes its two streams."""
    return _STREAM.sub("", name)


def only_second_stream(every: Iterable[LogSource]) -> Callable[[LogSource], bool]:
    """Return a function that tells whether a log needs no end of its own, as it shows no work.

    Either the other stream of its process ends with the end of the job, or it is no rank's, and all ranks' logs end so.
    """
    logs = [one for one in every if one.kind == "log" and one.lines]
    done = Counter(process(one.name) for one in logs if one.done)
    ranks = [one for one in logs if is_ranks(one)]
    ended = {process(one.name) for one in ranks if one.done}
    all_end = bool(ranks) and all(process(one.name) in ended for one in ranks)

    def needs_no_end(source: LogSource) -> bool:
        if source.progress or source.starting:
            return False
        own = bool(source.done and source.kind == "log" and source.lines)
        return done[process(source.name)] > own or (not is_ranks(source) and all_end)

    return needs_no_end


def is_ranks(source: LogSource) -> bool:
    """Return whether the whole log is from one rank, by its path."""
    return source.who.rank is not None or source.who.local_rank is not None


def caught(sources: Iterable[LogSource], matches: Iterable[Match], over: Iterable[Match]) -> list[Match]:
    """Return errors that programs caught and reported in one stream, while the other stream shows steps or the end of
    the job.

    Nobody else reports a failure: other ranks would miss one that ended. ``over``: matches known to be survived.
    """
    past = {match.order for match in over}
    left = [match for match in matches if match.shows not in ("noise", "hint") and match.order not in past]
    logs = {source.name: source for source in sources if source.lines}
    ended = {process(one.name) for one in logs.values() if one.done}
    alive = {process(one.name) for one in logs.values() if one.progress} | ended
    for name in {match.source for match in left}:
        own = [match for match in left if match.source == name]
        raised = [match for match in own if "head" not in match.values]
        other = logs.get(name)
        if other is None or other.progress or other.done or process(name) not in alive or not raised:
            return []
        well = process(name) in ended
        if well and is_ranks(other) and all(is_of_part(match) for match in raised):
            continue
        if "caught" not in max(raised, key=last_line).values or not all(map(_is_raised, raised)):
            return []
        if not well and any(match.shows == "symptom" for match in raised):
            return []  # it missed another rank, and may have reported that itself
    return left


def is_of_part(match: Match) -> bool:
    """Return whether it ended only a thread or a multiprocessing child, not the process itself."""
    return "thread" in match.values or "child" in match.values


def _is_raised(match: Match) -> bool:
    return bool(match.exception) or RAISED.match(match.text) is not None

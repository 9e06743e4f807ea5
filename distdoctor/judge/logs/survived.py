"""What stands in a log and ended nobody: the exceptions and the like behind which the work went on. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from distdoctor.model.facts.logs import LogSource, Match

FAR = 1000
"""A log that goes on for so many lines after the last thing that failed has survived it."""

RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory)\b"
)
"""How the own line of an exception begins."""
_RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\b")
"""How a line begins that a program's logger wrote: the program goes on, for the time being."""
_WARNED = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:DEBUG|INFO|WARN(?:ING)?)\b")
"""How one begins that does not take itself for a failure."""
LAST_WORDS = 30
"""Lines that a log has at the most behind what its program wrote of its own end."""
ACCOUNT = 150
"""Lines of a traceback, and of what it is written with, at the most."""


def survived(sources: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]]) -> list[Match]:
    """Return what stands in a log that goes on with its work after the last of it, and ends with it."""
    found: list[Match] = []
    every = [*sources]
    for place, source in enumerate(every):
        own = [match for match in by_source.get(source.name, ()) if match.shows not in ("noise", "hint")]
        if source.kind == "kernel":
            continue
        found += [match for match in own if "restarted" in match.values]  # a container that did well when tried again
        found += (went_on := [*_went_on(source, own), *_executed(source, own)])
        own = [match for match in own if match not in went_on]
        last = max((last_line(match) for match in own), default=0)
        if any(match.values.get("final") for match in own) and source.finished <= last:
            continue
        # A launcher that tells of a failure has ended the job; the script around it may say "finished" all the same.
        ended = any(_ends(match) for match in own)
        if source.died and not source.finished > last:
            continue  # what stands below it was written before
        # Who has died does not say that the job is done: the script around it does.
        dead = any(_is_death(match, source) for match in own)
        alive = source.progress > last or (source.finished > last and not ended and not dead)
        alive = alive or source.lines - last > FAR
        alive = alive or (bool(source.part_of) and not ended and _goes_on(source, every[place + 1 :], by_source))
        # What is said while all ranks leave is no failure of what they were there for.
        left = source.done and not ended and not dead and all(match.shows == "symptom" for match in own)
        if own and (alive or left):
            found += own
    return found


def _is_death(match: Match, source: LogSource) -> bool:
    """Return whether ``match`` shows the end of a process that had not said that the job is done."""
    if not _is_last(match, source) or match.values.keys() & {"thread", "child"}:
        return False
    told = (
        match.shows == "end" or match.values.keys() & {"whole", "final"} or _FATAL.match(match.text) or _reports(match)
    )
    return bool(told) and source.known < last_line(match)


def _is_last(match: Match, source: LogSource) -> bool:
    """Return whether no steps stand below ``match``, and above it nothing that says that the job is done; which
    another may have said than a rank that raised it."""
    others = "whole" in match.values and match.who.rank is not None and match.shows == "cause"
    return source.progress <= last_line(match) and (others or not 0 < source.over < match.line)


def reports_after_recovery(sources: Iterable[LogSource], matches: Iterable[Match]) -> list[Match]:
    """Of ``matches``, which are survived, the causes below the last steps of which only the word of somebody tells so
    that the job is done."""
    of = {source.name: source for source in sources}
    return [
        match
        for match in matches
        if (match.shows == "cause" or match.exception) and not _WARNED.match(match.text)
        if (source := of.get(match.source)) is not None and (_is_last(match, source) or "whole" in match.values)
        if max(source.progress, source.known) <= last_line(match) < source.finished
    ]


def _went_on(source: LogSource, own: Sequence[Match]) -> list[Match]:
    """The exceptions behind which who raised them has made steps before something else failed; and those behind which
    others did so, where that is another exception or a cause: what one process keeps back until it ends, as its steps,
    may come behind what ended another, and then behind that what follows from it. Torch writes the rank before what
    nobody caught: steps without one do not show that it was survived."""
    raised = [match for match in own if match.exception or "head" in match.values or RAISED.match(match.text)]
    raised += [match for match in own if match.shows == "cause" and match not in raised and _RECORD.match(match.text)]
    launched = any(_ends(match) for match in own)
    last = max((last_line(match) for match in raised if match.shows == "cause" or match.exception), default=0)
    found = []
    for match in raised:
        whose = (match.who.rank, match.who.local_rank, match.who.host, match.who.task)
        ranked = whose[:2] != (None, None)
        mine = (line for who, line in source.alive if ranked and who == whose and "thread" not in match.values)
        others = (line for who, line in source.alive if line <= last and (not ranked or who[:2] != (None, None)))
        # Launchers start Python so that nothing is kept back: so many steps are those of a job that goes on.
        many = (line for _, line in source.worked if launched and not ranked)
        after = (line for _, line in source.alive if _WARNED.match(match.text))
        if last_line(match) < max((*mine, *others, *many, *after), default=0) and "uncaught" not in match.values:
            found.append(match)
    return found


def _executed(source: LogSource, own: Sequence[Match]) -> list[Match]:
    """The exceptions of texts that a program executes, as what a model has written, where the log goes on below the
    last of them and nothing else in it failed, with what announces them; or where something else in it shows why."""
    raised = [match for match in own if "executed" in match.values]
    others = [match for match in own if match not in raised and "head" not in match.values]
    last = max(map(last_line, raised), default=0)
    if others:
        return raised if any(match.shows == "cause" for match in others) else []
    return [*own] if raised and source.lines > last else []


def _goes_on(source: LogSource, later: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]]) -> bool:
    """Return whether a younger part of the same log shows the steps of a job that works, and nothing that failed."""
    return any(
        (one.progress or one.finished or one.alive)
        and source.part_of in (one.name, one.part_of)
        and (bool(one.alive) or all(match.shows in ("noise", "hint") for match in by_source.get(one.name, ())))
        for one in later
    )


def logged(
    sources: Iterable[LogSource], by_source: Mapping[str, Sequence[Match]], over: Sequence[Match]
) -> list[Match]:
    """Exceptions that a program wrote into its log and went on, where nothing says that it ended. ``over``: what is
    known to be survived."""
    found: list[Match] = []
    gone = {match.order for match in over}
    every = [match for own in by_source.values() for match in own]
    raising = {match.check for match in every if match.exception}
    # Somebody tells of a failure that is no traceback of the program's own.
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
            if not (_is_end(source, match) and (_is_told_dead(match, every) or (lost and _worked(source, match))))
        ]
        found += logged
        if logged and len(logged) == len(raised):  # what announces them, too
            found += [match for match in own if match.shows == "symptom" and match.check == logged[0].check]
    return found


def _is_end(source: LogSource, match: Match) -> bool:
    """Return whether below ``match`` stands only what a program says that ends."""
    return source.lines - last_line(match) <= LAST_WORDS and source.progress < last_line(match)


def _worked(source: LogSource, match: Match) -> bool:
    """Return whether steps stand right above ``match``."""
    return any(0 <= last_line(match) - line <= ACCOUNT for _, line in source.alive)


def _is_told_dead(match: Match, every: Iterable[Match]) -> bool:
    """Return whether torchrun's table, in another log, has the rank that wrote ``match`` as one that ended by
    itself."""
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
"""Exit codes of what was told to end when the job was done, as a monitor of it: it has failed in nothing."""
_FATAL = re.compile(
    r"(?:[\w./-]{0,200}/)?(?:slurm\w{0,20}|srun|sbatch|mpirun|mpiexec|python[\d.]{0,5}|(?:ba|da|z)?sh|[\w.-]{1,80}\.sh)"
    r"(?:\[\d+\])?: |[\w.-]{1,80}\.py: error: |terminate called "
    r"|.{0,80}(?:Watchdog caught|terminated with exception|entire process down)"
)
"""How a line begins of who starts programs and sees them end, or of a process that ends itself."""


def _reports(match: Match) -> bool:
    """Return whether who started a process reports that it gave up, failed, or was ended by SIGABRT or SIGTERM."""
    end = match.ended
    return end is not None and (
        end.reason in ("gave up", "failed") or (not (end.reason or end.launcher) and end.signal in (6, 15))
    )


def _ends(match: Match) -> bool:
    """Return whether a launcher reports that a job ended."""
    end = match.ended
    if end is None:
        return False
    ended = end.launcher in ("torchrun", "deepspeed") or end.reason in ("gave up", "first to fail")
    return ended or ((end.code or 0) != 0 and end.code not in TOLD_TO_END) or by_scheduler(match)


def by_scheduler(match: Match) -> bool:
    """Return whether it is the state in which the scheduler has the job: that it failed, whatever its log says."""
    return "state" in match.values or "of_table" in match.values


def cleared(matches: Sequence[Match]) -> list[Match]:
    """Return what is no cause, where the same check knows further on, in the same log, that it went on."""
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


def entailed(matches: Sequence[Match]) -> list[Match]:
    """Exceptions that their own process raised because of a symptom, by Python's own account of it: why that came, it
    does not say. ``matches`` in the order of their lines."""
    found: list[Match] = []
    for match, of in _raised_in_turn(matches):
        if match.exception and match.chained and of is not None and _is_above(of, match):
            because = of.shows == "symptom" and of.check != match.check and " Caught " not in of.text
            found += [match] if because or of in found else []
    # What others raise, too, where a peer ended, is what the program does at its end, whatever ends it.
    alike = {(match.exception, match.values.get("message")) for match in found}
    return [
        match
        for match in matches
        if match in found or (match.chained and (match.exception, match.values.get("message")) in alike)
    ]


def of_the_end(matches: Sequence[Match]) -> list[Match]:
    """Return where a process used its groups once more while it ended, as in a ``finally``, when they were gone:
    what it raised then, on top of why it ended. ``matches`` in the order of their lines."""
    found: list[Match] = []
    for match, of in _raised_in_turn(matches):
        over = match.chained and of is not None and of.shows == "cause" and of.check != match.check
        if over and of is not None and "without_group" in match.values and _is_above(of, match):
            found.append(match)
    return found


def _raised_in_turn(matches: Iterable[Match]) -> Iterator[tuple[Match, Match | None]]:
    """Return what was raised, and what the same process had raised before it, None for its first."""
    before: dict[tuple[object, ...], Match] = {}
    for match in matches:
        if "head" in match.values or not (match.exception or RAISED.match(match.text)):
            continue
        whose = (match.source, match.who.rank, match.who.local_rank, match.who.host, match.who.task)
        yield match, before.get(whose)
        before[whose] = match


def _is_above(of: Match, match: Match) -> bool:
    """Return whether nothing but a traceback is between them."""
    return 0 < match.line - (last_line(of) if last_line(of) < match.line else of.line) <= ACCOUNT


def last_line(match: Match) -> int:
    """The last line of its file in which the same stands."""
    return int(match.values.get("last_line", match.line))


# The two streams of a process, in a file each: nothing tells in which order they were written, but together they are
# one process. Pure.


_STREAM = re.compile(
    r"(?:[._-]?\b(?:std)?(?:out|err)(?:\.log|\.txt)?)$"
    r"|(?<=\.)(?:p?[oe](?=\d{1,12}(?:[.-]\d{1,6})?$)|OU$|ER$)"  # qsub's, and what it has until a job of PBS is over
)


def process(name: str) -> str:
    """A file's name without what tells its two streams apart."""
    return _STREAM.sub("", name)


def only_second_stream(every: Iterable[LogSource]) -> Callable[[LogSource], bool]:
    """Tell of each of these whether it needs no end, as it tells of no work: the other stream of its process ends with
    the end of the job, or it is no rank's, and all ranks' logs end so."""
    logs = [one for one in every if one.kind == "log" and one.lines]
    done = Counter(process(one.name) for one in logs if one.done)
    ranks = [one for one in logs if is_ranks(one)]
    ended = {process(one.name) for one in ranks if one.done}
    all_end = bool(ranks) and all(process(one.name) in ended for one in ranks)

    def is_only_beside(source: LogSource) -> bool:
        if source.progress or source.starting:
            return False
        own = bool(source.done and source.kind == "log" and source.lines)
        return done[process(source.name)] > own or (not is_ranks(source) and all_end)

    return is_only_beside


def is_ranks(source: LogSource) -> bool:
    """Return whether all of it is from one rank, by its path."""
    return source.who.rank is not None or source.who.local_rank is not None


def caught(sources: Iterable[LogSource], matches: Iterable[Match], over: Iterable[Match]) -> list[Match]:
    """Return what programs have caught and told of in one of their streams, where the other one shows steps or the
    end of the job, and nobody tells of a failure otherwise: who ends because of it is missed by others. ``over``:
    what is known to be survived."""
    past = {match.order for match in over}
    left = [match for match in matches if match.shows not in ("noise", "hint") and match.order not in past]
    logs = {source.name: source for source in sources if source.lines}
    ended = {process(one.name) for one in logs.values() if one.done}
    alive = {process(one.name) for one in logs.values() if one.progress} | ended
    for name in {match.source for match in left}:
        own = [match for match in left if match.source == name]
        raised = [match for match in own if "head" not in match.values]
        told = logs.get(name)
        if told is None or told.progress or told.done or process(name) not in alive or not raised:
            return []
        well = process(name) in ended
        if well and is_ranks(told) and all(is_of_part(match) for match in raised):
            continue
        if "caught" not in max(raised, key=last_line).values or not all(map(_is_raised, raised)):
            return []
        if not well and any(match.shows == "symptom" for match in raised):
            return []  # it has missed another, and may have told of that itself
    return left


def is_of_part(match: Match) -> bool:
    """Return whether it ended a thread, or a process that multiprocessing started, and not the process whose it was."""
    return "thread" in match.values or "child" in match.values


def _is_raised(match: Match) -> bool:
    return bool(match.exception) or RAISED.match(match.text) is not None

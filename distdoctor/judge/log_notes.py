"""What the notes say of logs: how those without a failure end, which say nothing, what was not read. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from distdoctor.judge.streams import is_of_part, only_beside, process
from distdoctor.model.facts.logs import LogFacts, LogSource, Match
from distdoctor.model.report import Verdict

MOST = 3
"""Files of a kind that the notes name."""
_NUMBERED = re.compile(r"(?i)(?<![a-z])(rank|node|host|worker|gpu|pod|n|gn)([._-]?)(0*)(\d{1,5})(?!\d)")
"""Where a file's name says by a number whose it is."""
CAUGHT = "the program caught it, and its other stream and all else tell of no failure; whether it went on is not told"
DONE = "below it stands no more than that the job is done; whether that was survived is not told"
PART = "it ended a thread, or a process of its own, of a rank that ended well"
SERIES = 3
"""Files that differ by such a number at least, before one that is not there is missed."""


def without_failure(
    logs: LogFacts, past: Collection[Match] = (), caught: Collection[Match] = ()
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict where no line shows a failure, and how the logs end that do not end with the end of the job.
    ``past``: what proves nothing of it; ``caught``: of that what is not known to be survived."""
    read_ones = [source for source in logs.sources if source.lines and source.kind != "beside"]
    names = {source.name for source in read_ones}
    over = {match.order for match in past}
    told = {one.source for one in logs.matches if one.shows not in ("noise", "hint") and one.order not in over}
    jobs = [source for source in read_ones if source.kind != "kernel" or source.name in told]  # a kernel's never ends
    last = [source for source in jobs or read_ones if source.part_of not in names]  # of a log that was rotated
    raised = [match for match in caught if "caught" in match.values]
    apart = [match for match in caught if is_of_part(match) and "head" not in match.values]
    doubtful = [match for match in caught if match not in raised and match not in apart and "head" not in match.values]
    those = {one.source for one in (*raised, *apart, *doubtful)}
    is_only_beside = only_beside(last)
    open_ones = [one for one in last if not one.done and one.name not in those and not is_only_beside(one)]
    ended = [f"no failure in {source.name}; {_end_of(source)}" for source in open_ones]
    said = [*((one, CAUGHT) for one in raised[:1]), *((one, PART) for one in apart[:1])]
    said += [(one, DONE) for one in doubtful[:1]]
    ended = [*(f"{one.source}:{one.line}: {one.text[:200]}: {why}" for one, why in said), *ended]
    verdict: Verdict = "warn" if ended else "pass"
    # Where the other stream of its process stops in mid-work, what was caught there may have ended it.
    over_with = {process(source.name) for source in read_ones if source.done}
    unknown = any(process(one.source) not in over_with for one in raised)
    # What could not be read may be where the failure is.
    nothing = not read_ones and not any(source.kind == "facts" for source in logs.sources)
    if nothing and (others := [source.name for source in logs.sources if source.kind == "beside" and source.lines]):
        ended = [f"no log of the job is among these: {others[0]} is what lies beside one"]
    elif nothing and logs.sources:
        ended = [f"nothing was written into {logs.sources[0].name}"]
    return "incomplete" if logs.notes or nothing or unknown else verdict, tuple(ended[:MOST])


def aside(logs: LogFacts) -> set[str]:
    """What was told beside the job's own logs: by a kernel, and by tools that were asked."""
    return {source.name for source in logs.sources if source.kind in ("kernel", "beside")}


def silent(logs: LogFacts, survived: Collection[Match] = ()) -> list[str]:
    """The few logs that end in the midst of the work, or with the end of the job, without a word of what others tell:
    who wrote them may have ended first, or been ended from outside. What was ``survived`` is no such word."""
    over = {match.order for match in survived}
    failed = [match for match in logs.matches if match.shows not in ("noise", "hint")]
    told = {process(match.source) for match in failed if match.order not in over}
    went_on = {match.source: f"went on after {match.text[:200]}" for match in failed if match.order in over}
    mute = [source for source in logs.sources if source.kind == "log" and process(source.name) not in told]
    quiet = [source for source in mute if source.progress or source.done]
    # Where only one rank prints steps, the others say nothing until they fail.
    ranks = [one for one in mute if one not in quiet and (one.who.rank is not None or one.who.local_rank is not None)]
    named = {process(one.name) for one in ranks} - {process(one.name) for one in quiet}
    if len(named) <= MOST and len(named) + len(quiet) < len(told):
        quiet += [one for one in ranks if process(one.name) in named]
    said = "says nothing of a failure"
    notes = [f"{source.name} {went_on.get(source.name, said)}; {_end_of(source)}" for source in quiet]
    return _first_of(notes) if len({process(one.name) for one in quiet}) <= max(MOST, len(told)) else []


def absent(logs: LogFacts) -> list[str]:
    """Whose logs are not there, or empty, by the numbers of the others: who left none may be the one that failed."""
    series: dict[tuple[str, str], dict[int, str]] = {}
    for source in logs.sources:
        told = [*_NUMBERED.finditer(source.name)]
        if source.kind == "log" and told:
            last, name = told[-1], source.name
            key = name[: last.start()], process(name[last.end() :])
            series.setdefault((key[0] + last[1] + last[2], key[1]), {})[int(last[4])] = last[0]
    notes = []
    for (start, _), names in series.items():
        first = 0 if re.search(r"(?i)rank[._-]?$", start) else min(names)
        missing = [number for number in range(first, max(names)) if number not in names]
        if len(names) >= SERIES and 0 < len(missing) < len(names):
            width = {len(name) for name in names.values()}
            shown = [_named(min(names.values(), key=len), number, width) for number in missing[:MOST]]
            more = f" and {len(missing) - MOST} more" if len(missing) > MOST else ""
            notes.append(
                f"nothing is there of {', '.join(shown)}{more}, beside {len(names)} logs like it: get that too"
            )
    return _first_of(notes)


def _named(like: str, number: int, width: Collection[int]) -> str:
    """A name as ``like``, with another number; as long as all are, where they are equally long."""
    told = _NUMBERED.match(like)
    if told is None:
        return str(number)
    digits = len(told[3]) + len(told[4])
    return f"{told[1]}{told[2]}{number:0{digits}d}" if len(width) == 1 else f"{told[1]}{told[2]}{number}"


def unread(logs: LogFacts) -> list[str]:
    """What was not read, and why."""
    told = {note.partition(": ")[0] for note in logs.notes}
    binary = [one.name for one in logs.sources if one.kind == "binary" and one.name not in told]
    return [*_first_of(logs.notes), *_first_of([f"{name}: no text, not looked at" for name in binary])]


def _end_of(source: LogSource) -> str:
    if source.kind == "flight-recorder":
        return "no rank is apart from the others in what is compared"
    if not source.last:
        return f"it ends at line {source.lines}, and no line near its end says what it did"
    if source.done:
        return f"it ends with the end of the job: {source.last}"
    doing = "starting up" if source.starting else "doing"
    return f"it ends at line {source.lines}, last seen {doing}: {source.last}"


def _first_of(notes: Sequence[str]) -> list[str]:
    more = [f"and {len(notes) - MOST} more files like this"] if len(notes) > MOST + 1 else []
    return [*notes[: MOST if more else None], *more]


def line_of(match: Match) -> int:
    """Where it stands in its file, which may have its newest line first."""
    return int(match.values.get("at", match.line))


def cannot_tell(symptoms: Sequence[Match], aside: Collection[str]) -> str:
    """The first of ``symptoms``, and that it does not say why; ``aside``: what was told beside the job's own logs."""
    match = next((match for match in symptoms if not match.compared), symptoms[0])
    where = f"{match.source}:{line_of(match)}"
    if all(one.source in aside for one in symptoms):
        return f"this may be why ({where}); no log of the job shows that it failed: {match.text[:200]}"
    return f"this shows that the job failed ({where}), not why: {match.text[:200]}"

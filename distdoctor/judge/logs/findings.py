"""Findings, candidates, notes and verdict from the facts of logs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain

from distdoctor.judge.catalog import Check
from distdoctor.judge.logs.attempts import JOB_NUMBER, by_job, last_try, stale_restart_note
from distdoctor.judge.logs.clocks import written_at
from distdoctor.judge.logs.first_failure import SortedMatches, read
from distdoctor.judge.logs.lifelines import ACCOUNT, by_scheduler, is_raised, is_ranks, only_second_stream, process
from distdoctor.model.facts.logs import LogFacts, LogSource, Match
from distdoctor.model.findings import Finding, Fix, PossibleCause
from distdoctor.model.report import Verdict
from distdoctor.model.text import shortened

LINES = 4
"""Most lines of evidence in one finding."""
CANDIDATES = 3
MAX_FINDINGS = 4096
"""Most ranks of one finding."""
NAMED = 8
"""Ranks that a sentence names."""
SHOWN = 200
"""Characters of the line in the summary of a finding."""
WORST: tuple[Verdict, ...] = ("fail", "incomplete", "warn", "pass")


@dataclass(frozen=True)
class LogJudgement:
    """Judgement of the logs."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    candidates: tuple[PossibleCause, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[Finding, ...] = ()
    """Findings set aside because the user ignores their checks."""
    reading: SortedMatches = field(default_factory=SortedMatches)
    """All known lines, sorted by what they prove."""


def judge_logs(logs: LogFacts, checks: Sequence[Check], ignore: Iterable[str] = ()) -> LogJudgement:
    """Return the root cause that a line proves, with its consequences, else the candidates; per job if there are
    several.

    Lines of checks in ``ignore`` (ids or patterns) are set aside and listed apart.
    """
    known, patterns = {check.id: check for check in checks}, tuple(ignore)
    aside = {one for one in known if any(fnmatchcase(one, pattern) for pattern in patterns)}
    judged = {number: _judged_but(part, known, aside) for number, part in by_job(logs).items()}
    return _joined(judged) if len(judged) > 1 else judged[""]


def _judged_but(logs: LogFacts, known: dict[str, Check], aside: set[str]) -> LogJudgement:
    """Judge the logs of one job without the checks of ``aside``."""
    left, out = (
        replace(logs, matches=tuple(match for match in logs.matches if (match.check in aside) is ignored))
        for ignored in (False, True)
    )
    return replace(_judged(left, known), ignored=_set_aside(out, known))


def _joined(judged: Mapping[str, LogJudgement]) -> LogJudgement:
    """Merge the judgements of several jobs."""
    parts = list(judged.values())
    each = f"logs of {len(parts)} jobs ({', '.join(judged)}), each judged by itself"
    return LogJudgement(
        min((part.verdict for part in parts), key=WORST.index),
        _with_own_ids(judged),
        tuple(chain.from_iterable(part.candidates for part in parts)),
        (each, *chain.from_iterable(part.notes for part in parts)),
        tuple(chain.from_iterable(part.ignored for part in parts)),
        SortedMatches.of_jobs([part.reading for part in parts]),
    )


def _with_own_ids(judged: Mapping[str, LogJudgement]) -> tuple[Finding, ...]:
    """Return the findings of several jobs; one whose id is taken gets the number of its job."""
    findings, known = list[Finding](), set[str]()
    for number, part in judged.items():
        ids = {one.id: one.id if one.id not in known else f"{one.id}@{number}" for one in part.findings}
        known.update(ids.values())
        findings += [
            replace(one, id=ids[one.id], because_of=ids.get(one.because_of or "", one.because_of))
            for one in part.findings
        ]
    return tuple(findings)


def _set_aside(logs: LogFacts, known: dict[str, Check]) -> tuple[Finding, ...]:
    """Return a finding for each of these lines by itself."""
    reading = read(logs, known) if logs.matches else SortedMatches()
    first: dict[str, Match] = {}
    for match in (*([reading.root] if reading.root is not None else []), *reading.others):
        first.setdefault(match.check, match)
    return tuple(_finding(match, reading, known, None) for match in first.values())


def _judged(every: LogFacts, known: dict[str, Check]) -> LogJudgement:
    logs, earlier = last_try(every)
    reading = with_cause(read(logs, known), logs)
    reading = replace(reading, noise=(*reading.noise, *earlier))
    notes = [*_of_earlier(replace(logs, matches=earlier), known), *unread_note(logs)]
    others = reading.root is not None and concerns_other_jobs(logs, reading.failures)
    if reading.root is not None and not others:
        root = _finding(reading.root, reading, known, None)
        rest = _consequences(reading, root, known)
        return LogJudgement("fail", (root, *rest), (), tuple(notes), reading=reading)
    if reading.failures and (others or ended_well(logs, reading.symptoms)):
        notes = [f"beside a job that ended well: {_reason(match)[:300]}" for match in reading.failures[:LINES]] + notes
    elif reading.symptoms:
        # Comparisons of ranks count more than a single rank's message; a launcher's reaction counts least.
        symptoms = sorted(reading.symptoms, key=lambda one: _says_less(one, known))
        candidates = _candidates(symptoms, known)
        notes = [*stale_restart_note(logs), *silent_note(logs, reading.noise), *absent_note(logs), *notes]
        notes = [*inconclusive_note(symptoms, candidates, aside_note(logs)), *notes]
        return LogJudgement("incomplete", (), candidates, tuple(notes), reading=reading)
    notes = [*teardown_note(logs, reading.noise), *notes]
    verdict, ended = no_failure_note(logs, reading.noise, reading.caught)
    return LogJudgement("warn" if others else verdict, (), (), (*ended, *notes), reading=reading)


def _of_earlier(logs: LogFacts, known: dict[str, Check]) -> list[str]:
    """Return a note on the end of the previous attempt, if there was one."""
    reading = read(replace(logs, sources=()), known) if logs.matches else SortedMatches()
    one = reading.root or next(iter(reading.symptoms), None)
    how = f"ended with {one.check}" if one is not None and one is reading.root else "failed"
    return [] if one is None else [f"an earlier try is not judged; it {how}: {_reason(one)[:300]}"]


# -- findings --------------------------------------------------------------------------------------------------------


def _finding(match: Match, reading: SortedMatches, known: dict[str, Check], because_of: str | None) -> Finding:
    check_id = match.check
    check = known[check_id]
    same = [other for other in reading.others if other.check == match.check and _alike(other, match)]
    group = [match, *same]
    own = [one for one in group if not one.has("of_peer")]
    shown = dict.fromkeys(_reason(one) for one in group)
    evidence = [*shown][:LINES]
    if len(shown) > LINES:
        evidence.append(f"and {len(shown) - LINES} more like these")
    if match.frame:
        evidence.append(f"raised at {match.frame}")
    evidence += [f"then raised: {one.text[:SHOWN]}" for one in reading.others if _follows(one, match)][:1]
    return Finding(
        summary=_summary(match, match.values.get("told", check.title)),
        title=match.values.get("told", check.title),
        nodes=_hosts(own),
        ranks=_ranks(own),
        local_ranks=_local_ranks(own),
        evidence=tuple(evidence),
        fixes=(_fix(match, check),) if because_of is None else (),
        severity="fail" if because_of is None or check.severity == "fail" else check.severity,
        check=check_id,
        id=check_id,
        because_of=because_of,
        restart=check.restart,
        docs_url=check.docs_url,
    )


def _follows(other: Match, match: Match) -> bool:
    """Return whether the same process raised ``other`` while it handled the exception ``match``."""
    same = other.source == match.source and other.who.speaker == match.who.speaker
    return same and bool(match.exception) and other.chained and 0 < other.line - match.line <= ACCOUNT


def _alike(other: Match, match: Match) -> bool:
    if not match.exception:
        return True
    return other.exception == match.exception and other.values.get("message") == match.values.get("message")


def _ranks(group: Sequence[Match]) -> tuple[int, ...]:
    ranks = {rank for one in group for rank in one.ranks}  # the rank that it names; its writer is another one
    return tuple(sorted(ranks or {one.who.rank for one in group if one.who.rank is not None}))[:MAX_FINDINGS]


def _hosts(group: Sequence[Match]) -> tuple[str, ...]:
    """Return the first-named host of each rank: a container has the name in its log, and one of its own.

    torchrun's lines about a local rank before its table belong to the process whose rank the table names.
    """
    of_rank: dict[object, str] = {}
    ranked = {(one.source, one.who.local_rank) for one in group if one.who.rank is not None and one.who.host}
    for one in group:
        again = one.who.rank is None and one.who.local_rank is not None and (one.source, one.who.local_rank) in ranked
        if one.who.host and not again:
            of_rank.setdefault(one.who.host if one.who.rank is None else one.who.rank, one.who.host)
    return tuple(dict.fromkeys(of_rank.values()))


def _local_ranks(group: Sequence[Match]) -> tuple[int, ...]:
    """Return the local ranks whose global rank no line names."""
    unknown = [one.who.local_rank for one in group if one.who.rank is None and not one.ranks]
    return tuple(sorted({number for number in unknown if number is not None}))[:MAX_FINDINGS]


def _reason(match: Match) -> str:
    who = f"rank {match.who.rank}: " if match.who.rank is not None else ""
    often = f" ({match.count} times)" if match.count > 1 else ""
    place = f"{match.source}:{note_line(match)}" if match.line else match.source
    said = match.values.get("said", "")
    more = f"; the last line of {match.values['library']}: {said}" if said and said not in match.text else ""
    return f"{place}: {who}{match.text}{often}{more}"


def _summary(match: Match, title: str) -> str:
    """Return who failed of what; with the line that shows it, where no exception says it."""
    who = _speaker_text(match) or ("a process" if match.exception else "")
    who = " on ".join(part for part in (who, match.who.host or "") if part)
    if match.exception:
        message = match.values.get("message", "")
        place = _file_line(match)
        said = f"{who[:1].upper()}{who[1:]} failed{f' at {place}' if place else ''} with {match.exception}"
        said = f"{said}{f': {message}' if message else ''}"[:400]
        return said.rstrip(".") + "."
    if inside := match.values.get("inside"):
        title = f"{title} inside {inside}"
    title, also = (title.partition(":")[0], f"; {match.why}") if _unexplained(match) else (title, "")
    return f"{title}{f' ({who})' if who else ''}: {shortened(match.text, SHOWN)}{also}".rstrip(".") + "."


def _speaker_text(match: Match) -> str:
    """Return the rank of a match, its local rank, or the process that failed; empty if none is known.

    The process number in the prefix of a host's log may be that of the launcher that wrote the line; beside an address
    it is a Ray task's own, and alone that of the process that raised the exception.
    """
    by_ray = bool(match.exception) and re.fullmatch(r"[\d.]*", match.who.host or "") is not None
    crashed = match.who.pid if "inside" in match.values or by_ray else None
    for name, number in (("rank", match.who.rank), ("local rank", match.who.local_rank), ("process", crashed)):
        if number is not None:
            return f"{name} {number}"
    return ""


def _file_line(match: Match) -> str:
    """Return the file without its folder and the line of an exception's innermost frame of the user's own code, else of
    any; empty if there is none."""
    frame = match.values.get("own_frame", match.frame)
    return frame.partition(" in ")[0].replace("\\", "/").rpartition("/")[2]


def _unexplained(match: Match) -> bool:
    """Return whether it reports the end of a process without a cause: other failures end one the same way."""
    return match.shows == "end" and bool(match.why)


def _fix(match: Match, check: Check) -> Fix:
    """Return the fix of the line, else of the page; if the line does not prove the cause, its confirmation comes
    first."""
    fix = _of_job(match.values.get("fix") or _named_fix(match) or first_fix(check), match)
    if advice := match.values.get("advice"):
        fix = f"{fix} The log advises: {advice}"
    if not _unexplained(match):
        return Fix(fix)
    following, command = check.next
    text = f"Confirm it first in {following}. If it was that, {fix[:1].lower()}{fix[1:]}"
    return Fix(text, commands=(command,) if command else ())


def _of_job(command: str, match: Match) -> str:
    """Return a command with the number of the job that the line names."""
    job = JOB_NUMBER.search(match.text)
    return command if job is None else command.replace("JOBID", job[1] or job[2])


_MODULE = re.compile(r"No module named '(?P<name>[\w.]{1,100})'")
_OF_NCCL = re.compile(r"p?nccl[A-Z]|nccl")


def _named_fix(match: Match) -> str:
    """Return a fix that names the failed line, the missing module or the crashed library; empty if none is known."""
    if inside := match.values.get("inside"):
        if _OF_NCCL.match(inside):
            return (
                "Install a newer NCCL (`pip install -U nvidia-nccl-cu12`). If it crashes again, start with "
                "`export NCCL_DEBUG=INFO`: the last call of that process is the one that fails."
            )
        return f"Update or rebuild the library that contains {inside}; the log has the frames of the crash."
    if not match.exception:
        return ""
    who = _speaker_text(match)
    if (module := _MODULE.search(match.text)) is not None:
        name, there = module["name"].partition(".")[0], f" on {match.who.host}" if match.who.host else ""
        return (
            f"Install the package with the module {name} in the job's environment{there}: `pip install {name}`. "
            f"Confirm with: `python -c 'import {name}'`{' there' if there else ''}."
        )
    place, kind = _file_line(match), match.exception.rpartition(".")[2]
    if not place:
        return f"Fix the {kind} at the line that its traceback names: `grep -n -B 40 {kind} LOGS`."
    return f"Fix the {kind} at {place} ({who or 'this process'} failed first)."


def first_fix(check: Check) -> str:
    """Return the first paragraph of the page's Fix."""
    found = re.search(r"(?ms)^Fix\n-{3,}\n(.+?)(?:\n\s*\n|\Z)", check.page)
    return " ".join(found[1].split()) if found else ""


def _consequences(reading: SortedMatches, root: Finding, known: dict[str, Check]) -> list[Finding]:
    """Return the consequences of the root: later causes, ends of processes, and the reactions of their peers."""
    found: dict[str, Finding] = {}
    for match in (*reading.others, *reading.symptoms):
        check_id = match.check
        if reading.root is not None and _is_part_of(match, reading.root, known):
            continue
        if match.shows == "hint" and reading.root is not None and match.source != reading.root.source:
            continue  # other logs show nothing of this
        if match.exception and match.has("caught"):
            continue  # a program goes on after it, so it follows from nothing
        if check_id != root.check and check_id not in found and check_id in known:
            found[check_id] = _finding(match, SortedMatches(others=reading.others), known, root.id)
    return [*found.values()]


def _is_part_of(match: Match, root: Match, known: dict[str, Check]) -> bool:
    """Return whether the match is part of ``root`` rather than a consequence: the same line, or the head of its
    traceback."""
    if match.source != root.source or match.shows not in ("symptom", "hint"):
        return False
    return match.line == root.line or (_says_little(match, known) and match.line < root.line)


# -- candidates ------------------------------------------------------------------------------------------------------


def _says_less(match: Match, known: dict[str, Check]) -> tuple[bool, ...]:
    """Return the sort key of symptoms, the most specific first."""
    return not match.compared, match.has("by_launcher", "outside"), _says_little(match, known), not match.ranks


def _says_little(match: Match, known: dict[str, Check]) -> bool:
    """Return whether it only shows that a program failed: its check is the one for all exceptions."""
    return match.check in known and any(line.shows == "exception" for line in known[match.check].log)


def _candidates(symptoms: Sequence[Match], known: dict[str, Check]) -> tuple[PossibleCause, ...]:
    """Return the likeliest causes of ``symptoms``, in the order of these: the most specific ones. Of those that say as
    much, those that more lines point to, then those that an exception names."""
    by_check: dict[str, list[Match]] = {}
    for match in symptoms:
        if match.check in known:
            by_check.setdefault(match.check, []).append(match)

    def likelihood(own: Sequence[Match]) -> tuple[object, ...]:
        return _says_less(own[0], known), -len(own), not any(map(is_raised, own))

    # A named rank says more than an unnamed one.
    own_lines = [sorted(own, key=lambda match: not match.ranks) for own in by_check.values()]
    each = sorted(sorted(own_lines, key=likelihood)[:CANDIDATES], key=own_lines.index)
    return tuple(_candidate(known[own[0].check], own[0]) for own in each)


HUNG = "The job hung until it was stopped"
HELD = "the calls in which its ranks wait, on one of its nodes, when it hangs again"


def _candidate(check: Check, match: Match) -> PossibleCause:
    why, against, (following, command) = _reason(match), match.why, check.next
    command = _of_job(command, match)
    if match.has("hung"):
        return PossibleCause(check.id, why, against, HELD, "distdoctor hang", HUNG)
    if advice := match.values.get("advice"):
        why = f"{why}; the log advises: {advice}"
    if match.ranks:
        named = ", ".join(map(str, match.ranks[:NAMED])) + (", ..." if len(match.ranks) > NAMED else "")
        following, command = f"the log of rank{'s' if len(match.ranks) > 1 else ''} {named}", ""
    elif peer := match.values.get("peer"):
        following, command = f"the logs of the ranks on {peer}", ""
    elif not following:
        following, command = (
            "the logs of all ranks, above all of the one that ended first",
            "distdoctor diagnose LOGS...",
        )
    return PossibleCause(check.id, why, against, following, command, check.title)


# Notes on logs: how logs without a failure end, silent or missing logs, files that were not read.


MAX_NAMED = 3
"""Most files of a kind that a note names."""
_NUMBERED = re.compile(r"(?i)(?<![a-z])(rank|node|host|worker|gpu|pod|n|gn)([._-]?)(0*)(\d{1,5})(?!\d)")
"""Number in a file's name that identifies its rank or host."""
DONE = "below it stands only the end of the job; the log does not show whether the job survived it"
CAUGHT = "the program caught it, and no other log reports a failure; the log does not show whether it went on"
_ERROR = re.compile(
    r"(?:^|[\[|(] ?|[ :-] ?)(?:FATAL|CRITICAL)\b(?! ?[=/\w])|\bCheck failed: |^(?i:fatal)(?: error)?[:!] "
)
"""Level at which a program cannot go on, or a failed check of a C++ program (glog)."""
SERIES = 3
"""Fewest files that differ by such a number before a missing one is reported."""


def no_failure_note(
    logs: LogFacts, past: Collection[Match] = (), caught: Sequence[Match] = ()
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict if no line shows a failure, and notes on logs that do not end with the end of the job.

    ``past``: lines that prove nothing; ``caught``: those of them that are not known to be survived.
    """
    read_ones = [source for source in logs.sources if source.lines and source.kind != "beside"]
    if not read_ones and not any(source.kind == "facts" for source in logs.sources):
        return "incomplete", _no_log_note(logs)
    unclear = [one for one in caught if one.has("caught") or not one.has("head")]
    named = {one.source for one in unclear}
    open_ones = [source for source in _unfinished(logs, read_ones, past) if source.name not in named]
    notes = [*_unclear_notes(unclear), *(f"no failure in {source.name}; {_end_of(source)}" for source in open_ones)]
    # Where the other stream of its process stops in mid-work, the caught error may have ended it.
    over_with = {process(source.name) for source in read_ones if source.done}
    fatal = any(one.has("caught") and process(one.source) not in over_with for one in unclear)
    unknown = fatal or any(_ERROR.search(source.last) for source in open_ones)
    # The failure may be in a file that could not be read.
    verdict: Verdict = "incomplete" if logs.notes or unknown else "warn" if notes else "pass"
    return verdict, tuple(notes[:MAX_NAMED])


def _unclear_notes(unclear: Iterable[Match]) -> list[str]:
    """Return a note on the first error that a program caught, and on the first below which only the end is reported."""
    first: dict[str, Match] = {}
    for one in unclear:
        first.setdefault(CAUGHT if one.has("caught") else DONE, one)
    return [
        f"{first[why].source}:{first[why].line}: {first[why].text[:200]}: {why}"
        for why in (CAUGHT, DONE)
        if why in first
    ]


def _no_log_note(logs: LogFacts) -> tuple[str, ...]:
    """Return a note if none of the files is a log of the job."""
    if others := [source.name for source in logs.sources if source.kind == "beside" and source.lines]:
        return (f"none of these files is a log of the job: {others[0]} is output of another tool",)
    return (f"{logs.sources[0].name} is empty",) if logs.sources else ()


def _unfinished(logs: LogFacts, read_ones: Sequence[LogSource], past: Collection[Match]) -> list[LogSource]:
    """Return the logs that should end with the end of the job, and do not.

    The log of a kernel never ends, and the older parts of a rotated log go on in the next.
    """
    names, over = {source.name for source in read_ones}, {match.order for match in past}
    failed = {one.source for one in logs.matches if one.shows not in ("noise", "hint") and one.order not in over}
    jobs = [source for source in read_ones if source.kind != "kernel" or source.name in failed]
    last = [source for source in jobs or read_ones if source.part_of not in names]
    is_only_beside = only_second_stream(last)
    return [source for source in last if not source.done and not is_only_beside(source)]


def teardown_note(logs: LogFacts, past: Collection[Match]) -> list[str]:
    """Return a note on the first line that ranks or libraries wrote after the job had reported its success."""
    success = {source.name: source.success for source in logs.sources if source.success}
    after = [one for one in past if one.shows != "noise" and one.line > success.get(one.source, one.line)]
    if not after:
        return []
    first, place = after[0], f"{after[0].source}:{success[after[0].source]}"
    return [f"after the job had succeeded ({place}): {_reason(first)[:300]}"]


def aside_note(logs: LogFacts) -> set[str]:
    """Return notes on lines outside the job's own logs: from a kernel, and from diagnostic tools."""
    return {source.name for source in logs.sources if source.kind in ("kernel", "beside")}


def silent_note(logs: LogFacts, survived: Collection[Match] = ()) -> list[str]:
    """Return a note on the few logs that end in mid-work, or with the end of the job, without the others' failure.

    Their writers may have ended first, or been killed from outside. ``survived`` lines do not count as a failure.
    """
    over = {match.order for match in survived}
    failed = [match for match in logs.matches if match.shows not in ("noise", "hint")]
    processes = {process(match.source) for match in failed if match.order not in over}
    quiet = _quiet(logs, processes)
    if len({process(one.name) for one in quiet}) > max(MAX_NAMED, len(processes)):
        return []
    went_on = {match.source: f"went on after {match.text[:200]}" for match in failed if match.order in over}
    return _first_of([f"{one.name} {went_on.get(one.name, 'shows no failure')}; {_end_of(one)}" for one in quiet])


def _quiet(logs: LogFacts, failed: Collection[str]) -> list[LogSource]:
    """Return the logs without a failure that show steps or the end of the job, and those of few silent ranks.

    Where only one rank prints steps, the others are silent until they fail. ``failed``: processes with a failure.
    """
    mute = [source for source in logs.sources if source.kind == "log" and process(source.name) not in failed]
    quiet = [source for source in mute if source.progress or source.done]
    ranks = [one for one in mute if one not in quiet and is_ranks(one)]
    named = {process(one.name) for one in ranks} - {process(one.name) for one in quiet}
    few = len(named) <= MAX_NAMED and len(named) + len(quiet) < len(failed)
    return [*quiet, *(one for one in ranks if few and process(one.name) in named)]


def absent_note(logs: LogFacts) -> list[str]:
    """Return a note on missing or empty logs, by the numbers of the others: a rank without a log may be the failed
    one."""
    series: dict[tuple[str, str], dict[int, re.Match[str]]] = {}
    for source in logs.sources:
        numbers = [*_NUMBERED.finditer(source.name)]
        if source.kind == "log" and numbers:
            last, name = numbers[-1], source.name
            key = name[: last.end(2)], process(name[last.end() :])
            series.setdefault(key, {})[int(last[4])] = last
    notes = []
    for (start, _), names in series.items():
        first = 0 if re.search(r"(?i)rank[._-]?$", start) else min(names)
        missing = [number for number in range(first, max(names)) if number not in names]
        if len(names) >= SERIES and 0 < len(missing) < len(names):
            widths = {len(name[0]) for name in names.values()}
            like = min(names.values(), key=lambda name: len(name[0]))
            digits = len(like[3] + like[4]) if len(widths) == 1 else 1
            shown = [f"{like[1]}{like[2]}{number:0{digits}d}" for number in missing[:MAX_NAMED]]
            more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
            notes.append(f"missing: {', '.join(shown)}{more}; get it too ({len(names)} logs like it are here)")
    return _first_of(notes)


def unread_note(logs: LogFacts) -> list[str]:
    """Return what was not read, and why."""
    told = {note.partition(": ")[0] for note in logs.notes}
    binary = [one.name for one in logs.sources if one.kind == "binary" and one.name not in told]
    return [*_first_of(logs.notes), *_first_of([f"{name}: not read: it is no text" for name in binary])]


def _end_of(source: LogSource) -> str:
    if source.kind == "flight-recorder":
        return "no rank differs from the others in it"
    if source.stopped:
        return f"its program ended because it was asked to (line {source.stopped})"
    if not source.last:
        return f"it ends at line {source.lines}; no line near its end says what the rank was doing"
    if source.done:
        return f"it ends with the end of the job: {source.last}"
    if _ERROR.search(source.last):
        return f"it ends at line {source.lines} with an error that no check knows: {source.last}"
    doing = "starting up" if source.starting else "doing"
    return f"it ends at line {source.lines}, last seen {doing}: {source.last}"


def _first_of(notes: Sequence[str]) -> list[str]:
    more = [f"and {len(notes) - MAX_NAMED} more files like this"] if len(notes) > MAX_NAMED + 1 else []
    return [*notes[: MAX_NAMED if more else None], *more]


def note_line(match: Match) -> int:
    """Return the line number in the file, which may have its newest line first."""
    return match.numbered or match.line


def inconclusive_note(
    symptoms: Sequence[Match], candidates: Sequence[PossibleCause], aside: Collection[str]
) -> list[str]:
    """Return a note with the first of ``symptoms``, none if a candidate has that line as its evidence.

    ``aside``: lines outside the job's own logs.
    """
    match = next((match for match in symptoms if not match.compared), symptoms[0])
    where = f"{match.source}:{note_line(match)}"
    if all(one.source in aside for one in symptoms):
        return [f"this may be why ({where}); no log of the job shows that it failed: {match.text[:200]}"]
    if any(f"{where}:" in one.why for one in candidates):
        return []
    return [f"this shows that the job failed ({where}), not why: {match.text[:200]}"]


# Lines outside the logs of a job that ended well: kernels and tools report other jobs, too.


def ended_well(logs: LogFacts, symptoms: Collection[Match]) -> bool:
    """Return whether all logs of the job end with its end, and none of them has a ``symptom``.

    Lines from a kernel or a tool then show no failure of this job, except for the scheduler's state of it.
    """
    aside = aside_note(logs)
    others = all(match.source in aside and not by_scheduler(match) for match in symptoms)
    return others and _all_end(logs)


def concerns_other_jobs(logs: LogFacts, failures: Collection[Match]) -> bool:
    """Return whether all ``failures`` are of other jobs' processes or pods, and all ranks reported the end of the job.

    The ranks would have missed a killed one. If no log is a rank's, a script may have reported the end whatever
    happened.
    """
    kernels = {source.name for source in logs.sources if source.kind == "kernel"}
    all_foreign = all(
        "pod" in match.values or (match.source in kernels and match.check.startswith("process/")) for match in failures
    )
    return all_foreign and any(is_ranks(source) for source in _own(logs)) and _all_end(logs)


def _all_end(logs: LogFacts) -> bool:
    own = [*_own(logs)]
    is_only_beside = only_second_stream(own)
    return any(source.done for source in own) and all(source.done or is_only_beside(source) for source in own)


def _own(logs: LogFacts) -> Iterable[LogSource]:
    return (source for source in logs.sources if source.kind == "log" and source.lines)


# Cause of the root in a kernel's log, some minutes before it.


MINUTES = 600
"""Seconds within which an adapter gives up a peer (NCCL_IB_TIMEOUT up to 22, NCCL_IB_RETRY_CNT 7: 17 s for each of 8
tries); two clocks differ by less."""


def with_cause(reading: SortedMatches, logs: LogFacts) -> SortedMatches:
    """Return ``reading`` with a kernel's message as its root, if it is the cause and came shortly before."""
    root = reading.root
    at = written_at(root) if root is not None else None
    if root is None or at is None:
        return reading
    past = {match.order for match in reading.noise}
    before = [one for one in logs.matches if one.values.get("ahead_of") == root.check and one.order not in past]
    cause = max((one for one in before if _lies_before(one, at)), key=lambda one: written_at(one) or 0.0, default=None)
    if cause is None:
        return reading
    symptoms = tuple(match for match in reading.symptoms if match is not cause)
    return replace(
        reading, root=replace(cause, shows="cause", why=""), others=(root, *reading.others), symptoms=symptoms
    )


def _lies_before(match: Match, at: float) -> bool:
    time = written_at(match)
    return time is not None and 0 <= at - time <= MINUTES

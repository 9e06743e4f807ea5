"""From what logs show to findings, candidates and a verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from distdoctor.judge import log_notes
from distdoctor.judge.beside_job import ended_well, is_of_others
from distdoctor.judge.catalog import Check
from distdoctor.judge.first_failure import Reading, read
from distdoctor.judge.full_disk import with_full_disk
from distdoctor.judge.log_jobs import by_job
from distdoctor.judge.log_tries import last_try, stale
from distdoctor.judge.minutes_before import with_cause
from distdoctor.model.facts.logs import LogFacts, Match
from distdoctor.model.findings import Candidate, Finding, Fix
from distdoctor.model.report import Verdict

LINES = 4
"""Lines of evidence of one finding."""
CANDIDATES = 5
MOST = 4096
"""Ranks of one finding."""
NAMED = 8
"""Ranks that a sentence names."""
WORST: tuple[Verdict, ...] = ("fail", "incomplete", "warn", "pass")


@dataclass(frozen=True)
class LogJudgement:
    """What the logs say."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[Finding, ...] = ()
    """What was set aside, as it was asked for."""
    reading: Reading = field(default_factory=Reading)
    """All lines that are known, by what they prove."""


def judge_logs(logs: LogFacts, checks: Sequence[Check], ignore: Iterable[str] = ()) -> LogJudgement:
    """The root cause where a line proves one, what followed from it, else what it may be; of each job where the logs
    are those of several.

    What the lines of checks show whose ids are in ``ignore`` (ids or patterns) is set aside and listed apart.
    """
    known, patterns = {check.id: check for check in checks}, tuple(ignore)
    aside = {one for one in known if any(fnmatchcase(one, pattern) for pattern in patterns)}
    judged = {number: _judged_but(part, known, aside) for number, part in by_job(logs).items()}
    return _joined(judged) if len(judged) > 1 else judged[""]


def _judged_but(logs: LogFacts, known: dict[str, Check], aside: set[str]) -> LogJudgement:
    """What the logs of one job show, but for the checks of ``aside``."""
    left, out = (
        replace(logs, matches=tuple(match for match in logs.matches if (match.check in aside) is ignored))
        for ignored in (False, True)
    )
    return replace(_judged(left, known), ignored=_set_aside(out, known))


def _joined(judged: Mapping[str, LogJudgement]) -> LogJudgement:
    """What is said of each job, as one."""
    parts, findings, known = list(judged.values()), list[Finding](), set[str]()
    for number, part in judged.items():
        ids = {one.id: one.id if one.id not in known else f"{one.id}@{number}" for one in part.findings}
        known.update(ids.values())
        findings += [
            replace(one, id=ids[one.id], because_of=ids.get(one.because_of or "", one.because_of))
            for one in part.findings
        ]
    readings = [part.reading for part in parts]
    roots = [reading.root for reading in readings if reading.root is not None]
    return replace(
        parts[0],
        verdict=min((part.verdict for part in parts), key=WORST.index),
        findings=tuple(findings),
        candidates=tuple(one for part in parts for one in part.candidates),
        notes=(
            f"logs of {len(parts)} jobs ({', '.join(judged)}), each judged by itself",
            *(note for part in parts for note in part.notes),
        ),
        ignored=tuple(one for part in parts for one in part.ignored),
        reading=Reading(
            roots[0] if roots else None,
            (*roots[1:], *(one for reading in readings for one in reading.others)),
            tuple(one for reading in readings for one in reading.symptoms),
            tuple(one for reading in readings for one in reading.noise),
        ),
    )


def _set_aside(logs: LogFacts, known: dict[str, Check]) -> tuple[Finding, ...]:
    """What these lines would have been found to be, each by itself."""
    reading = read(logs, known)
    first: dict[str, Match] = {}
    for match in (*([reading.root] if reading.root is not None else []), *reading.others):
        first.setdefault(match.check, match)
    return tuple(_finding(match, reading, known, None) for match in first.values())


def _judged(every: LogFacts, known: dict[str, Check]) -> LogJudgement:
    logs, earlier = last_try(every)
    reading = with_full_disk(with_cause(read(logs, known), logs), logs)
    reading = replace(reading, noise=(*reading.noise, *earlier))
    notes = [*_of_earlier(replace(logs, matches=earlier), known), *log_notes.unread(logs)]
    others = reading.root is not None and is_of_others(logs, reading.failures)
    if reading.root is not None and not others:
        root = _finding(reading.root, reading, known, None)
        rest = _consequences(reading, root, known)
        return LogJudgement("fail", (root, *rest), (), tuple(notes), reading=reading)
    if reading.failures and (others or ended_well(logs, reading.symptoms)):
        notes = [f"beside a job that ended well: {_told(match)[:300]}" for match in reading.failures[:LINES]] + notes
    elif reading.symptoms:
        # What ranks say together says more than what one of them does.
        # What a launcher then did says the least.
        symptoms = sorted(reading.symptoms, key=lambda one: _says_less(one, known))
        candidates = _candidates(symptoms, known)
        notes = [*stale(logs), *log_notes.silent(logs, reading.noise), *log_notes.absent(logs), *notes]
        notes.insert(0, log_notes.cannot_tell(symptoms, log_notes.aside(logs)))
        return LogJudgement("incomplete", (), candidates, tuple(notes), reading=reading)
    verdict, ended = log_notes.without_failure(logs, reading.noise, reading.caught)
    return LogJudgement("warn" if others else verdict, (), (), (*ended, *notes), reading=reading)


def _of_earlier(logs: LogFacts, known: dict[str, Check]) -> list[str]:
    """What ended the try before the last one, where there was one."""
    reading = read(replace(logs, sources=()), known)
    one = reading.root or next(iter(reading.symptoms), None)
    how = f"ended with {one.check}" if one is not None and one is reading.root else "failed"
    return [] if one is None else [f"an earlier try is not judged; it {how}: {_told(one)[:300]}"]


# -- findings --------------------------------------------------------------------------------------------------------


def _finding(match: Match, reading: Reading, known: dict[str, Check], because_of: str | None) -> Finding:
    check_id = match.check
    check = known[check_id]
    same = [other for other in reading.others if other.check == match.check and _alike(other, match)]
    group = [match, *same]
    whose = [one for one in group if "of_peer" not in one.values]
    shown = dict.fromkeys(_told(one) for one in group)
    evidence = [*shown][:LINES]
    if len(shown) > LINES:
        evidence.append(f"and {len(shown) - LINES} more like these")
    if match.frame:
        evidence.append(f"raised at {match.frame}")
    return Finding(
        summary=_summary(match),
        title=match.values.get("told", check.title),
        nodes=_hosts(whose),
        ranks=_ranks(whose),
        local_ranks=_local_ranks(whose),
        evidence=tuple(evidence),
        fixes=(_fix(match, check),) if because_of is None else (),
        severity="fail" if because_of is None or check.severity == "fail" else check.severity,
        check=check_id,
        id=check_id,
        because_of=because_of,
        restart=check.restart,
    )


def _alike(other: Match, match: Match) -> bool:
    if not match.exception:
        return True
    return other.exception == match.exception and other.values.get("message") == match.values.get("message")


def _ranks(group: Sequence[Match]) -> tuple[int, ...]:
    told = {rank for one in group for rank in one.ranks}  # whom it names; who says so is another
    return tuple(sorted(told or {one.who.rank for one in group if one.who.rank is not None}))[:MOST]


def _hosts(group: Sequence[Match]) -> tuple[str, ...]:
    """Of each rank the host that is told first: a container has the name that its log has, and one of its own. What
    torchrun says of a local rank before its table tells the rank of it is of the same process."""
    of_rank: dict[object, str] = {}
    ranked = {(one.source, one.who.local_rank) for one in group if one.who.rank is not None and one.who.host}
    for one in group:
        again = one.who.rank is None and one.who.local_rank is not None and (one.source, one.who.local_rank) in ranked
        if one.who.host and not again:
            of_rank.setdefault(one.who.host if one.who.rank is None else one.who.rank, one.who.host)
    return tuple(dict.fromkeys(of_rank.values()))


def _local_ranks(group: Sequence[Match]) -> tuple[int, ...]:
    """Of those of which no line tells which ranks they are."""
    unknown = [one.who.local_rank for one in group if one.who.rank is None and not one.ranks]
    return tuple(sorted({number for number in unknown if number is not None}))[:MOST]


def _told(match: Match) -> str:
    who = f"rank {match.who.rank}: " if match.who.rank is not None else ""
    often = f" ({match.count} times)" if match.count > 1 else ""
    place = f"{match.source}:{log_notes.line_of(match)}" if match.line else match.source
    return f"{place}: {who}{match.text}{often}"


def _summary(match: Match) -> str:
    who = f" on {match.who.host}" if match.who.host else ""
    rank = f" of rank {match.who.rank}" if match.who.rank is not None else ""
    if not rank and match.who.local_rank is not None:
        rank = f" of local rank {match.who.local_rank}"
    if match.exception:
        message = match.values.get("message", "")
        return (
            f"The process{rank}{who} ended with {match.exception}{f': {message}' if message else ''}"[:400].rstrip(".")
            + "."
        )
    place = f"{match.source}, line {log_notes.line_of(match)}," if match.line else match.source
    also = f"; {match.why}" if _unexplained(match) else ""
    return f"{place} shows it{f', in the log{rank}{who}' if rank or who else ''}{also}."


def _unexplained(match: Match) -> bool:
    """Whether it tells how a process ended, and that other things end one so, too."""
    return match.shows == "end" and bool(match.why)


def _fix(match: Match, check: Check) -> Fix:
    """The line's own, else the page's; where it does not show that it was this, first how to see whether it was."""
    fix = match.values.get("fix") or first_fix(check)
    if not _unexplained(match):
        return Fix(fix)
    following, command = check.next
    text = f"Look first whether it was that, in {following}; where it was, {fix[:1].lower()}{fix[1:]}"
    return Fix(text, commands=(command,) if command else ())


def first_fix(check: Check) -> str:
    """The first paragraph of the page's Fix."""
    found = re.search(r"(?ms)^Fix\n-{3,}\n(.+?)(?:\n\s*\n|\Z)", check.page)
    return " ".join(found[1].split()) if found else ""


def _consequences(reading: Reading, root: Finding, known: dict[str, Check]) -> list[Finding]:
    """What follows from the root: other causes after it, how processes ended, and what their peers then said."""
    found: dict[str, Finding] = {}
    for match in (*reading.others, *reading.symptoms):
        check_id = match.check
        if reading.root is not None and _is_part_of(match, reading.root, known):
            continue
        if match.shows == "hint" and reading.root is not None and match.source != reading.root.source:
            continue  # what another log has shows nothing of this
        if match.exception and "caught" in match.values:
            continue  # what a program goes on after, follows from nothing
        if check_id != root.check and check_id not in found and check_id in known:
            found[check_id] = _finding(match, Reading(others=reading.others), known, root.id)
    return [*found.values()]


def _is_part_of(match: Match, root: Match, known: dict[str, Check]) -> bool:
    """Whether it is no consequence of ``root``: what else its line may be, the head of the traceback that it ends."""
    if match.source != root.source or match.shows not in ("symptom", "hint"):
        return False
    return match.line == root.line or (_says_little(match, known) and match.line < root.line)


# -- candidates ------------------------------------------------------------------------------------------------------


def _says_less(match: Match, known: dict[str, Check]) -> tuple[bool, ...]:
    """What orders symptoms, those first that say most."""
    return not match.compared, "by_launcher" in match.values, _says_little(match, known)


def _says_little(match: Match, known: dict[str, Check]) -> bool:
    """Whether it only says that a program failed somehow: its check is the one of all exceptions."""
    return match.check in known and any(line.shows == "exception" for line in known[match.check].log)


def _candidates(symptoms: Sequence[Match], known: dict[str, Check]) -> tuple[Candidate, ...]:
    first: dict[str, Match] = {}
    for match in symptoms:
        known_one = first.setdefault(match.check, match)
        if match.ranks and not known_one.ranks:
            first[match.check] = match  # who it is says more than that somebody is
    return tuple(_candidate(known[check], match) for check, match in first.items() if check in known)[:CANDIDATES]


def _candidate(check: Check, match: Match) -> Candidate:
    why, against, (following, command) = _told(match), match.why, check.next
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
    return Candidate(check.id, why, against, following, command)

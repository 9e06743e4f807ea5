"""What a report on a job that runs now says that one on ``check`` does not: what it does, and where each rank is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.stages import LOG_STAGES
from distdoctor.model.text import clean, duration_text
from distdoctor.render.page import STYLES, Page
from distdoctor.render.style import Style
from distdoctor.render.words import count, fold, ranks

ROWS = 12
"""Rows of the table without ``-v``."""
_HANG_TEXTS = {
    "hangs": "the job hangs",
    "moves": "the job moves",
    "waits": "the job waits, and may go on",
    "pauses": "its ranks pause: look again in some seconds",
    "computes": "the ranks compute, or wait for their GPUs, and whether that ends cannot be known from here",
    "starts": "the job is starting",
    "outside": "only its store was looked at: who is there, not what they do",
    "unknown": "nothing moves here, and why cannot be known from here",
}
_HANG_VERDICTS = {
    "hangs": "HANGS",
    "moves": "MOVES",
    "waits": "WAITS",
    "pauses": "WAITS",
    "computes": "CANNOT TELL",
    "starts": "STARTS",
    "outside": "CANNOT TELL",
    "unknown": "CANNOT TELL",
}


def is_on_job(report: Report) -> bool:
    """Return whether it is on a job that runs."""
    return "job" in report.details


def hang_verdict(report: Report) -> str:
    """The verdict in one or two words."""
    return _HANG_VERDICTS.get(report.details["job"].get("state"), report.verdict.upper())


def write_hang_head(page: Page, report: Report, dot: str) -> None:
    """Which job it is, and what it does."""
    job, plan = report.details["job"], report.plan
    parts = [f"distdoctor {clean(report.distdoctor)}", f"job {clean(job.get('id') or '?')}"]
    if job.get("world_size"):
        parts.append(count(job["world_size"], "rank"))
    if job.get("launcher"):
        parts.append(_LAUNCHERS.get(job["launcher"], clean(job["launcher"])))
    if plan.get("master_addr"):
        parts.append(f"master {clean(plan['master_addr'])}:{plan.get('master_port')}")
    if report.torch:
        parts.append(f"torch {clean(report.torch)}")
    page.prose((dot.join(parts), "bold"), hang=2)
    waited = job.get("waited") if job.get("state") in _HELD else None
    since = f"; ranks wait for {duration_text(waited)} at least" if waited and waited >= 1.0 else ""
    late = next(not_joined(report), None) if job.get("state") == "waits" else None
    said = f"{clean(late.title[:1].lower() + late.title[1:])}, and may still" if late else ""
    said = said or _HANG_TEXTS.get(job.get("state"), "see below")
    page.prose((f"{hang_verdict(report)}: ", STYLES[report.verdict]), said, since, hang=2)


def not_joined(report: Report) -> Iterator[Finding]:
    """The findings on nodes or ranks that have not joined."""
    return (finding for finding in report.findings if finding.title.endswith(" have not joined the job"))


_HELD = ("hangs", "waits", "computes", "unknown")
"""States of which one asks since when."""
_LAUNCHERS = {"env": "by variables", "fork": "forked", "ray": "Ray"}


def write_job_table(page: Page, report: Report, verbose: int) -> None:
    """Where the ranks are, those at the same place together, the odd ones first."""
    rows = [job_row(group) for group in report.details["job"].get("groups") or ()]
    if not rows:
        return
    page.blank()
    shown = rows if verbose else rows[:ROWS]
    who, where = (max(len(one[column]) for one in shown) for column in (0, 1))
    for ranks_of, nodes, place in shown:
        page.line(f"  {ranks_of:<{who}}  {nodes:<{where}}  {place}".rstrip())
    if len(shown) < len(rows):
        page.line((f"  and {count(len(rows) - len(shown), 'row')} more: -v", "dim"))
    if verbose:
        _write_stacks(page, report.details["job"])


def job_row(group: dict[str, Any]) -> tuple[str, str, str]:
    """Return which ranks, on which nodes, and where they are."""
    numbers, pids = group.get("ranks") or [], group.get("pids") or []
    who = ranks(numbers) if numbers else f"pid {' '.join(map(str, pids[:6]))}"
    moves = "" if group.get("moves") is None else "moves" if group["moves"] else "does not move"
    return who, fold(group.get("nodes") or ["?"]), f"{clean(group.get('place') or '')}{f'; {moves}' if moves else ''}"


def _write_stacks(page: Page, job: dict[str, Any]) -> None:
    for one in job.get("processes") or ():
        rank = f"rank {one['rank']}" if one.get("rank") is not None else clean(one.get("role") or "")
        page.blank()
        call = clean(one.get("call") or one.get("waits_in") or "no system call")
        head = f"{clean(one.get('node') or '')}: {rank}, pid {one.get('pid')}, state {clean(one.get('state') or '')}"
        page.line((f"{head}, in {call}; {one.get('cpu')} s of processor time meanwhile", "dim"))
        for frame in one.get("stack") or [one.get("no_stack") or "no stack"]:
            page.line((f"    {clean(frame)}", "dim"))


def _all_seen(report: Report) -> bool:
    """Return whether each of the job's ranks was looked at."""
    job = report.details["job"]
    seen = {number for group in job.get("groups") or () if group.get("pids") for number in group.get("ranks") or ()}
    return bool(job.get("world_size")) and len(seen) >= job["world_size"]


def hang_next_step(report: Report, style: Style) -> tuple[str, list[str]]:
    """The one thing to do now, and the line for it."""
    program, state = style.program, report.details["job"].get("state")
    again = shlex.join([*program.split(), "hang"])
    roots = [finding for finding in report.findings if finding.because_of is None]
    if state == "hangs" and roots:
        fixes = [fix for fix in roots[0].fixes if fix.commands]
        if fixes:
            return f"on {fold(fixes[0].nodes)}" if fixes[0].nodes else "run", list(fixes[0].commands)
        return "do what is said above; the job goes on, or has to be started again", []
    if state == "outside":
        return "look on its nodes", [again]
    if state == "unknown" and _all_seen(report):
        return "see the stack of each rank, and what it waits for at its line", [f"{again} -v"]
    if state == "unknown":
        text = "look on the other nodes, too; save each (--save DIR/) and diagnose them together"
        names = [node.name for node in report.nodes]
        if len(names) > 1:
            return f"{text}; or from here over ssh", [f"{again} --hosts {shlex.quote(fold(names).replace(', ', ','))}"]
        return text, [f"{again} --save DIR/"]
    if state == "waits" and any(not_joined(report)):
        return "start what has not joined, as said above; then look again", [again]
    return "look again where it lasts", [again]


# What a report on logs says that one on facts does not: what was read, what it may be, what to get next.


_LOG_TEXTS = {
    "fail": "the logs show how the job failed",
    "incomplete": "the logs do not show why",
    "warn": "no failure in this",
    "pass": "no failure in this; the job ended",
}
_LOG_VERDICTS = {"warn": "NO FAILURE SEEN", "incomplete": "CANNOT TELL"}


def is_on_logs(report: Report) -> bool:
    """Return whether it is on logs alone, without a plan to talk of."""
    return not report.plan and "logs" in report.details


def _hosts_out_of_reach(report: Report) -> bool:
    """Return whether all that is found is about hosts whose logs did not come."""
    return all(one.check.startswith(f"{LOG_STAGES[0]}/") for one in report.findings)


def log_verdict(report: Report) -> str:
    """The verdict in one or two words."""
    if report.verdict == "pass":
        return "NO FAILURE SEEN"
    return _LOG_VERDICTS.get(report.verdict, report.verdict.upper())


def write_log_head(page: Page, report: Report, dot: str) -> None:
    """What was read, and what came of it."""
    logs = report.details["logs"]
    lines = sum(source.get("lines", 0) for source in logs.values())
    parts = [f"distdoctor {clean(report.distdoctor)}", count(len(logs), "file"), count(lines, "line")]
    page.prose((dot.join(parts), "bold"), hang=2)
    said = _LOG_TEXTS[report.verdict]
    if report.verdict == "incomplete" and not report.candidates:
        judged = report.findings and not _hosts_out_of_reach(report)
        said = "the logs show who is missing, not why" if judged else "not everything could be looked at"
    page.prose((f"{log_verdict(report)}: ", STYLES[report.verdict]), said, hang=2)


def write_candidates(page: Page, report: Report, program: str) -> None:
    """What it may be, likeliest first."""
    for number, one in enumerate(report.candidates):
        page.blank()
        page.prose((f"? {'it may be' if number == 0 else 'or'} ", "yellow"), (clean(one.check), "bold"), hang=2)
        page.prose(("  for it: ", "dim"), clean(one.why), hang=10)
        if one.against:
            page.prose(("  against: ", "dim"), clean(one.against), hang=11)
        page.prose(("  get next: ", "dim"), clean(one.next), hang=12)
        if one.command:
            page.line((f"      {clean(one.command)}", "bold"))
    if report.candidates:
        page.line(("  more: ", "dim"), f"{program} explain {clean(report.candidates[0].check)}")


def write_lines(page: Page, report: Report) -> None:
    """What ``-v`` adds: what NCCL said of itself, and every line that is known with what it proves."""
    settings, lines = report.details.get("settings") or {}, report.details.get("lines") or []
    if settings:
        page.blank()
        page.line(("settings, as the logs tell them", "dim"))
        for name, value in settings.items():
            page.prose((f"  {clean(name)}: {clean(value)}", "dim"), hang=4)
    if lines:
        page.blank()
        page.line(("lines that are known", "dim"))
    for (file, number, shows), group in groupby(lines, key=lambda line: (line["file"], line["line"], line["shows"])):
        same = [*group]
        one, checks = same[0], ", ".join(dict.fromkeys(line["check"] for line in same))
        who = f"rank {one['rank']}: " if one["rank"] is not None else f"{one['host']}: " if one["host"] else ""
        often = f" ({one['count']} times)" if one["count"] > 1 else ""
        page.prose((f"  {file}:{number}: {shows}, {checks}: {who}{one['text']}{often}", "dim"), hang=4)
        for why in dict.fromkeys(line["why"] for line in same if line["why"]):
            page.prose((f"    {'why' if shows == 'noise' else 'but'}: {why}", "dim"), hang=6)


def log_next_step(report: Report, program: str) -> tuple[str, list[str]]:
    """The one thing to do now, and the line for it."""
    roots = [finding for finding in report.findings if finding.because_of is None]
    if report.verdict == "fail" and roots:
        again = {
            "no": "starting again as it was will not help",
            "yes": "starting again as it was may help",
            "other-nodes": "starting again on other nodes may help",
        }
        return f"apply the fix above; {again.get(roots[0].restart, again['no'])}", []
    if report.candidates:
        first = report.candidates[0]
        words = f"get {first.next}, and diagnose all of it together"
        return words, [first.command or shlex.join([*program.split(), "diagnose", "LOGS..."])]
    if roots and _hosts_out_of_reach(report):
        return "apply the fix above, then diagnose all of it again", []
    if report.verdict == "incomplete":
        return "diagnose the logs of all ranks and nodes together", [
            shlex.join([*program.split(), "diagnose", "LOGS..."])
        ]
    return "nothing to mend is seen here; if the job hangs, look at it while it does", []

"""Parts of reports on running jobs and on logs: the answer in one line, places of ranks, candidates."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from distdoctor.model.addresses import endpoint
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.stages import COLLECTIVE, LOG_STAGES
from distdoctor.model.text import clean, duration_text
from distdoctor.render.fixes import INDENT, LABEL, label
from distdoctor.render.page import Page
from distdoctor.render.style import Style
from distdoctor.render.words import count, fold, inside, ranks

ROWS = 12
"""Rows of the table without ``-v``."""
_HANG_TEXTS = {
    "hangs": "the job makes no progress",
    "moves": "the job makes progress",
    "waits": "ranks wait for others that may still come",
    "pauses": "ranks pause; run it again in some seconds",
    "computes": "ranks compute or wait for their GPUs; which of the two is unknown",
    "starts": "the job is starting",
    "outside": "only the job's store was read; run it on the job's nodes",
    "unknown": "no rank makes progress, and the cause is not visible from this node",
}
"""By the state of a job, where the report has no reason."""
_HANG_VERDICTS = {
    "hangs": "HANG",
    "moves": "RUNNING",
    "waits": "WAITING",
    "pauses": "WAITING",
    "computes": "INCONCLUSIVE",
    "starts": "RUNNING",
    "outside": "INCONCLUSIVE",
    "unknown": "INCONCLUSIVE",
}


def is_on_job(report: Report) -> bool:
    """Return whether it is on a job that runs."""
    return "job" in report.details


def hang_verdict(report: Report) -> str:
    """The verdict in one word."""
    return _HANG_VERDICTS.get(report.details["job"].get("state"), report.verdict.upper())


def explained(report: Report) -> bool:
    """Return whether a finding is the reason of the job's state."""
    return report.details["job"].get("state") in ("hangs", "waits")


def hang_answer(report: Report) -> str:
    """Return the state of the job, where no finding says it."""
    job = report.details["job"]
    return clean(job.get("reason") or "") or _HANG_TEXTS.get(job.get("state"), "the state of the job is unknown")


def job_line(report: Report) -> str:
    """Write the line that identifies the job, and how long its ranks have waited."""
    job, plan = report.details["job"], report.plan
    parts = [f"job {clean(job.get('id') or '?')}"]
    if job.get("world_size"):
        parts.append(count(job["world_size"], "rank"))
    if job.get("launcher"):
        parts.append(_LAUNCHERS.get(job["launcher"], clean(job["launcher"])))
    if plan.get("master_addr"):
        parts.append(f"master {endpoint(clean(plan['master_addr']), plan.get('master_port') or 0)}")
    if report.torch:
        parts.append(f"torch {clean(report.torch)}")
    waited = job.get("waited") if job.get("state") in _HELD else None
    if waited and waited >= 1.0:
        parts.append(f"ranks have waited for at least {duration_text(waited)}")
    return ", ".join([*parts, f"distdoctor {clean(report.distdoctor)}"])


def not_joined(report: Report) -> Iterator[Finding]:
    """The findings on nodes or ranks that have not joined."""
    return (finding for finding in report.findings if finding.title.endswith(" have not joined the job"))


_HELD = ("hangs", "waits", "computes", "unknown")
"""States of which one asks since when."""
_LAUNCHERS = {"env": "by variables", "fork": "forked", "ray": "Ray"}


def write_job_table(page: Page, report: Report, verbose: int) -> None:
    """Write the places of the ranks, those at the same place together, the fewest first."""
    rows = [job_row(group) for group in report.details["job"].get("groups") or ()]
    if not rows:
        return
    page.blank()
    shown = rows if verbose else rows[:ROWS]
    who, where = (max(len(row[column]) for row in shown) for column in (0, 1))
    for ranks_of, nodes, place in shown:
        page.prose(f"  {ranks_of:<{who}}  {nodes:<{where}}  {place}".rstrip(), hang=who + where + 6)
    if len(shown) < len(rows):
        page.line((f"  and {count(len(rows) - len(shown), 'row')} more: -v", "dim"))
    if verbose:
        _write_groups(page, report.details["job"])
        _write_stacks(page, report.details["job"])


def job_row(group: dict[str, Any]) -> tuple[str, str, str]:
    """Return which ranks, on which nodes, and where they are."""
    numbers, pids = group.get("ranks") or [], group.get("pids") or []
    who = ranks(numbers) if numbers else f"pid {' '.join(map(str, pids[:6]))}"
    moves = "" if group.get("moves") is None else "makes progress" if group["moves"] else "makes no progress"
    return who, fold(group.get("nodes") or ["?"]), f"{clean(group.get('place') or '')}{f'; {moves}' if moves else ''}"


def _write_groups(page: Page, job: dict[str, Any]) -> None:
    """Write each store with the process that serves it, and the groups in it with their members."""
    titles = {one.get("pid"): clean(one.get("title") or one.get("role") or "") for one in job.get("processes") or ()}
    for store in job.get("stores") or ():
        place, pid = f"{clean(store.get('host') or '')}:{store.get('port')}", store.get("served_by")
        by = f", served by pid {pid} ({titles.get(pid, '')})" if pid is not None else ""
        page.blank()
        page.line((f"store {place}{by}", "dim"))
        for group in job.get("process_groups") or ():
            if clean(group.get("store") or "") == place:
                page.line((f"    {_group_text(group)}", "dim"))


def _group_text(group: dict[str, Any]) -> str:
    members = group.get("members") or []
    numbers = [one["rank"] for one in members if one.get("rank") is not None]
    others = [f"pid {one['pid']} ({clean(one.get('title') or '')})" for one in members
              if one.get("rank") is None and one.get("pid") is not None]  # fmt: skip
    away = len(members) - len(numbers) - len(others)
    parts = [ranks(numbers) if numbers else "", *others[:8], f"{away} elsewhere" if away else ""]
    size = f", {count(group['size'], 'member')}" if group.get("size") else ""
    made = f", {count(group['communicators'], 'NCCL communicator')}" if group.get("communicators") else ""
    who = ", ".join(filter(None, parts))
    return f"group {clean(group.get('name') or '')} ({clean(group.get('device') or '')}{size}{made})" + (
        f": {who}" if who else ""
    )


def _write_stacks(page: Page, job: dict[str, Any]) -> None:
    for process in job.get("processes") or ():
        rank = f"rank {process['rank']}" if process.get("rank") is not None else clean(process.get("role") or "")
        page.blank()
        call = clean(process.get("call") or process.get("waits_in") or "no system call")
        node, state = clean(process.get("node") or ""), clean(process.get("state") or "")
        head = f"{node}: {rank}, pid {process.get('pid')}, state {state}"
        page.line((f"{head}, in {call}; {process.get('cpu')} s of CPU time meanwhile", "dim"))
        for frame in process.get("stack") or [process.get("no_stack") or "no stack"]:
            page.line((f"    {clean(frame)}", "dim"))


def _all_seen(report: Report) -> bool:
    """Return whether each of the job's ranks was looked at."""
    job = report.details["job"]
    seen = {number for group in job.get("groups") or () if group.get("pids") for number in group.get("ranks") or ()}
    return bool(job.get("world_size")) and len(seen) >= job["world_size"]


def hang_next_step(report: Report, style: Style) -> tuple[str, list[str]]:
    program, state = style.program, report.details["job"].get("state")
    again = shlex.join([*program.split(), "hang"])
    roots = [finding for finding in report.findings if finding.because_of is None]
    in_the_code = bool(roots) and roots[0].check.startswith(f"{COLLECTIVE.name}/")
    if state == "hangs" and roots:
        fixes = [fix for fix in roots[0].fixes if fix.commands]
        if fixes:
            return f"on {fold(fixes[0].nodes)}" if fixes[0].nodes else "run", list(fixes[0].commands)
        if in_the_code:
            return "stop the job, apply the fix above, and start it again", []
        return "apply the fix above; if the job then makes no progress, restart it", []
    if state == "outside":
        return "run this on the job's nodes", [again]
    if state == "unknown" and _all_seen(report):
        return "print the stack of each rank, and what it waits for", [f"{again} -v"]
    if state == "unknown":
        names = [node.name for node in report.nodes]
        if len(names) > 1:
            return "look at all nodes of the job at once", [
                f"{again} --hosts {shlex.quote(fold(names).replace(', ', ','))}"
            ]
        return "run this on every node of the job, then diagnose the saved files together", [f"{again} --save DIR/"]
    if state == "waits" and any(not_joined(report)):
        return "start what has not joined (see the fix), then run this again", [again]
    if state in ("moves", "starts"):
        return "if it stops making progress, run this again", [again]
    if state == "computes":
        return "watch it for a minute", [f"{again} --watch 60"]
    return "if this lasts, watch it for a minute", [f"{again} --watch 60"]


# What only a report on logs prints: what was read, what the cause may be, what to get next.


_LOG_VERDICTS = {"pass": "NO FAILURE FOUND", "warn": "NO FAILURE FOUND", "incomplete": "INCONCLUSIVE"}


def is_on_logs(report: Report) -> bool:
    """Return whether it is on logs alone, without a plan to talk of."""
    return not report.plan and "logs" in report.details


def _hosts_out_of_reach(report: Report) -> bool:
    """Return whether all findings are about hosts whose logs were not fetched."""
    return all(finding.check.startswith(f"{LOG_STAGES[0]}/") for finding in report.findings)


def log_verdict(report: Report) -> str:
    """The verdict in one or two words."""
    return _LOG_VERDICTS.get(report.verdict, report.verdict.upper())


def log_answer(report: Report) -> str:
    """Return the answer of the logs if no finding has it."""
    if report.candidates:
        likeliest, *others = report.candidates
        more = f" (or {count(len(others), 'other cause')})" if others else ""
        return f"the logs do not prove the cause; most likely {inside(clean(likeliest.title or likeliest.check))}{more}"
    if report.verdict == "incomplete":
        return "the logs end before a cause shows"
    ended = "; the job ended normally" if report.verdict == "pass" else ""
    return f"in {logs_read(report)}{ended}"


def logs_read(report: Report) -> str:
    """``2 files (310 lines)``."""
    logs = report.details["logs"]
    lines = sum(source.get("lines", 0) for source in logs.values())
    return f"{count(len(logs), 'file')} ({count(lines, 'line')})"


def logs_line(report: Report) -> str:
    """Return the number of logs and lines read, and the version that read them."""
    read = "" if report.verdict in ("pass", "warn") else f"{logs_read(report)}, "
    return f"{read}distdoctor {clean(report.distdoctor)}"


def write_candidates(page: Page, report: Report, style: Style) -> None:
    """Write the possible causes, likeliest first, each line of a log once."""
    shown = set[str]()
    for number, candidate in enumerate(report.candidates):
        page.blank()
        name = f"  [{clean(candidate.check)}]" if candidate.title else ""
        head = ("likely  " if number == 0 else "or      ", "yellow")
        page.prose(head, (clean(candidate.title or candidate.check), "bold"), name, hang=8)
        page.prose(label("evidence"), "the same line" if candidate.why in shown else clean(candidate.why), hang=LABEL)
        shown.add(candidate.why)
        if candidate.against:
            page.prose(label("unproven"), clean(candidate.against), hang=LABEL)
        page.prose(label("get"), clean(candidate.next), hang=LABEL)
        if candidate.command:
            page.line((INDENT + clean(candidate.command), "bold"))
        page.line(label("details"), style.explain(clean(candidate.check)))


def write_lines(page: Page, report: Report) -> None:
    """Write what ``-v`` adds: NCCL's versions and settings, and every line that is known with what it proves."""
    settings, lines = report.details.get("settings") or {}, report.details.get("lines") or []
    if settings:
        page.blank()
        page.line(("settings in the logs", "dim"))
        for name, value in settings.items():
            page.prose((f"  {clean(name)}: {clean(value)}", "dim"), hang=4)
    if lines:
        page.blank()
        page.line(("recognized lines", "dim"))
    for (file, number, shows), group in groupby(lines, key=lambda line: (line["file"], line["line"], line["shows"])):
        same = [*group]
        line, checks = same[0], ", ".join(dict.fromkeys(line["check"] for line in same))
        who = f"rank {line['rank']}: " if line["rank"] is not None else f"{line['host']}: " if line["host"] else ""
        often = f" ({line['count']} times)" if line["count"] > 1 else ""
        page.prose((f"  {file}:{number}: {shows}, {checks}: {who}{line['text']}{often}", "dim"), hang=4)
        for why in dict.fromkeys(line["why"] for line in same if line["why"]):
            page.prose((f"    {'why' if shows == 'noise' else 'but'}: {why}", "dim"), hang=6)


def log_next_step(report: Report, program: str) -> tuple[str, list[str]]:
    roots = [finding for finding in report.findings if finding.because_of is None]
    diagnose = shlex.join([*program.split(), "diagnose", "LOGS..."])
    if report.verdict == "fail" and roots:
        if commands := [command for fix in roots[0].fixes for command in fix.commands]:
            return "confirm the cause first, then apply the fix above", commands[:1]
        again = {
            "no": "restarting without it fails again",
            "yes": "a restart may work without it",
            "other-nodes": "a restart on other nodes may work without it",
        }
        return f"apply the fix above; {again.get(roots[0].restart, again['no'])}", []
    if report.candidates:
        first = report.candidates[0]
        return f"get {first.next}, then diagnose all of it together", [first.command or diagnose]
    if roots and _hosts_out_of_reach(report):
        return "apply the fix above, then diagnose the logs again", []
    if report.verdict == "incomplete":
        return "diagnose the logs of all ranks and nodes together", [diagnose]
    return "if the job hangs, run this on one of its nodes while it hangs", [shlex.join([*program.split(), "hang"])]

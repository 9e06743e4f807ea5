"""The report on a job that runs, or hangs, now: what the checks found, where each rank is, what is not known here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from distdoctor.inspection.elsewhere import MOST, hosts_elsewhere
from distdoctor.inspection.sources import disagreeing
from distdoctor.inspection.verdict import ras_says, state_of, stores_say
from distdoctor.judge.build_report import assemble
from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import OF_CALLS, judge
from distdoctor.knowledge import job_places
from distdoctor.knowledge.live_job import LiveJob, live_job
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.cluster import build
from distdoctor.model.facts import HostCall, NodeFacts
from distdoctor.model.report import Report, ReportNode

APART = 60.0
"""Seconds between the looks at two nodes from which they may not fit each other."""


def report_on_jobs(
    facts: Sequence[NodeFacts],
    checks: Sequence[Check],
    ignore: Iterable[str],
    *,
    started_at: str,
    seconds: float,
    calls: Sequence[HostCall] = (),
) -> Report:
    """The report on the jobs in the facts of one or more nodes. Raises ValueError without any facts.

    ``calls``: what became of the command on each host, where all were looked at from one place.
    """
    cluster = build(facts, calls)
    judgement = judge(cluster, checks, ignore)
    job = live_job(cluster)
    notes = [note for node in cluster.nodes for facts_of in node.facts.jobs for note in facts_of.notes]
    report = assemble(cluster, judgement, started_at=started_at, seconds=seconds, notes=dict.fromkeys(notes))
    if job is None:
        return report
    # First what is wrong with the job; then, where it was not looked at.
    ordered = sorted(report.findings, key=lambda finding: finding.check.partition("/")[0] in OF_CALLS)
    report = replace(report, findings=tuple(ordered))
    state, verdict, told = state_of(job, judgement)
    told += [*stores_say(job), *ras_says(job), *disagreeing(job, hangs=state == "hangs")]
    here = {node.name for node in report.nodes}
    others = tuple(
        ReportNode(name, None, True, name) for name in dict.fromkeys(hosts_elsewhere(job)) if name not in here
    )
    return replace(
        report,
        verdict=verdict,
        torch=next((rank.process.torch for rank in job.ranks if rank.process.torch), None),
        notes=(*told, *report.notes),
        nodes=tuple(replace(node, ranks=_ranks_on(job, node.name)) for node in (*report.nodes, *others)),
        details={**report.details, "job": _details(job, state)},
    )


def of_saved(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Iterable[str]) -> Report:
    """The report on what ``hang --save`` kept on one or more nodes: of each node what was seen last."""
    began = time.monotonic()
    last: dict[tuple[str, str, str], NodeFacts] = {}
    for one in sorted((one for one in facts if one.jobs), key=lambda one: one.started_at):
        last[one.identity.host] = one
    started = datetime.fromtimestamp(min((one.started_at for one in last.values()), default=0.0), tz=timezone.utc)
    told = report_on_jobs(
        [*last.values()],
        checks,
        ignore,
        started_at=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
    )
    apart = max(one.started_at for one in last.values()) - min(one.started_at for one in last.values())
    notes = [f"the nodes were looked at {apart:.0f} s apart: one may have gone on meanwhile"] if apart > APART else []
    if len(last) < len(facts):
        notes.append("what `distdoctor check` saw, or an earlier look, is left out beside what this one saw of the job")
    return replace(told, notes=(*told.notes, *notes))


def _ranks_on(job: LiveJob, node: str) -> tuple[int, ...]:
    here = [number for number, rank in job.numbers.items() if rank.node.name == node]
    group = job.store.default_group if job.store else None
    return tuple(sorted(here)) or tuple(m.rank for m in (group.members if group else ()) if m.host == node)


# -- what a table is made of -----------------------------------------------------------------------------------------


def _details(job: LiveJob, state: str) -> dict[str, Any]:
    """The job, a row for those ranks that are at the same place, the odd ones first, and one for each process."""
    first = job.first
    return {
        "id": first.id,
        "launcher": first.launcher,
        "run_id": first.run_id,
        "state": state,
        "world_size": job.world,
        "apart": first.seconds,
        "waited": job.waited,
        "groups": [*_groups(job)],
        "processes": [*_processes(job)],
        "stores": [*_stores(job)],
    }


def _groups(job: LiveJob) -> Iterator[dict[str, Any]]:
    rows: dict[tuple[str, bool | None], list[LiveRank]] = {}
    for rank in job.ranks:
        # Who waits may poll, by itself or for others: that is no progress.
        moves = rank.moves_on if rank.place.kind in job_places.TOGETHER else rank.works
        told = None if moves and rank.may_spin else moves  # so looks a wait for a GPU, too
        rows.setdefault((rank.place.said(), told), []).append(rank)
    ordered = sorted(rows.items(), key=lambda row: (row[1][0].place.kind in job_places.TOGETHER, len(row[1])))
    for (place, told), ranks in ordered:
        yield {
            "ranks": [rank.number for rank in ranks if rank.number is not None],
            "pids": [rank.process.pid for rank in ranks],
            "nodes": list(dict.fromkeys(rank.node.name for rank in ranks)),
            "place": place,
            "moves": told,
        }
    elsewhere: dict[str, list[int]] = {}
    joined = set(job.store.joined) if job.store else set()
    for number in range(min(job.world or 0, MOST)):
        if number not in job.numbers:
            host, came = job.host_of(number), number in joined
            place = "gone" if number in job.gone else "joined" if came else "not joined" if joined else "not seen"
            elsewhere.setdefault(f"{place}\0{host}", []).append(number)
    for key, numbers in elsewhere.items():
        place, _, host = key.partition("\0")
        yield {"ranks": numbers, "pids": [], "nodes": [host] if host else [], "place": place, "moves": None}


def _processes(job: LiveJob) -> Iterator[dict[str, Any]]:
    places = {(rank.node.name, rank.process.pid): rank for rank in job.ranks}
    for node, facts in job.facts:
        for one in facts.processes:
            rank, main, moved = places.get((node.name, one.pid)), one.main, one.moved
            yield {
                "node": node.name,
                "pid": one.pid,
                "parent": one.parent,
                "role": one.role,
                "rank": rank.number if rank else None,
                "place": rank.place.said() if rank else "",
                "state": one.state,
                "call": main.call if main else "",
                "waits_in": main.waits_in if main else "",
                "stack": [f"{f.function} ({f.file}:{f.line})" for f in main.frames] if main else [],
                "cpu": moved.cpu if moved else None,
                "read": moved.read if moved else None,
                "written": moved.written if moved else None,
                "age": one.age,
                "waited": rank.waited if rank else None,
                "files": list(one.files),
                "no_stack": one.stack_error,
            }


def _stores(job: LiveJob) -> Iterator[dict[str, Any]]:
    for view in job.stores:
        yield {
            "host": view.host,
            "port": view.port,
            "state": view.state,
            "joined": list(view.joined),
            "missing": list(view.missing),
            "problems": list(view.problems),
        }

"""Report on a job that runs or hangs now: findings, the place of each rank, its state and verdict, unknowns, and
changes between looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import OF_CALLS, Judgement, judge
from distdoctor.judge.report import assemble
from distdoctor.knowledge.live import places
from distdoctor.knowledge.live.awaited import awaited
from distdoctor.knowledge.live.job import LiveJob, LiveRank, live_job
from distdoctor.knowledge.live.places import ENDED, HOSTING, MASTER, UNSEEN
from distdoctor.knowledge.live.stacks import awaits_process, awaits_thread, gets_about, polls, serves
from distdoctor.model.cluster import build
from distdoctor.model.facts import HostCall, JobProcess, NodeFacts, WorkerServer
from distdoctor.model.report import Report, ReportNode, Verdict
from distdoctor.model.text import first_of

NODES_APART_SECONDS = 60.0
"""Seconds between the looks at two nodes from which they may contradict each other."""


def report_on_jobs(
    facts: Sequence[NodeFacts],
    checks: Sequence[Check],
    ignore: Iterable[str],
    *,
    started_at: str,
    seconds: float,
    calls: Sequence[HostCall] = (),
) -> Report:
    """Return the report on the jobs in the facts of one or more nodes. Raises ValueError without any facts.

    ``calls``: the result of the command on each host of a remote run (``--hosts``).
    """
    cluster = build(facts, calls)
    judgement = judge(cluster, checks, ignore)
    job = live_job(cluster)
    notes = [note for node in cluster.nodes for facts_of in node.facts.jobs for note in facts_of.notes]
    report = assemble(cluster, judgement, started_at=started_at, seconds=seconds, notes=dict.fromkeys(notes))
    if job is None:
        return report
    # First the problems of the job, then those of looking at it.
    ordered = sorted(report.findings, key=lambda finding: finding.check.partition("/")[0] in OF_CALLS)
    report = replace(report, findings=tuple(ordered))
    state, verdict, remarks = state_of(job, judgement)
    reason = remarks[0] if remarks else ""
    remarks += [*store_notes(job), *ras_notes(job), *disagreeing(job, hangs=state == "hangs")]
    here = {node.name for node in report.nodes}
    others = tuple(ReportNode(name, None, True, name) for name in dict.fromkeys(remote_hosts(job)) if name not in here)
    return replace(
        report,
        verdict=verdict,
        torch=next((rank.process.torch for rank in job.ranks if rank.process.torch), None),
        notes=(*remarks, *report.notes),
        nodes=tuple(replace(node, ranks=_ranks_on(job, node.name)) for node in (*report.nodes, *others)),
        details={**report.details, "job": {**_details(job, state), "reason": reason}},
    )


def of_saved(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Iterable[str]) -> Report:
    """Return the report on the facts that ``hang --save`` kept on one or more nodes: the latest of each node."""
    began = time.monotonic()
    last: dict[tuple[str, str, str], NodeFacts] = {}
    for one in sorted((one for one in facts if one.jobs), key=lambda one: one.started_at):
        last[one.identity.host] = one
    started = datetime.fromtimestamp(min((one.started_at for one in last.values()), default=0.0), tz=timezone.utc)
    report = report_on_jobs(
        [*last.values()],
        checks,
        ignore,
        started_at=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
    )
    apart = max(one.started_at for one in last.values()) - min(one.started_at for one in last.values())
    notes = (
        [f"the nodes were inspected {apart:.0f} s apart; ranks may have moved on in between"]
        if apart > NODES_APART_SECONDS
        else []
    )
    if len(last) < len(facts):
        notes.append("facts of `distdoctor check` and of earlier looks are left out; the latest look at the job counts")
    return replace(report, notes=(*report.notes, *notes))


def _ranks_on(job: LiveJob, node: str) -> tuple[int, ...]:
    here = [number for number, rank in job.numbers.items() if rank.node.name == node]
    group = job.store.default_group if job.store else None
    return tuple(sorted(here)) or tuple(m.rank for m in (group.members if group else ()) if m.host == node)


# -- tables ---------------------------------------------------------------------------------------------------------


def _details(job: LiveJob, state: str) -> dict[str, Any]:
    """Return the job, a row per place of ranks (the odd ones first), and one per process."""
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
        "process_groups": [*_process_groups(job)],
    }


def _groups(job: LiveJob) -> Iterator[dict[str, Any]]:
    rows: dict[tuple[str, bool | None], list[LiveRank]] = {}
    for rank in job.ranks:
        # A waiting process may poll, by itself or for others: that is no progress.
        moves = rank.moves_on if rank.place.kind in places.TOGETHER else rank.works
        progress = None if moves and rank.may_spin else moves  # a wait for a GPU looks the same
        rows.setdefault((rank.place.said(), progress), []).append(rank)
    ordered = sorted(rows.items(), key=lambda row: (row[1][0].place.kind in places.TOGETHER, len(row[1])))
    for (place, progress), ranks in ordered:
        yield {
            "ranks": [rank.number for rank in ranks if rank.number is not None],
            "pids": [rank.process.pid for rank in ranks],
            "nodes": list(dict.fromkeys(rank.node.name for rank in ranks)),
            "place": place,
            "moves": progress,
        }
    absent: dict[str, list[int]] = {}
    joined = set(job.store.joined) if job.store else set()
    for number in range(min(job.world or 0, MOST)):
        if number not in job.numbers:
            host, came = job.host_of(number), number in joined
            place = "gone" if number in job.gone else "joined" if came else "not joined" if joined else "not seen"
            absent.setdefault(f"{place}\0{host}", []).append(number)
    for key, numbers in absent.items():
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
                "title": one.title,
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
    for view in (*job.stores, *job.further_stores):
        yield {
            "host": view.host,
            "port": view.port,
            "served_by": view.served_by,
            "state": view.state,
            "joined": list(view.joined),
            "missing": list(view.missing),
            "problems": list(view.problems),
        }


def _process_groups(job: LiveJob) -> Iterator[dict[str, Any]]:
    """Yield the groups in the stores, with the process that listens at each member's address, if it is here."""
    here = {
        (node.identity.hostname, socket.local, socket.local_port): (node.name, one)
        for node, facts in job.facts
        for one in facts.processes
        for socket in one.sockets or ()
        if socket.state == "LISTEN"
    }
    ranks = {(rank.node.name, rank.process.pid): rank.number for rank in job.ranks}
    for view in (*job.stores, *job.further_stores):
        for group in (*view.groups, *view.private_groups):
            members = [
                (one, *here.get((one.host, one.address, one.port or 0), ("", None))) for one in group.members[:MOST]
            ]
            yield {
                "store": f"{view.host}:{view.port}",
                "name": group.path,
                "device": group.device,
                "size": group.world,
                "joined": list(group.joined),
                "communicators": group.communicators,
                "members": [
                    {
                        "group_rank": one.rank,
                        "rank": ranks.get((node, process.pid)) if process is not None else None,
                        "host": one.host,
                        "pid": process.pid if process is not None else None,
                        "title": process.title if process is not None else "",
                    }
                    for one, node, process in members
                ],
            }


# State of a job in a word, the verdict, and notes.


JobState = tuple[str, Verdict, list[str]]


def state_of(job: LiveJob, judgement: Judgement) -> JobState:
    """Return the job's state in a word, the verdict, and notes."""
    # A host that could not be inspected is no evidence about the job.
    if any(f.severity == "fail" and f.check.partition("/")[0] not in OF_CALLS for f in judgement.findings):
        return "hangs", judgement.verdict, []
    if not job.first.processes:
        return "outside", "incomplete", store_only_notes(job)
    if judgement.verdict == "incomplete":
        return _unknown(unknown_facts_notes(job))
    warned = any(finding.severity == "warn" for finding in judgement.findings)
    if not job.ranks:
        return _without_ranks(job, warned)
    waiting = job.waiting
    busy = [rank for rank in job.ranks if not rank.waits and rank.works]
    idle = [rank for rank in job.ranks if not rank.waits and not rank.works]
    if warned and (job.young or not idle or awaited(job) is not None):
        return "waits" if waiting or idle else "moves", "warn", []
    if idle:
        return _with_idle_ranks(job, idle, busy)
    if busy and all(rank.may_spin for rank in busy):
        return "computes", "incomplete", _spins(busy, job)
    if busy:
        slow = f"slow, not stuck: {places_of(busy)}, and makes progress{_about(busy)}; the others wait"
        return "moves", "pass", [slow] if waiting else []
    if job.young and job.in_rendezvous:
        return "starts", "warn", [f"the job was started {job.age:.0f} s ago; its ranks are still joining"]
    return _unknown([*split_meetings(job), *unknown_facts_notes(job)])


def _unknown(notes: list[str]) -> JobState:
    return "unknown", "incomplete", notes


def _without_ranks(job: LiveJob, warned: bool) -> JobState:
    """Return the state of a job whose agent or driver is here without a rank."""
    agent = "torchrun's agent runs on this node, but none of its ranks"
    if job.store is not None and job.store.joined and not job.agents_meet:
        return _unknown([f"{agent} is visible", *unknown_facts_notes(job)])
    if warned:
        return "waits", "warn", []
    return _unknown([f"{agent} does; the cause is unknown" if job.first.ray is None else ray_without_workers(job)])


def _with_idle_ranks(job: LiveJob, idle: Sequence[LiveRank], busy: Sequence[LiveRank]) -> JobState:
    """Return the state of a job with ranks that neither wait for another rank nor make progress."""
    alone = len(idle) == len(job.ranks)
    if all(rank.place.kind == ENDED for rank in idle):
        ended = f"{first_of([rank.called for rank in idle], 4)} ended, and the launcher has not noticed yet"
        return _unknown([f"{ended}; the last output says why", *unknown_facts_notes(job)])
    if alone and (rests := _rests(idle, job)) is not None:
        return rests
    notes = [f"{places_of(idle)}: {_idle_activity(idle, job)}"]
    if busy:
        notes.append(f"{places_of(busy)}, and makes progress")
    if alone and len(job.numbers) >= (job.world or 0):
        notes.append("no rank waits for another; workers that wait for requests look like this")
    if any(rank.place.kind == UNSEEN for rank in idle):
        notes.append("this user may not read what the ranks do: run this as root, with CAP_SYS_PTRACE")
    return _unknown([*notes, *unknown_facts_notes(job)])


_IDLE: tuple[tuple[Callable[[JobProcess], object], str], ...] = (
    (awaits_thread, "it waits for a thread of its own, which runs briefly now and then: inspect that thread"),
    (polls, "it polls there; what for is unknown"),
    (
        lambda one: one.main is not None and serves(one.main),
        "a server waits like this for clients; whether one will connect is unknown",
    ),
    (
        lambda one: awaits_process(one.main),
        "it waits for another process (for a lock or a message); which one is unknown",
    ),
    (
        lambda one: one.main is not None and one.main.other_ends,
        "it waits at a pipe whose other end another process of the job holds",
    ),
)
"""Activities without progress of which nothing shows the cause."""


def _idle_activity(idle: Sequence[LiveRank], job: LiveJob) -> str:
    """Return what these ranks do without progress, if nothing shows the cause."""
    answerers = [f"pid {one.pid} ({one.name})" for rank in idle if (one := rank.answerer) is not None]
    if all(map(job.answered, idle)):
        who = " and ".join(dict.fromkeys(answerers[:4]))
        return f"it waits for an answer of {who} on its host, which is working, on what is unknown"
    if len(set(answerers)) == 1 and len(answerers) == len(idle):
        return f"it waits for an answer of {answerers[0]} on its host, which is idle: inspect that process"
    locks = [rank.process.main.lock for rank in idle if rank.process.main is not None and rank.process.main.lock]
    if locks and len(locks) == len(idle):
        made = any(lock.age is not None for lock in locks)
        left = "; if the process that made it is gone, delete the lock" if made else ""
        return f"it polls for that lock: find the process that holds it{left}"
    for does, text in _IDLE:
        if all(does(rank.process) for rank in idle):
            return text
    if job.cores:
        return f"{places_of(job.cores)}; whether it has a request is unknown"
    return "it makes no progress there; the cause is unknown"


_SPINS = (
    "{said}: ranks use CPU, and none left its place",
    "a long GPU step looks like this, and so does an NCCL collective that never ends: look again in a minute "
    "(--watch 60), and check whether the job's log goes on",
)


def _spins(busy: Sequence[LiveRank], job: LiveJob) -> list[str]:
    """Return notes on these ranks, which may wait for their GPUs."""
    gone = [f"rank {number}" for number in job.gone][:4]
    over = f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone: if this is a collective, it never ends"
    return [*(line.format(said=places_of(busy)) for line in _SPINS), *([over] if gone else [])]


def _rests(idle: Sequence[LiveRank], job: LiveJob) -> JobState | None:
    """Return state, verdict and reasons if all ranks stand still without a fault; None if one is at fault.

    They pause for a moment, or the engine has no request.
    """
    if all(rank.pauses for rank in idle):
        return _pauses(idle)
    if job.without_requests:
        return "waits", "pass", ["the engine has no request: each worker waits for an order, and so does its core"]
    if job.cores and all(rank.place.kind == places.QUEUE for rank in idle) and all(one.works for one in job.cores):
        return "moves", "pass", [f"each worker waits for an order; {places_of(job.cores)}, and makes progress"]
    return None


def _pauses(idle: Sequence[LiveRank]) -> JobState:
    """Return the same for ranks that stand still for a moment, if none is known to wait for another."""
    still, asleep = max(rank.still or 0.0 for rank in idle), [rank.asleep for rank in idle]
    now = f", without progress for at most {still:.0f} s"
    if None not in asleep:
        yet = max(seconds for seconds in asleep if seconds is not None)
        itself = all(rank.process.main is not None and rank.process.main.left is not None for rank in idle)
        now = f"{' with' if itself else ', and what it waits for has'} {yet:.0f} s of its sleep left"
    if all(rank.gets_data for rank in idle):
        now = ", and a thread or a child process of it receives data now and then"
    return "pauses", "warn", [
        f"slow so far: {places_of(idle)}{now}; no rank on this node waits for another",
        "whether that is a pause or a hang is not known yet: look again in 10 s (--watch 10)",
    ]  # fmt: skip


def _about(busy: Sequence[LiveRank]) -> str:
    """Return the number of places at which ranks that only compute were sampled, if that shows their progress."""
    paths = [rank.process.moved.paths or 0 for rank in busy if rank.process.moved and gets_about(rank.process)]
    return f" (its stack was seen on {max(paths)} different paths)" if paths else ""


_NO_STORE = {
    "silent": "accepts connections but does not answer: its process is stopped or waits for a name server",
    "closed": "closes every connection",
    "foreign": "is not a torch store",
    "partly": "was read only in part",
}


def store_notes(job: LiveJob) -> Iterator[str]:
    """Yield the reasons why a store that accepts connections did not list the ranks."""
    for view in job.stores:
        if view.state in _NO_STORE:
            more = "; ".join([*view.problems, *([f"it sent {view.sample!r}"] if view.sample else [])])
            yield f"the store at {view.host} port {view.port} {_NO_STORE[view.state]}{f' ({more})' if more else ''}"
        elif view.restarted:
            yield (
                f"{view.arrived} ranks joined the store at {view.host} port {view.port}, more than the job has: some "
                "were restarted, and what the store holds may be old"
            )


def ras_notes(job: LiveJob) -> Iterator[str]:
    """Yield the answer of NCCL's RAS on each host where it was asked."""
    for node, facts in job.facts:
        view = facts.ras
        if view is None or not view.answers:
            continue
        said = [*view.errors, *view.warnings]
        yield from (f"NCCL's RAS on {node.name}: {one}" for one in said[:8])
        if not said:
            yield f"NCCL's RAS on {node.name} reports no problem, which proves nothing: it did so for jobs that hung"


# Unknown facts about a job: other hosts to inspect, and further sources.


MOST = 4096
"""Most ranks that are listed one by one."""


def remote_hosts(job: LiveJob) -> Iterator[str]:
    """Yield the hosts of remote ranks, as far as the store names them."""
    for number in range(min(job.world or 0, MOST)):
        if number not in job.numbers and (host := job.host_of(number)):
            yield host


def split_meetings(job: LiveJob) -> Iterator[str]:
    """Yield a note on ranks of one node that may use different stores.

    One serves a store, and others that try to reach one have no connection to it. It is uncertain: between two tries a
    client sleeps, up to a minute (c10d's socket.cpp).
    """
    for host in job.ranks:
        ports = {s.local_port for s in host.process.sockets or () if s.state == "LISTEN"}
        if host.place.kind != HOSTING or len(ports) != 1:
            continue
        apart = [rank for rank in job.ranks if rank.place.kind == MASTER and rank.node is host.node]
        apart = [rank for rank in apart if not any(s.remote_port in ports for s in rank.process.sockets or ())]
        if apart:
            names = first_of([rank.called for rank in apart], 4)
            yield (
                f"{host.called} serves the store at port {min(ports)}, and {names} on the same host has no connection "
                "to it: give all ranks the same MASTER_PORT, chosen once and not by each rank"
            )


def store_only_notes(job: LiveJob) -> list[str]:
    """Return notes on the facts that a store alone does not have, and the hosts to inspect."""
    store = job.store
    notes = []
    if store is not None and store.clients == 1 and not store.groups and not store.agents:
        notes.append(
            "one client joined the store and waits for others: rank 0 of a job without torchrun, or the agent of "
            "torchrun's first node"
        )
    elif store is not None and store.clients and not store.groups and not store.agents and store.world is None:
        notes.append(
            f"{store.clients} clients joined the store; a store of torch {store.generation} does not say who they are, "
            "or how many are missing"
        )
    if any(view.known for view in job.stores):
        hosts = list(dict.fromkeys([*remote_hosts(job), *(view.host for view in job.stores)]))
        notes.append("the store does not show what the ranks do: run distdoctor hang on " + ", ".join(hosts[:8]))
    return notes


def places_of(ranks: Sequence[LiveRank]) -> str:
    """Return the places of these ranks, in a clause."""
    groups: dict[str, list[LiveRank]] = {}
    for rank in ranks:
        groups.setdefault(rank.place.said(), []).append(rank)
    parts = []
    for group in list(groups.values())[:3]:
        place = group[0].place.said(len(group) > 1)
        parts.append(f"{first_of([rank.called for rank in group], 4)} {'is' if len(group) == 1 else 'are'} {place}")
    return "; ".join(parts)


def unknown_facts_notes(job: LiveJob) -> list[str]:
    """Return notes on the facts that are not available here, and the hosts to inspect."""
    ours = {name for node, _ in job.facts for name in (node.name, node.identity.hostname)}
    others = [host for host in dict.fromkeys(remote_hosts(job)) if host not in ours]
    unnamed = [n for n in range(min(job.world or 0, MOST)) if n not in job.numbers and not job.host_of(n)]
    here = ", ".join(node.name for node, _ in job.facts)
    notes = []
    if others:
        notes.append(f"every rank on {here} waits for ranks elsewhere: run distdoctor hang on {first_of(others, 8)}")
    elif unnamed:
        shown = ", ".join(map(str, unnamed[:8])) + (" ..." if len(unnamed) > 8 else "")
        notes.append(f"not visible from {here}: run distdoctor hang on the nodes of ranks {shown} too")
    elif missing := [n for n in range(min(job.world or 0, MOST)) if n not in job.numbers and job.numbers]:
        shown = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
        notes.append(f"no process of rank{'s' if len(missing) > 1 else ''} {shown} was found on {here}")
    elif job.world and len(job.numbers) >= job.world:
        if len(job.waiting) == len(job.ranks):  # otherwise the ranks that do not wait are reported
            notes += [_together(job), *_works_of_some(job)]
    else:
        notes.append(f"not visible from {here}: run distdoctor hang on the job's other nodes too")
    return notes


def _works_of_some(job: LiveJob) -> Iterator[str]:
    """Yield a note on ranks at one place of which some have unfinished work there, as far as variables show."""
    frames = [rank.place.frame for rank in job.ranks]
    with_work = [r for r, f in zip(job.ranks, frames, strict=True) if f and f.given and f.given.has == "work"]
    if 0 < len(with_work) < len(frames) and len({(f.file, f.line) for f in frames if f}) == 1:
        more, rest = (
            ", ".join([r.called for r in group][:8])
            for group in (with_work, [rank for rank in job.ranks if rank not in with_work])
        )
        yield (
            f"not all ranks hold a Work there ({more}, but not {rest}): check that all make the call "
            "that returns it, in the same order"
        )


def _together(job: LiveJob) -> str:
    """Return a note that all ranks are here, and all of them wait."""
    places = {rank.place.said() for rank in job.ranks}
    where = f"in the same place ({places.pop()})" if len(places) == 1 else f"for each other ({places_of(job.ranks)})"
    return f"all ranks wait {where}; the cause is not visible, but the flight recorder may show it (see -v)"


def ray_without_workers(job: LiveJob) -> str:
    """Return a note that Ray's driver or controller is here without a worker of Ray Train, and how to ask Ray for the
    workers."""
    view = job.first.ray
    nodes = dict.fromkeys(view.workers.values()) if view is not None else {}
    if nodes:
        return f"Ray's workers of this job are on other nodes: run distdoctor hang on {', '.join([*nodes][:8])}"
    unread = "" if view is not None and view.status else ", whose status is on the head node"
    return (
        f"no Ray Train worker is on this node, and none is seen to wait for placement{unread}: "
        "run `ray status` and `ray list actors --filter state=ALIVE`"
    )


# Contradictions between a job's own report and its processes: both are printed.


_STANDS = (places.STOPPED, places.ENDED)


def disagreeing(job: LiveJob, *, hangs: bool) -> Iterator[str]:
    """Yield a line per contradiction. ``hangs``: True if the findings report a hang."""
    for server in job.servers:
        rank = job.numbers.get(server.rank)
        if rank is not None:
            yield from (f"sources disagree on rank {server.rank}: {line}" for line in _of_rank(rank, server))
    for node, facts in job.facts:
        view = facts.ras
        if view is None or not view.answers or not view.whole:
            continue
        if hangs and not view.errors and not view.warnings:
            yield f"sources disagree: NCCL's RAS on {node.name} calls the job healthy, but it hangs"
        elif view.errors and job.ranks and all(_gets_on(rank) for rank in job.ranks):
            yield f"sources disagree: NCCL's RAS on {node.name} reports errors, but every rank here makes progress"


def _gets_on(rank: LiveRank) -> bool:
    return (rank.works or rank.moves_on) and not (rank.may_spin or rank.place.spins)


def _of_rank(rank: LiveRank, server: WorkerServer) -> Iterator[str]:
    """Yield the contradictions between a rank's flight recorder and its process."""
    calls = [call for view in server.recorders for call in view.calls]
    mine = [call for call in calls if call.operation == rank.place.call]
    if rank.waits and rank.place.kind == places.COLLECTIVE and mine and all(call.done for call in calls):
        file = ", which may be of before," if server.url.startswith("file:") else ""
        yield f"its flight recorder{file} marks all its calls as done, but its stack is {rank.place.said()}"
    if server.answers and rank.place.kind in _STANDS:
        yield f"its worker server answers, but its process is {rank.place.said()}"


# Changes between two looks at one job (``hang --watch``).


def changes(before: Report, after: Report) -> list[str]:
    """Return lines about the changes in a later look at the same job."""
    places = [_by_rank(report.details.get("job", {})) for report in (before, after)]
    lines = []
    for rank in dict.fromkeys((*places[0], *places[1])):
        was, now = places[0].get(rank), places[1].get(rank)
        if was != now:
            lines.append(f"{rank}: {was or 'not there'} -> {now or 'gone'}")
    if before.verdict != after.verdict:
        lines.append(f"verdict: {before.verdict} -> {after.verdict}")
    ids = [{finding.id for finding in report.findings} for report in (before, after)]
    lines += [f"no longer found: {one}" for one in sorted(ids[0] - ids[1])]
    lines += [f"now found: {one}" for one in sorted(ids[1] - ids[0])]
    return lines


def progressed_ranks(before: Report, after: Report) -> list[str]:
    """Return the ranks at the same place that made progress: they wait for the others since a shorter time."""
    places = [_by_rank(report.details.get("job", {})) for report in (before, after)]
    between = (datetime.fromisoformat(after.started_at) - datetime.fromisoformat(before.started_at)).total_seconds()
    rows = (row for row in after.details.get("job", {}).get("processes") or () if row["role"] == "rank")
    # Reading its stack may have woken it in the look before. The times are in whole seconds.
    since = between - before.seconds - 1
    again = [_called(row) for row in rows if row["waited"] is not None and row["waited"] < since]
    return [name for name in again if places[0].get(name) == places[1].get(name)]


def _by_rank(job: dict[str, Any]) -> dict[str, str]:
    rows = (row for row in job.get("processes") or () if row["role"] == "rank")
    return {_called(row): row["place"] for row in rows}


def _called(row: dict[str, Any]) -> str:
    return f"rank {row['rank']}" if row["rank"] is not None else f"pid {row['pid']}"

"""One inspection: the job that is meant is found, looked at twice, and put down as facts. Nothing is changed by it."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from distdoctor.inspection import (
    candidates,
    job_stores,
    jobs,
    proc_files,
    recorder_files,
    told,
    two_looks,
)
from distdoctor.inspection.jobs import Found
from distdoctor.launch.address_syntax import split_endpoint
from distdoctor.launch.nodes import number_of
from distdoctor.model.durations import age_said
from distdoctor.model.facts import JobFacts, JobProcess, NodeFacts, RankFacts, StoreView
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT
from distdoctor.model.launch_variables import AGENT_STORE, RUN_ID
from distdoctor.model.plan import DEFAULT_PORT, Plan
from distdoctor.probes import build_locks
from distdoctor.probes.identity import identity

APART = 1.5
"""Seconds between the two looks."""
TOLD_SECONDS = 1.0
"""How long what the job tells of itself is waited for, where there is something to ask."""


class NoJob(Exception):
    """There is nothing to look at, or it cannot be told what is meant; the text says what to do."""


@dataclass(frozen=True)
class Wanted:
    """What is to be looked at, and how."""

    pid: int | None = None
    """A process of the job, or one that has started it."""
    run_id: str | None = None
    store: str | None = None
    """``HOST:PORT`` of the job's store."""
    stacks: str = "auto"
    apart: float = APART


def inspect(wanted: Wanted, meanwhile: Callable[[], object] = lambda: None) -> NodeFacts:
    """The facts of the job that is meant. ``meanwhile`` is called between the two looks. Raises NoJob."""
    started = time.time()
    scan = candidates.scan()
    try:
        found = _chosen(jobs.find(scan, wanted.pid), wanted, scan)
    except NoJob:
        if wanted.store is None or wanted.pid is not None:
            raise
        found = Found(wanted.store, "")  # from a host without any process of the job
    job = _looked_at(found, wanted, scan, meanwhile)
    return NodeFacts(
        identity(),
        _plan(job),
        variables=dict(job.ranks[0].variables) if job.ranks else {},
        node_rank=job.node_rank,
        ranks=tuple(RankFacts(one.rank, one.local_rank or 0, one.pid) for one in job.ranks if one.rank is not None),
        jobs=(job,),
        started_at=started,
        until="",
    )


def _chosen(found: Sequence[Found], wanted: Wanted, scan: candidates.Scan) -> Found:
    """The one job that is meant. Raises NoJob."""
    if wanted.pid is not None:
        theirs = [job for job in found if wanted.pid in job.members] or [
            job for job in found if any(wanted.pid in scan.above(pid) for pid in job.members)
        ]
        if theirs:
            return theirs[0]
        raise NoJob(f"--pid {wanted.pid}: {_no_such_process(wanted.pid, scan)}")
    if wanted.run_id is not None:
        found = [job for job in found if job.run_id == wanted.run_id]
        if not found:
            raise NoJob(f"--run-id {wanted.run_id}: no job of this host has it")
    if wanted.store is not None:
        port = split_endpoint(wanted.store)[1]
        found = [job for job in found if (place := job_stores.place_of(job)) and place[1] == port]
    here, elsewhere = jobs.of_namespace(found, proc_files.link("self", "ns/net") or "")
    there = [
        f"{job.id}, in a container or another network: --pid {min(job.members)} ({_said(job)})" for job in elsewhere
    ]
    if len(here or elsewhere) == 1:
        return replace((here or elsewhere)[0], beside="; ".join(there[:8]) if here else "")
    if found:
        listed = [*(f"{_named(job)}--pid {min(job.members)} ({_said(job)})" for job in here), *there]
        raise NoJob(f"{len(found)} jobs run here; say which: {'; '.join(listed[:8])}")
    if hidden := _of_others(scan):
        users = ", ".join(sorted({one.user for one in hidden}))
        pids = ", ".join(str(one.pid) for one in hidden[:8])
        raise NoJob(f"what looks like a job here belongs to {users} (pid {pids}): run this as that user or as root")
    more = f"; {_HIDDEN}" if _hides() else ""
    raise NoJob(f"no process of a PyTorch job is here; run this on one of its nodes, or give --pid{more}")


_HIDDEN = "/proc hides the processes of others from this user (hidepid): run this as that user or as root"


def _hides() -> bool:
    """Whether others' processes are hidden from this user (hidepid=invisible in proc(5)): the first is always there."""
    return not os.path.exists("/proc/1")


def _of_others(scan: candidates.Scan) -> list[candidates.Candidate]:
    """What looks like a job and may not be read; of a process that has ended nobody may read anything."""
    return [one for one in scan.unreadable if one.state != "Z"]


def _no_such_process(pid: int, scan: candidates.Scan) -> str:
    if pid not in scan.parents:
        return f"no such process is to be seen here; {_HIDDEN}" if _hides() else "there is no such process here"
    stat = proc_files.stat(pid)
    if stat is None or stat.state == "Z":
        return "it has ended"
    if proc_files.environ(pid) is None:
        return "it belongs to another user: run this as that user or as root"
    return "it has not loaded torch, and belongs to no job"


def _named(job: Found) -> str:
    """What it is called, where that is more than its process."""
    return "" if job.id == f"pid {min(job.members)}" else f"{job.id}: "


def _said(job: Found) -> str:
    ranks = len(job.ranks)
    age = age_said(max(0.0, proc_files.uptime() - min(one.started for one, _ in job.members.values())))
    return (f"{ranks} rank{'' if ranks == 1 else 's'}" if ranks else "its agent, without ranks yet") + f", for {age}"


def _looked_at(found: Found, wanted: Wanted, scan: candidates.Scan, meanwhile: Callable[[], object]) -> JobFacts:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(job_stores.ask, found, wanted.store)
        seen = two_looks.at(found, scan, wanted.apart, wanted.stacks, meanwhile)
        views, found_notes = asked.result()
    if any(view.contact is not None and view.contact.outcome in ("refused", "reset") for view in views):
        views, found_notes = job_stores.ask(
            found, wanted.store
        )  # it may have opened meanwhile, as in a job that starts
    notes = [*seen.notes, *([f"not looked at: {found.beside}"] if found.beside else [])]
    if hidden := _of_others(scan):
        pids = ", ".join(str(one.pid) for one in hidden[:8])
        notes.append(f"not looked at: processes of other users ({pids}); run this as root")
    if not found.members:
        notes.append("no process of the job was looked at: only what its store holds is known here")
    processes = seen.processes
    job = _facts(found, processes, seen.apart, [*notes, *found_notes])
    servers, ras = told.ask(found, views, processes, timeout=TOLD_SECONDS, host=platform.node())
    asked_already = {server.rank for server in servers if server.recorders}
    servers = (*servers, *(one for one in recorder_files.read(found) if one.rank not in asked_already))
    if not processes:
        by_agents = any(view.agents or view.rendezvous for view in views)
        job = replace(job, launcher="torchrun" if by_agents else "")
    job = replace(job, servers=servers, ras=ras)
    builders = {str(one.pid): one.variables for one in found.ranks}
    found_locks = asyncio.run(build_locks.probe(builders))
    strangers = _strangers(views, processes, seen.tables.listening(processes[0].pid)) if processes else ()
    return replace(job, stores=views, locks=found_locks or (), ended=_ended(found, scan), strangers=strangers)


def _ended(found: Found, scan: candidates.Scan) -> tuple[int, ...]:
    """Those of the job's facts. Of a process that has ended only its parent, its name and its state can be read."""
    alike = {(one.parent, one.name) for one in found.ranks if one.parent in scan.candidates}
    beside = (pid for pid, parent in scan.parents.items() if parent in {parent for parent, _ in alike})
    return tuple(
        pid
        for pid in sorted(beside)
        if (stat := proc_files.stat(pid)) is not None
        and stat.state == "Z"
        and (stat.parent, (proc_files.text(pid, "comm", 64) or "").strip()) in alike
    )


def _strangers(
    views: Iterable[StoreView], processes: Sequence[JobProcess], listening: Collection[tuple[str, int]]
) -> tuple[int, ...]:
    """Those of the job's facts. ``listening``: where anybody does."""
    groups = [group for view in views if (group := view.default_group) is not None]
    ours = {(s.local, s.local_port) for one in processes for s in one.sockets or () if s.state == "LISTEN"}
    at = {member.rank: (member.address, member.port) for group in groups for member in group.members if member.port}
    return tuple(sorted(rank for rank, place in at.items() if place in listening and place not in ours))


def _facts(found: Found, processes: Sequence[JobProcess], apart: float, notes: Sequence[str]) -> JobFacts:
    ranks = [one for one in processes if one.role == "rank"]
    options = found.options
    launcher = "torchrun" if options or found.variable(RUN_ID) else "env"
    if launcher == "env" and not any(one.rank is not None for one in ranks):
        launcher = "fork"
    if found.ray is not None:
        launcher = "ray"
    address, port = found.variable(MASTER_ADDR.variables[0]), found.variable(MASTER_PORT.variables[0])
    if not address and options and options.rdzv_backend == "static" and options.endpoint:
        address, port = options.endpoint[0], str(options.endpoint[1])
    number = number_of(port)
    nodes = options.awaited_nodes if options else None
    world = next((one.world_size for one in ranks if one.world_size is not None), None)
    local = next((one.local_world_size for one in ranks if one.local_world_size is not None), None)
    nodes_told = (one.node_rank for one in ranks if one.node_rank is not None)
    return JobFacts(
        id=found.id,
        launcher=launcher,
        run_id=found.run_id,
        master_addr=address,
        master_port=number if number is not None else DEFAULT_PORT if address else None,
        rdzv_backend=options.rdzv_backend if options else "",
        rdzv_endpoint=f"{options.endpoint[0]}:{options.endpoint[1]}" if options and options.endpoint else "",
        join_timeout=options.join_timeout if options else None,
        nnodes=nodes if nodes else -(-world // local) if world and local else None,
        nproc_per_node=options.nproc_per_node if options else str(local or ""),
        node_rank=next(nodes_told, options.static_node_rank if options else None),
        world_size=world,
        netns=found.netns,
        ray=found.ray,
        processes=tuple(sorted(processes, key=_order)),
        seconds=round(apart, 2),
        notes=tuple(notes),
    )


def _order(one: JobProcess) -> tuple[int, int, int]:
    roles = ("agent", "launcher", "rank", "loader", "child")
    return roles.index(one.role), one.rank if one.rank is not None else 1 << 30, one.pid


def _plan(job: JobFacts) -> Plan:
    """What the job was to be, as its processes were told."""
    ranks = job.ranks
    local = next((one.local_world_size for one in ranks if one.local_world_size), None)
    return Plan(
        nnodes=job.nnodes,
        nproc_per_node=max(local or 0, len(ranks)) or None,  # more than planned, where some are there twice
        node_rank=job.node_rank,
        world_size=job.world_size,
        master_addr=job.master_addr or None,
        master_port=job.master_port if job.master_port is not None else DEFAULT_PORT,
        agent_store=any(one.variables.get(AGENT_STORE) == "True" for one in ranks),
        run_id=job.run_id or "none",
        rdzv_backend=job.rdzv_backend or "static",
        restart=max((one.restart for one in ranks), default=0),
        sources={},
    )

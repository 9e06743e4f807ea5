"""Inspection of a job: finds it, looks at it twice, and returns its facts without changing it."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from distdoctor.hang import debug_server, jobs, namespaces, proc, snapshot
from distdoctor.hang.debug_server import recorders_of
from distdoctor.hang.jobs import JobCandidate, LocalJob
from distdoctor.hang.store import view
from distdoctor.logs import flight_recorder, nccl_inspector
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import JobFacts, JobProcess, NodeFacts, RankFacts, RasView, StoreView, WorkerServer
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, RANK
from distdoctor.model.launch_variables import AGENT_STORE, RUN_ID
from distdoctor.model.plan import DEFAULT_PORT, Plan
from distdoctor.model.text import duration_text, encodable
from distdoctor.plan.syntax import number_of, split_endpoint
from distdoctor.probes.host import files
from distdoctor.probes.host.identity import identity

LOOKS_APART_SECONDS = 1.5
"""Seconds between the two looks."""
SERVICE_SECONDS = 1.0
"""Most seconds to wait for the job's own servers."""
LISTED = 8
"""Most jobs that a message lists."""


class NoJob(Exception):
    """Missing or ambiguous job; the text says what to do."""


@dataclass(frozen=True)
class Wanted:
    """Job to look at, and options."""

    pid: int | None = None
    """Process of the job, or one that started it."""
    run_id: str | None = None
    store: str | None = None
    """``HOST:PORT`` of the job's store."""
    stacks: str = "auto"
    apart: float = LOOKS_APART_SECONDS


def inspect(wanted: Wanted, meanwhile: Callable[[], object] = lambda: None) -> NodeFacts:
    """Return the facts of the wanted job. ``meanwhile`` is called between the two looks. Raises NoJob."""
    started = time.time()
    scan = jobs.scan_processes()
    try:
        found = _chosen(jobs.find(scan, wanted.pid), wanted, scan)
    except NoJob:
        if wanted.store is None or wanted.pid is not None:
            raise
        found = LocalJob(wanted.store, "")  # from a host without any process of the job
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


def _chosen(found: Sequence[LocalJob], wanted: Wanted, scan: jobs.Scan) -> LocalJob:
    """Return the one wanted job. Raises NoJob."""
    if wanted.pid is not None:
        return _of_pid(found, wanted.pid, scan)
    if wanted.run_id is not None:
        found = [job for job in found if job.run_id == wanted.run_id]
        if not found:
            raise NoJob(f"--run-id {wanted.run_id}: no job of this host has it")
    if wanted.store is not None:
        port = split_endpoint(wanted.store)[1]
        found = [job for job in found if (place := view.store_address(job)) and place[1] == port]
    here, others = jobs.of_namespace(found, proc.read_link("self", "ns/net") or "")
    there = [
        f"{job.id}, in a container or another network: --pid {min(job.members)} ({_description(job)})" for job in others
    ]
    if len(here or others) == 1:
        return replace((here or others)[0], passed_over="; ".join(there[:LISTED]) if here else "")
    if found:
        listed = "; ".join(filter(None, (_listed(here), *there[:LISTED])))
        raise NoJob(f"{len(found)} jobs run here; say which: {listed}")
    raise NoJob(_no_job(scan))


def _of_pid(found: Sequence[LocalJob], pid: int, scan: jobs.Scan) -> LocalJob:
    """Return the job that the process belongs to, or that it started. Raises NoJob."""
    started = (job for job in found if any(pid in scan.above(member) for member in job.members))
    candidates = [job for job in found if pid in job.members] or [*started]
    if len(candidates) > 1:
        raise NoJob(f"--pid {pid} started {len(candidates)} jobs; say which: {_listed(candidates)}")
    if not candidates:
        raise NoJob(f"--pid {pid}: {_no_such_process(pid, scan)}")
    return candidates[0]


def _no_job(scan: jobs.Scan) -> str:
    if hidden := _of_others(scan):
        users = ", ".join(sorted({one.user for one in hidden}))
        pids = ", ".join(str(one.pid) for one in hidden[:8])
        return f"what looks like a job here belongs to {users} (pid {pids}): run this as that user or as root"
    more = f"; {_HIDDEN}" if _hides() else ""
    return f"no process of a PyTorch job is here; run this on one of its nodes, or give --pid{more}"


_HIDDEN = "/proc hides the processes of others from this user (hidepid): run this as that user or as root"


def _hides() -> bool:
    """Return whether others' processes are hidden from this user (hidepid=invisible in proc(5)): process 1 always
    exists."""
    return not os.path.exists("/proc/1")


def _of_others(scan: jobs.Scan) -> list[jobs.JobCandidate]:
    """Return processes that look like a job and are not readable; a process that has ended is readable by nobody."""
    return [one for one in scan.unreadable if one.state != "Z"]


def _no_such_process(pid: int, scan: jobs.Scan) -> str:
    if pid not in scan.parents:
        return f"no such process is to be seen here; {_HIDDEN}" if _hides() else "there is no such process here"
    stat = proc.stat(pid)
    if stat is None or stat.state == "Z":
        return "it has ended"
    if proc.environ(pid) is None:
        return "it belongs to another user: run this as that user or as root"
    return "it has not loaded torch, and belongs to no job"


def _listed(found: Sequence[LocalJob]) -> str:
    """Return the jobs with the option that selects each."""
    return "; ".join(f"{_named(job)}--pid {min(job.members)} ({_description(job)})" for job in found[:LISTED])


def _named(job: LocalJob) -> str:
    """Return the job's name, if it is more than a pid."""
    return "" if job.id == f"pid {min(job.members)}" else f"{job.id}: "


def _description(job: LocalJob) -> str:
    ranks = len(job.ranks)
    age = duration_text(max(0.0, proc.uptime() - min(one.started for one, _ in job.members.values())))
    return (f"{ranks} rank{'' if ranks == 1 else 's'}" if ranks else "its agent, without ranks yet") + f", for {age}"


def _looked_at(found: LocalJob, wanted: Wanted, scan: jobs.Scan, meanwhile: Callable[[], object]) -> JobFacts:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(view.ask_stores, found, wanted.store)
        look = snapshot.take_two(found, scan, wanted.apart, wanted.stacks, meanwhile)
        views, found_notes = asked.result()
    if any(view.contact is not None and view.contact.outcome in ("refused", "reset") for view in views):
        views, found_notes = view.ask_stores(found, wanted.store)  # it may have opened meanwhile, as in a starting job
    notes = [*look.notes, *([f"not looked at: {found.passed_over}"] if found.passed_over else [])]
    if hidden := _of_others(scan):
        pids = ", ".join(str(one.pid) for one in hidden[:8])
        notes.append(f"not looked at: processes of other users ({pids}); run this as root")
    if not found.members:
        notes.append("no process of the job was looked at: only what its store holds is known here")
    processes = look.processes
    job = _facts(found, processes, look.apart, [*notes, *found_notes, *inspector_notes(found)])
    servers, ras = ask_services(found, views, processes, timeout=SERVICE_SECONDS, host=platform.node())
    asked_already = {server.rank for server in servers if server.recorders}
    servers = (*servers, *(one for one in read_recorder_files(found) if one.rank not in asked_already))
    if not processes:
        by_agents = any(view.agents or view.rendezvous for view in views)
        job = replace(job, launcher="torchrun" if by_agents else "")
    job = replace(job, servers=servers, ras=ras)
    builders = {str(one.pid): one.variables for one in found.ranks}
    found_locks = asyncio.run(files.probe_build_locks(builders))
    ports = view.served_ports(found)
    further = view.further_stores(found, views, ports)
    views = tuple(replace(one, served_by=ports.get(one.port)) for one in views)
    strangers = _strangers(views, processes, look.tables.listening(processes[0].pid)) if processes else ()
    job = replace(job, further_stores=further)
    return replace(job, stores=views, locks=found_locks or (), ended=_ended(found, scan), strangers=strangers)


def _ended(found: LocalJob, scan: jobs.Scan) -> tuple[int, ...]:
    """Return the ended processes for the job's facts: only their parent, name and state are readable."""
    alike = {(one.parent, one.name) for one in found.ranks if one.parent in scan.candidates}
    siblings = (pid for pid, parent in scan.parents.items() if parent in {parent for parent, _ in alike})
    return tuple(
        pid
        for pid in sorted(siblings)
        if (stat := proc.stat(pid)) is not None
        and stat.state == "Z"
        and (stat.parent, (proc.read_text(pid, "comm", 64) or "").strip()) in alike
    )


def _strangers(
    views: Iterable[StoreView], processes: Sequence[JobProcess], listening: Collection[tuple[str, int]]
) -> tuple[int, ...]:
    """Return the unknown processes for the job's facts. ``listening``: ports with a listener."""
    groups = [group for view in views if (group := view.default_group) is not None]
    ours = {(s.local, s.local_port) for one in processes for s in one.sockets or () if s.state == "LISTEN"}
    at = {member.rank: (member.address, member.port) for group in groups for member in group.members if member.port}
    return tuple(sorted(rank for rank, place in at.items() if place in listening and place not in ours))


def _facts(found: LocalJob, processes: Sequence[JobProcess], apart: float, notes: Sequence[str]) -> JobFacts:
    """Return the job's facts: of torchrun's options if its agent runs here, else of the variables of its ranks."""
    ranks, options = [one for one in processes if one.role == "rank"], found.options
    address, port = _master(found)
    world = next((one.world_size for one in ranks if one.world_size is not None), None)
    local = next((one.local_world_size for one in ranks if one.local_world_size is not None), None)
    node_rank = next((one.node_rank for one in ranks if one.node_rank is not None), None)
    facts = JobFacts(
        id=found.id,
        launcher=_launcher(found, ranks),
        run_id=found.run_id,
        master_addr=address,
        master_port=port,
        nnodes=-(-world // local) if world and local else None,
        nproc_per_node=str(local or ""),
        node_rank=node_rank,
        world_size=world,
        netns=found.netns,
        ray=found.ray,
        processes=tuple(sorted(processes, key=_order)),
        seconds=round(apart, 2),
        notes=tuple(notes),
    )
    if options is None:
        return facts
    return replace(
        facts,
        rdzv_backend=options.rdzv_backend,
        rdzv_endpoint=f"{options.endpoint[0]}:{options.endpoint[1]}" if options.endpoint else "",
        join_timeout=options.join_timeout,
        connect_timeout=options.connect_timeout,
        nnodes=options.awaited_nodes or facts.nnodes,
        nproc_per_node=options.nproc_per_node,
        node_rank=node_rank if node_rank is not None else options.static_node_rank,
    )


def _launcher(found: LocalJob, ranks: Sequence[JobProcess]) -> str:
    """Return the kind of launcher; ``fork``: a script that started its ranks itself, without numbers."""
    if found.ray is not None:
        return "ray"
    if found.options or found.variable(RUN_ID):
        return "torchrun"
    return "env" if any(one.rank is not None for one in ranks) else "fork"


def _master(found: LocalJob) -> tuple[str, int | None]:
    """Return the master's address and port, of the variables or, with static rendezvous, of torchrun's endpoint."""
    address, port = found.variable(MASTER_ADDR.variables[0]), found.variable(MASTER_PORT.variables[0])
    options = found.options
    if not address and options and options.rdzv_backend == "static" and options.endpoint:
        address, port = options.endpoint[0], str(options.endpoint[1])
    number = number_of(port)
    return address, number if number is not None else DEFAULT_PORT if address else None


def _order(one: JobProcess) -> tuple[int, int, int]:
    roles = ("agent", "launcher", "helper", "rank", "loader", "child")
    return roles.index(one.role), one.rank if one.rank is not None else 1 << 30, one.pid


def _plan(job: JobFacts) -> Plan:
    """Return the job's plan, from the settings of its processes."""
    ranks = job.ranks
    local = next((one.local_world_size for one in ranks if one.local_world_size), None)
    return Plan(
        nnodes=job.nnodes,
        nproc_per_node=max(local or 0, len(ranks)) or None,  # more than planned, if some ranks exist twice
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


# Answers of the job's own services, if it has any: its worker servers and NCCL's RAS. Nothing is turned on.


VARIABLE = "NCCL_RAS_ADDR"
_TRIES = 8
"""Tries to reach the RAS of this job, if another job answers."""
_NAMED = re.compile(r"[Pp]rocess (\d{1,10}) on node ")


def ask_services(
    found: LocalJob, views: Iterable[StoreView], processes: Sequence[JobProcess], *, timeout: float, host: str
) -> tuple[tuple[WorkerServer, ...], RasView | None]:
    """Return the answers of both, asked in the network namespace of the job: on another one's loopback other processes
    may listen."""
    try:
        with namespaces.of(found.members, found.netns):
            return by_servers(views, timeout=timeout, hosts=[host]), view_by_ras(processes, timeout=timeout)
    except OSError:
        return (), None  # it cannot be entered, which the store's view reports


def by_servers(views: Iterable[StoreView], *, timeout: float, hosts: Sequence[str] = ()) -> tuple[WorkerServer, ...]:
    """Return the answers of the worker servers that a store names."""
    named = next((view for view in views if view.debug_servers), None)
    return debug_server.ask_debug_servers(named, timeout=timeout, hosts=hosts) if named else ()


def view_by_ras(processes: Sequence[JobProcess], *, timeout: float) -> RasView | None:
    """Return RAS's answer; None if no process of the job listens for clients.

    Ranks of all jobs on a host share its port (SO_REUSEPORT), and the kernel chooses the one that answers: it is asked
    again if another job is recognized.
    """
    pids, until = {one.pid for one in processes}, time.monotonic() + timeout
    view = _by_ras(processes, timeout=timeout)
    for _ in range(_TRIES):
        left = until - time.monotonic()
        if view is None or left <= 0 or not _is_of_another_job(view, pids):
            break
        view = _by_ras(processes, timeout=left) or view
    return view


def _is_of_another_job(view: RasView, pids: Collection[int]) -> bool:
    """Return whether none of the processes that it names is in ``pids``."""
    named = {int(pid) for line in (*view.errors, *view.warnings) for pid in _NAMED.findall(line)}
    return bool(named) and named.isdisjoint(pids)


def _by_ras(processes: Iterable[JobProcess], *, timeout: float) -> RasView | None:
    for one in processes:
        _, port = split_endpoint(one.variables.get(VARIABLE, ""))
        listening = (
            s for s in one.sockets or () if s.state == "LISTEN" and s.local_port == (port or debug_server.RAS_PORT)
        )
        for found in listening:
            parsed = parse_address(found.local)
            anywhere = parsed is not None and parsed.is_unspecified
            address = "127.0.0.1" if anywhere else found.local
            return debug_server.ask_ras(address, found.local_port, timeout=timeout, world=one.world_size)
    return None


# Files of NCCL's Inspector plugin, which also counts the collectives of communicators outside torch, such as pynccl's.


INSPECTOR = "NCCL_INSPECTOR_DUMP_DIR"
_MOST_FILES, _END_BYTES = 256, 1 << 20
"""Most files that are read, and bytes of the end of each: later records have the higher numbers."""


def inspector_notes(found: LocalJob) -> Iterator[str]:
    """Yield the ranks that completed fewer collectives than their peers, by files written since the job's start."""
    since = time.time() - max((proc.uptime() - one.started for one in found.ranks), default=0.0)
    folders = {
        one.variables[INSPECTOR]: one.pid for one in found.ranks if os.path.isabs(one.variables.get(INSPECTOR, ""))
    }
    progress = nccl_inspector.Progress()
    for folder, pid in folders.items():
        for name in sorted(proc.list_names(pid, f"root{folder}"))[:_MOST_FILES]:
            try:
                number = os.open(f"/proc/{pid}/root{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            with open(number, "rb") as file:
                status = os.fstat(number)
                if stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
                    file.seek(max(0, status.st_size - _END_BYTES))
                    list(progress.take([file.read(_END_BYTES)]))
    yield from (f"NCCL's {line}" for line in progress.compared())


# Flight-recorder files that ranks on this host wrote recently. No rank is asked to write one.
#
# A rank writes to a prefix and its number (c10d/FlightRecorder.cpp, ``DebugInfoWriter``): the prefix of a variable,
# else one of the defaults of torch 2.5 to 2.13. With NCCL its watchdog writes one when a collective timed out.


MOST_BYTES = 32 << 20
RECENT = 300.0
"""Seconds: older files may be of an earlier hang."""
_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def read_recorder_files(found: LocalJob) -> tuple[WorkerServer, ...]:
    """Return the content of the files, one entry for each rank that has one."""
    servers = []
    for one in found.ranks:
        rank = one.variables.get(RANK.variables[0], "")
        if number_of(rank) is None:
            continue
        for prefix in prefixes(one.variables):
            entry = _read(one, int(rank), f"{prefix}{rank}")
            if entry is not None:
                servers.append(entry)
                break
    return tuple(servers)


def prefixes(env: dict[str, str]) -> Iterator[str]:
    """Yield the file prefixes of a rank with these variables."""
    yield from (env[name] for name in _VARIABLES if os.path.isabs(env.get(name, "")))
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if os.path.isabs(cache):
        yield f"{cache}/torch/comm_lib_trace_rank_"
        yield f"{home}/.cache/torch/nccl_trace_rank_"
    yield "/tmp/nccl_trace_rank_"


def _read(one: JobCandidate, rank: int, path: str) -> WorkerServer | None:
    """Return the content of the file, None if this process wrote none."""
    url = encodable(f"file:{path}")[:300]
    try:
        # A file in /tmp may belong to anybody: no link is followed, and no pipe is opened.
        owner = os.stat(f"/proc/{one.pid}").st_uid
        number = os.open(f"/proc/{one.pid}/root{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(number, "rb") as file:
        status = os.fstat(number)
        since = min(RECENT, max(0.0, proc.uptime() - one.started) + 1.0)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < time.time() - since or status.st_uid != owner:
            return None
        try:
            dump = flight_recorder.load(path, file.read(MOST_BYTES))
        except (OSError, flight_recorder.BadDump):
            return None
    return WorkerServer(rank, url, recorders=recorders_of(dump))

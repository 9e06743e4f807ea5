"""Which job each process belongs to, and what it is there: an agent, a rank, a worker of its data loader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from distdoctor.inspection import proc_files, ray_jobs
from distdoctor.inspection.candidates import DATA_WORKER, Candidate, Scan
from distdoctor.inspection.command_line import AgentOptions, of_agent
from distdoctor.inspection.sockets import SocketTables
from distdoctor.launch.nodes import number_of
from distdoctor.model.addresses import endpoint
from distdoctor.model.facts import RayView
from distdoctor.model.facts.job import Role
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, MASTER_PORT, NPROC_PER_NODE, RANK, WORLD_SIZE
from distdoctor.model.launch_variables import RUN_ID, STARTED_BY

_OUTGOING = ("SYN_SENT", "ESTABLISHED", "CLOSE_WAIT")
_UNNAMED = "pid "
"""How the names of jobs begin that no variable and no agent tells."""


@dataclass
class Found:
    """One job on this host."""

    id: str
    netns: str
    members: dict[int, tuple[Candidate, Role]] = field(default_factory=dict)
    options: AgentOptions | None = None
    """torchrun's, where an agent of it is here."""
    ray: RayView | None = None
    """What Ray's files say, where Ray started it."""
    beside: str = ""
    """The other jobs of this machine that were passed over, as they are called, with a process of each."""

    @property
    def ranks(self) -> list[Candidate]:
        """Those of its processes that are ranks."""
        return [one for one, role in self.members.values() if role == "rank"]

    def variable(self, name: str) -> str:
        """What most of its ranks have for a variable; empty where none has it."""
        values = [value for one in self.ranks if (value := one.variables.get(name))]
        return max(values, key=values.count) if values else ""

    @property
    def run_id(self) -> str:
        """Its run id: torchrun's, or empty."""
        return self.variable(RUN_ID) or (self.options.rdzv_id if self.options else "")

    def serves(self) -> bool:
        """Whether one of its ranks here serves a store."""
        return any(name.startswith("pt_tcpstore") for one in self.ranks for name in one.thread_names)

    def seen_store(self) -> tuple[str, int] | None:
        """Where its store is by the sockets of its ranks, where no variable says so: one of them serves it, or most of
        them are connected, or try to be, to one and the same port."""
        tables = SocketTables()
        dialled: list[tuple[str, int]] = []
        for one in self.ranks:
            sockets = tables.of(one.pid) or ()
            listening = {s.local_port for s in sockets if s.state == "LISTEN"}
            if any(name.startswith("pt_tcpstore") for name in one.thread_names):
                served = [s for s in sockets if s.remote_port in listening and s.state == "ESTABLISHED"]
                if served:
                    return served[0].remote, served[0].remote_port
            dialled += [
                (s.remote, s.remote_port) for s in sockets if s.state in _OUTGOING and s.local_port not in listening
            ]
        return max(dialled, key=dialled.count) if dialled else None


def find(scan: Scan, wanted: int | None = None) -> list[Found]:
    """The jobs of which processes are here; ``wanted`` is a process that belongs to one, whatever it looks like."""
    roles = _roles(scan, wanted)
    found: dict[tuple[str, str], Found] = {}
    for pid, role in roles.items():
        one = scan.candidates[pid]
        key = _job_id(one, roles, scan)
        job = found.setdefault((key, one.netns), Found(key, one.netns))
        job.members[pid] = (one, role)
        if role == "agent" and job.options is None:
            job.options = of_agent(one.command, one.variables)
    _with_children(found.values(), scan)
    alone = not any(job.ranks or job.options for job in found.values())
    for job in found.values():
        job.ray = ray_jobs.view_of([one for one, _ in job.members.values()], scan, alone)
    return of_one_world(joined([job for job in found.values() if job.ranks or job.options or job.ray]))


def of_one_world(jobs: Iterable[Found]) -> list[Found]:
    """The jobs, where those are one whose ranks were told different ports of one master: they run one script, and only
    together they are the ranks that are to be here, each of them once. Rank 0 is its first."""
    told: list[Found] = []
    alike: dict[tuple[str, ...], list[Found]] = {}
    for job in jobs:
        names = (MASTER_ADDR.variables[0], WORLD_SIZE.variables[0], NPROC_PER_NODE.variables[0])
        by_variables = job.options is None and all(_is_rank(one) for one in job.ranks)
        key = (job.netns, *map(job.variable, names)) if by_variables and job.variable(names[0]) else (job.id, job.netns)
        alike.setdefault(key, []).append(job)
    for those in (part for jobs_alike in alike.values() for part in _by_program(jobs_alike)):
        ranks = [one for job in those for one in job.ranks]
        if len(those) > 1 and all(_one_program(ranks[0], one) for one in ranks[1:]) and _are_all(ranks):
            those.sort(key=lambda job: min(number_of(one.variables[RANK.variables[0]]) or 0 for one in job.ranks))
            for other in those[1:]:
                those[0].members.update(other.members)
            told.append(those[0])
        else:
            told += those
    return told


def _by_program(jobs: Sequence[Found]) -> list[list[Found]]:
    """The jobs whose first ranks run the same program, each beside the others."""
    parts: list[list[Found]] = []
    for job in jobs:
        mine = (those for those in parts if those[0].ranks and job.ranks)
        part = next((those for those in mine if _one_program(those[0].ranks[0], job.ranks[0])), None)
        if part is None:
            parts.append([job])
        else:
            part.append(job)
    return parts


def _are_all(ranks: Sequence[Candidate]) -> bool:
    """Whether these are all ranks that are to be on one host, each of them once, as they were told themselves."""
    for name, size in ((LOCAL_RANK, NPROC_PER_NODE), (RANK, WORLD_SIZE)):
        numbers = sorted(number_of(one.variables.get(name.variables[0])) or 0 for one in ranks)
        sizes = {number_of(one.variables.get(size.variables[0])) for one in ranks}
        if sizes != {None}:
            return sizes == {len(ranks)} and numbers == [*range(len(ranks))]
    return False


def joined(jobs: Iterable[Found]) -> list[Found]:
    """The jobs, where those are one that no variable tells apart and that are connected to each other, as all ranks are
    to their store: each was started by itself, with its number among its arguments."""
    told: list[Found] = []
    tables = SocketTables()
    ends: dict[int, set[tuple[str, int, str, int]]] = {}
    for job in jobs:
        told.append(job)
        if not job.id.startswith(_UNNAMED) or job.options is not None:
            continue
        sockets = (socket for one in job.ranks for socket in tables.of(one.pid) or () if socket.state in _OUTGOING)
        mine = {(socket.local, socket.local_port, socket.remote, socket.remote_port) for socket in sockets}
        far = {(remote, port, local, own) for local, own, remote, port in mine}
        for other in [one for one in told[:-1] if one.netns == job.netns and not far.isdisjoint(ends.get(id(one), ()))]:
            job.members.update(other.members)
            mine |= ends.pop(id(other))
            told.remove(other)
        ends[id(job)] = mine
    return told


def _roles(scan: Scan, wanted: int | None) -> dict[int, Role]:
    """What each candidate is; those that belong to no job are left out."""
    roles: dict[int, Role] = {}
    loose: list[Candidate] = []
    for pid in sorted(scan.candidates, key=lambda pid: len(scan.above(pid))):
        one = scan.candidates[pid]
        above = _nearest(scan, pid, roles)
        if one.is_agent and not _is_rank(one):
            roles[pid] = "agent"
        elif one.ray and not _is_rank(one):
            roles[pid] = "rank" if ray_jobs.is_worker(one) else "launcher"
        elif above is not None and roles[above] in ("rank", "loader", "child") and not _own_rank(one, scan, above):
            roles[pid] = "loader" if one.name == DATA_WORKER else "child"
        elif _is_rank(one) or one.is_distributed or (pid == wanted and not _starts_ranks(pid, scan)):
            roles[pid] = "rank"
        else:
            loose.append(one)
    # Beside a rank, started by the same process: a rank that has not come so far that one sees it.
    for one in loose:
        beside = [pid for pid, role in roles.items() if role == "rank" and scan.parents.get(pid) == one.parent]
        if one.torch is not None and beside and one.parent in scan.candidates and one.name != DATA_WORKER:
            roles[one.pid] = "rank"
        elif any(role == "rank" and one.pid in scan.above(pid) for pid, role in roles.items()):
            roles[one.pid] = "launcher"
    # A script that starts another, which is the rank: both have its variables.
    for pid in [pid for pid, role in roles.items() if role == "rank" and not scan.candidates[pid].is_distributed]:
        if any(role == "rank" and pid in scan.above(other) for other, role in roles.items()):
            roles[pid] = "launcher"
    return {pid: role for pid, role in roles.items() if role != "rank" or not _left_behind(pid, roles, scan)}


def _starts_ranks(pid: int, scan: Scan) -> bool:
    """Whether what looks like a rank runs below it."""
    return any((_is_rank(one) or one.is_distributed) and pid in scan.above(one.pid) for one in scan.candidates.values())


def _left_behind(pid: int, roles: dict[int, Role], scan: Scan) -> bool:
    """Whether it has its number from a rank that started it and is not above it any more, as of a service that put
    itself into the background: it runs another program, later, and has no group."""
    one, name = scan.candidates[pid], RANK.variables[0]
    if one.is_distributed or any(above in roles for above in scan.above(pid)):
        return False
    places = (name, WORLD_SIZE.variables[0], MASTER_ADDR.variables[0], MASTER_PORT.variables[0])
    told = [one.variables.get(word) for word in places]
    for other in (scan.candidates[rank] for rank, role in roles.items() if role == "rank" and rank != pid):
        same = other.netns == one.netns and told == [other.variables.get(word) for word in places]
        if same and other.is_distributed and other.started <= one.started and not _one_program(one, other):
            return True
    return False


def _one_program(one: Candidate, other: Candidate) -> bool:
    """Whether both run the same script or module, whatever they are told."""
    mine, others = ({word for word in of.command if word.endswith(".py")} for of in (one, other))
    if mine or others:
        return not mine.isdisjoint(others)
    return one.command[1:4] == other.command[1:4]


def inherited(found: Found, scan: Scan) -> set[int]:
    """The ranks whose variables are those of the one process that started them and others (torch.multiprocessing's
    spawn in a task of SLURM): the number there is not theirs."""
    started: dict[int, list[int]] = {}
    for one in found.ranks:
        for above in scan.above(one.pid):
            if above in scan.candidates and _numbers(scan.candidates[above]) == _numbers(one) != ():
                started.setdefault(above, []).append(one.pid)
    return {pid for those in started.values() if len(those) > 1 for pid in those}


def _numbers(one: Candidate) -> tuple[str, ...]:
    names = (*RANK.variables, RANK.slurm, *STARTED_BY)
    return tuple(f"{name}={one.variables[name]}" for name in names if name in one.variables)


def _is_rank(one: Candidate) -> bool:
    """Whether its variables make it one: they are those at its start, and a child inherits them."""
    told = RANK.variables[0] in one.variables and WORLD_SIZE.variables[0] in one.variables
    return told or (one.torch is not None and any(name in one.variables for name in STARTED_BY))


def _own_rank(one: Candidate, scan: Scan, above: int) -> bool:
    """Whether it is a rank though one is above it: its number is another one, or it has a group of its own. Rank 0 may
    start the others itself and tell them no number but that on this host (Lightning's SubprocessScriptLauncher)."""
    for name in (RANK.variables[0], LOCAL_RANK.variables[0] if one.is_distributed else ""):
        if name and one.variables.get(name) != scan.candidates[above].variables.get(name):
            return True
    return one.is_distributed and not scan.candidates[above].is_distributed


def _nearest(scan: Scan, pid: int, roles: dict[int, Role]) -> int | None:
    return next((above for above in scan.above(pid) if above in roles), None)


def _job_id(one: Candidate, roles: dict[int, Role], scan: Scan) -> str:
    """What its job is called: by its agent, else by where the ranks meet, else by the process that started them."""
    if one.ray:
        return ray_jobs.name_of(one, scan)
    chain = [one.pid, *(pid for pid in scan.above(one.pid) if pid in roles)]
    agent = next((pid for pid in chain if roles[pid] == "agent"), None)
    if agent is not None:
        found = scan.candidates[agent]
        options = of_agent(found.command, found.variables)
        meets = None if options.may_pick_port else options.endpoint
        where = endpoint(*meets) if meets else f"{_UNNAMED}{agent}"
        return f"{options.rdzv_id} at {where}" if options.rdzv_id != "none" else where
    started = (scan.candidates[pid] for pid in reversed(chain) if roles[pid] in ("rank", "launcher"))
    rank = next((first for first in started if roles[first.pid] == "rank" or _is_rank(first)), one)
    address, port = rank.variables.get(MASTER_ADDR.variables[0]), rank.variables.get(MASTER_PORT.variables[0])
    if address and port and _is_rank(rank):
        return f"{address}:{port}"
    if _is_rank(rank):
        return f"{_UNNAMED}{rank.pid}"
    return f"{_UNNAMED}{_first_above(rank, scan)}"


def _first_above(one: Candidate, scan: Scan) -> int:
    """The process that started this rank and those beside it."""
    return one.parent if one.parent in scan.candidates else one.pid


def _with_children(jobs: Iterable[Found], scan: Scan) -> None:
    """With what else runs below ranks: compilers, writers, loaders that have not loaded torch."""
    jobs = list(jobs)
    ranks = {one.pid: job for job in jobs for one in job.ranks}
    known = {pid for job in jobs for pid in job.members}
    for pid in scan.parents:
        if pid in known:
            continue
        job = next((ranks[above] for above in scan.above(pid) if above in ranks), None)
        stat = proc_files.stat(pid) if job is not None else None
        if job is None or stat is None:
            continue
        name = (proc_files.text(pid, "comm", 64) or "").strip()
        one = Candidate(pid, stat.parent, stat.started, stat.state, name, (), {}, True, None, job.netns)
        job.members[pid] = (one, "child")


def of_namespace(jobs: Sequence[Found], netns: str) -> tuple[list[Found], list[Found]]:
    """Those of this network namespace, and the others: containers, or hosts of a cluster on one machine."""
    return [job for job in jobs if job.netns == netns], [job for job in jobs if job.netns != netns]

"""Jobs on this host: which processes belong to each, and their roles (agent, rank, worker of a data loader)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from distdoctor.hang import proc, ray
from distdoctor.hang import ray as hang_ray
from distdoctor.hang.agent_options import AgentOptions, of_agent
from distdoctor.hang.proc import SocketTables
from distdoctor.model.addresses import endpoint
from distdoctor.model.facts import RayView
from distdoctor.model.facts.job import Role
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, MASTER_PORT, NPROC_PER_NODE, RANK, WORLD_SIZE
from distdoctor.model.launch_variables import RANK_VARIABLES, RUN_ID, STARTED_BY
from distdoctor.model.text import ADDRESS_VARIABLES, fit, without_userinfo
from distdoctor.plan.syntax import number_of

_OUTGOING = ("SYN_SENT", "ESTABLISHED", "CLOSE_WAIT")
_UNNAMED = "pid "
"""Prefix of the names of jobs that have neither a variable nor an agent with a name."""


@dataclass
class LocalJob:
    """Job on this host."""

    id: str
    netns: str
    members: dict[int, tuple[JobCandidate, Role]] = field(default_factory=dict)
    options: AgentOptions | None = None
    """Options of torchrun, if its agent is here."""
    ray: RayView | None = None
    """Facts from Ray's files, if Ray started the job."""
    passed_over: str = ""
    """Names of the other jobs on this machine that were passed over, with a process of each."""

    @property
    def ranks(self) -> list[JobCandidate]:
        """Return the processes that are ranks."""
        return [one for one, role in self.members.values() if role == "rank"]

    def variable(self, name: str) -> str:
        """Return the value of a variable on most ranks, empty if none has it."""
        values = [value for one in self.ranks if (value := one.variables.get(name))]
        return max(values, key=values.count) if values else ""

    @property
    def run_id(self) -> str:
        """Return torchrun's run id, or empty."""
        return self.variable(RUN_ID) or (self.options.rdzv_id if self.options else "")

    def serves(self) -> bool:
        """Return whether one of its ranks here serves a store."""
        return any(name.startswith("pt_tcpstore") for one in self.ranks for name in one.thread_names)

    def store_of_sockets(self) -> tuple[str, int] | None:
        """Return the address of the store by the sockets of its ranks, for a job without variables.

        One of them serves it, or most of them are connected, or try to connect, to one port. Of several such ports it
        is the first: gloo and NCCL connect ranks only with the help of the store.
        """
        tables = SocketTables()
        dialled: list[tuple[str, int]] = []
        for one in self.ranks:
            sockets = tables.of(one.pid) or ()
            listening = {s.local_port for s in sockets if s.state == "LISTEN"}
            if any(name.startswith("pt_tcpstore") for name in one.thread_names):
                served = [s for s in sockets if s.remote_port in listening and s.state == "ESTABLISHED"]
                if served:
                    return served[0].remote, served[0].remote_port
            outgoing = (s for s in sockets if s.state in _OUTGOING and s.local_port not in listening)
            dialled += dict.fromkeys((s.remote, s.remote_port) for s in outgoing)
        return max(dialled, key=dialled.count) if dialled else None


def find(scan: Scan, wanted: int | None = None) -> list[LocalJob]:
    """Return the jobs with processes here; ``wanted`` is a process that belongs to one, whatever it looks like."""
    roles = _roles(scan, wanted)
    found: dict[tuple[str, str], LocalJob] = {}
    around = {pid for pid, role in roles.items() if role in _AROUND and not scan.candidates[pid].ray}
    for pid, role in roles.items():
        one = scan.candidates[pid]
        if pid in around:
            continue
        key = _job_id(one, roles, scan)
        job = found.setdefault((key, one.netns), LocalJob(key, one.netns))
        job.members[pid] = (one, role)
        if role == "agent" and job.options is None:
            job.options = of_agent(one.command, one.variables)
    for pid in around:
        _add_around(pid, roles[pid], found.values(), scan)
    _with_children(found.values(), scan)
    alone = not any(job.ranks or job.options for job in found.values())
    for job in found.values():
        job.ray = view_of([one for one, _ in job.members.values()], scan, alone)
    return merged_by_world(joined([job for job in found.values() if job.ranks or job.options or job.ray]))


_AROUND: tuple[Role, ...] = ("launcher", "helper")
"""Roles of processes that belong to the jobs of the ranks which they started, or beside which they were started."""


def _add_around(pid: int, role: Role, jobs: Iterable[LocalJob], scan: Scan) -> None:
    """Add a launcher to the jobs of the ranks below it, and a helper to those of ranks below its parent."""
    start = pid if role == "launcher" else scan.parents.get(pid, 0)
    for job in jobs:
        if any(start in scan.above(rank.pid) for rank in job.ranks):
            job.members[pid] = (scan.candidates[pid], role)


def merged_by_world(jobs: Iterable[LocalJob]) -> list[LocalJob]:
    """Return the jobs, merging those whose ranks got different ports of one master.

    They run one script, and only together they have all ranks of this host, each once. Rank 0 is the first.
    """
    merged: list[LocalJob] = []
    alike: dict[tuple[str, ...], list[LocalJob]] = {}
    for job in jobs:
        names = (MASTER_ADDR.variables[0], WORLD_SIZE.variables[0], NPROC_PER_NODE.variables[0])
        by_variables = job.options is None and all(_is_rank(one) for one in job.ranks)
        key = (job.netns, *map(job.variable, names)) if by_variables and job.variable(names[0]) else (job.id, job.netns)
        alike.setdefault(key, []).append(job)
    for group in (part for jobs_alike in alike.values() for part in _by_program(jobs_alike)):
        ranks = [one for job in group for one in job.ranks]
        if len(group) > 1 and all(_one_program(ranks[0], one) for one in ranks[1:]) and _are_all(ranks):
            group.sort(key=lambda job: min(number_of(one.variables[RANK.variables[0]]) or 0 for one in job.ranks))
            for other in group[1:]:
                group[0].members.update(other.members)
            merged.append(group[0])
        else:
            merged += group
    return merged


def _by_program(jobs: Sequence[LocalJob]) -> list[list[LocalJob]]:
    """Return the jobs grouped by the program of their first ranks."""
    parts: list[list[LocalJob]] = []
    for job in jobs:
        mine = (jobs_of_program for jobs_of_program in parts if jobs_of_program[0].ranks and job.ranks)
        part = next(
            (jobs_of_program for jobs_of_program in mine if _one_program(jobs_of_program[0].ranks[0], job.ranks[0])),
            None,
        )
        if part is None:
            parts.append([job])
        else:
            part.append(job)
    return parts


def _are_all(ranks: Sequence[JobCandidate]) -> bool:
    """Return whether these are all ranks that belong on one host, each once, by their own variables."""
    for name, size in ((LOCAL_RANK, NPROC_PER_NODE), (RANK, WORLD_SIZE)):
        numbers = sorted(number_of(one.variables.get(name.variables[0])) or 0 for one in ranks)
        sizes = {number_of(one.variables.get(size.variables[0])) for one in ranks}
        if sizes != {None}:
            return sizes == {len(ranks)} and numbers == [*range(len(ranks))]
    return False


def joined(jobs: Iterable[LocalJob]) -> list[LocalJob]:
    """Return the jobs, merging those without variables that are connected to each other, as all ranks are to their
    store.

    Each was started by itself, with its rank among its arguments.
    """
    merged: list[LocalJob] = []
    tables = SocketTables()
    ends: dict[int, set[tuple[str, int, str, int]]] = {}
    for job in jobs:
        merged.append(job)
        if not job.id.startswith(_UNNAMED) or job.options is not None:
            continue
        sockets = (socket for one in job.ranks for socket in tables.of(one.pid) or () if socket.state in _OUTGOING)
        mine = {(socket.local, socket.local_port, socket.remote, socket.remote_port) for socket in sockets}
        far = {(remote, port, local, own) for local, own, remote, port in mine}
        for other in [
            one for one in merged[:-1] if one.netns == job.netns and not far.isdisjoint(ends.get(id(one), ()))
        ]:
            job.members.update(other.members)
            mine |= ends.pop(id(other))
            merged.remove(other)
        ends[id(job)] = mine
    return merged


def _roles(scan: Scan, wanted: int | None) -> dict[int, Role]:
    """Return the role of each candidate; processes without a job are left out."""
    roles: dict[int, Role] = {}
    candidates = sorted(scan.candidates.values(), key=lambda one: len(scan.above(one.pid)))
    for one in candidates:
        if (role := _own_role(one, roles, scan, wanted)) is not None:
            roles[one.pid] = role
    for one in [one for one in candidates if one.pid not in roles]:
        if (role := _role_by_relatives(one, roles, scan)) is not None:
            roles[one.pid] = role
    ranks = [pid for pid, role in roles.items() if role == "rank"]
    started = {above for pid in ranks for above in scan.above(pid)}
    roles |= {pid: "launcher" for pid in ranks if pid in started and _may_start_ranks(scan.candidates[pid])}
    return {pid: role for pid, role in roles.items() if role != "rank" or not _left_behind(pid, roles, scan)}


def _own_role(one: JobCandidate, roles: dict[int, Role], scan: Scan, wanted: int | None) -> Role | None:
    """Return the role of a process by its command, variables and threads, and by the role of a process above it."""
    above = _nearest(scan, one.pid, roles)
    if one.is_agent and not _is_rank(one):
        return "agent"
    if one.serves_an_engine:
        return "helper"
    if one.ray and not _is_rank(one):
        return "rank" if is_worker(one) else "launcher"
    if above is not None and roles[above] in ("rank", "loader", "child") and not _own_rank(one, scan, above):
        return "loader" if one.name == DATA_WORKER else "child"
    if _is_rank(one) or one.is_distributed or (one.pid == wanted and not _starts_ranks(one.pid, scan)):
        return "rank"
    return None


def _role_by_relatives(one: JobCandidate, roles: dict[int, Role], scan: Scan) -> Role | None:
    """Return ``rank`` for a process with torch beside ranks, which is not yet recognizable; ``launcher`` above
    ranks."""
    ranks = [pid for pid, role in roles.items() if role == "rank"]
    beside = one.parent in scan.candidates and any(scan.parents.get(pid) == one.parent for pid in ranks)
    if beside and one.torch is not None and one.name != DATA_WORKER:
        return "rank"
    return "launcher" if any(one.pid in scan.above(pid) for pid in ranks) else None


def _may_start_ranks(one: JobCandidate) -> bool:
    """Return whether a process with the variables of a rank may be none, if ranks run below it.

    It is a script that starts another one with its variables, or an engine's core, whose workers are the ranks.
    """
    return not one.is_distributed or (bool(one.title) and not one.is_worker)


def _starts_ranks(pid: int, scan: Scan) -> bool:
    """Return whether a process that looks like a rank runs below it."""
    return any((_is_rank(one) or one.is_distributed) and pid in scan.above(one.pid) for one in scan.candidates.values())


def _left_behind(pid: int, roles: dict[int, Role], scan: Scan) -> bool:
    """Return whether it inherited its rank number from a rank that is no longer its ancestor, such as a daemonized
    service.

    It runs another program, started later, and has no process group of torch.
    """
    one, name = scan.candidates[pid], RANK.variables[0]
    if one.is_distributed or any(above in roles for above in scan.above(pid)):
        return False
    places = (name, WORLD_SIZE.variables[0], MASTER_ADDR.variables[0], MASTER_PORT.variables[0])
    addresses = [one.variables.get(word) for word in places]
    for other in (scan.candidates[rank] for rank, role in roles.items() if role == "rank" and rank != pid):
        same = other.netns == one.netns and addresses == [other.variables.get(word) for word in places]
        if same and other.is_distributed and other.started <= one.started and not _one_program(one, other):
            return True
    return False


def _one_program(one: JobCandidate, other: JobCandidate) -> bool:
    """Return whether both run the same script or module, whatever their arguments."""
    mine, others = ({word for word in of.command if word.endswith(".py")} for of in (one, other))
    if mine or others:
        return not mine.isdisjoint(others)
    return one.command[1:4] == other.command[1:4]


def inherited(found: LocalJob, scan: Scan) -> set[int]:
    """Return the ranks whose variables are those of their common parent (torch.multiprocessing's spawn in a SLURM
    task): the number there is not theirs."""
    started: dict[int, list[int]] = {}
    for one in found.ranks:
        for above in scan.above(one.pid):
            if above in scan.candidates and _numbers(scan.candidates[above]) == _numbers(one) != ():
                started.setdefault(above, []).append(one.pid)
    return {pid for pids in started.values() if len(pids) > 1 for pid in pids}


def _numbers(one: JobCandidate) -> tuple[str, ...]:
    names = (*RANK.variables, RANK.slurm, *STARTED_BY)
    return tuple(f"{name}={one.variables[name]}" for name in names if name in one.variables)


def _is_rank(one: JobCandidate) -> bool:
    """Return whether its variables make it a rank: they are those at its start, and a child inherits them."""
    has_rank = RANK.variables[0] in one.variables and WORLD_SIZE.variables[0] in one.variables
    return has_rank or (one.torch is not None and any(name in one.variables for name in STARTED_BY))


def _own_rank(one: JobCandidate, scan: Scan, above: int) -> bool:
    """Return whether it is a rank below another rank: it has another number, or a process group of its own.

    Rank 0 may start the others itself and give them only a local rank (Lightning's SubprocessScriptLauncher).
    """
    if one.is_worker:
        return True
    for name in (RANK.variables[0], LOCAL_RANK.variables[0] if one.is_distributed else ""):
        if name and one.variables.get(name) != scan.candidates[above].variables.get(name):
            return True
    return one.is_distributed and not scan.candidates[above].is_distributed


def _nearest(scan: Scan, pid: int, roles: dict[int, Role]) -> int | None:
    return next((above for above in scan.above(pid) if above in roles), None)


def _job_id(one: JobCandidate, roles: dict[int, Role], scan: Scan) -> str:
    """Return the id of its job: from its agent, else the address where ranks join, else the process that started
    them."""
    if one.ray:
        return name_of(one, scan)
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


def _first_above(one: JobCandidate, scan: Scan) -> int:
    """Return the process that started this rank and its siblings."""
    return one.parent if one.parent in scan.candidates else one.pid


def _with_children(jobs: Iterable[LocalJob], scan: Scan) -> None:
    """Add the other processes below ranks: compilers, writers, loaders that have not loaded torch."""
    jobs = list(jobs)
    ranks = {one.pid: job for job in jobs for one in job.ranks}
    known = {pid for job in jobs for pid in job.members}
    for pid in scan.parents:
        if pid in known:
            continue
        job = next((ranks[above] for above in scan.above(pid) if above in ranks), None)
        stat = proc.stat(pid) if job is not None else None
        if job is None or stat is None:
            continue
        name = (proc.read_text(pid, "comm", 64) or "").strip()
        one = JobCandidate(pid, stat.parent, stat.started, stat.state, name, (), {}, True, None, job.netns)
        job.members[pid] = (one, "child")


def of_namespace(jobs: Sequence[LocalJob], netns: str) -> tuple[list[LocalJob], list[LocalJob]]:
    """Return the jobs of this network namespace, and the others: containers, or hosts of a cluster on one machine."""
    return [job for job in jobs if job.netns == netns], [job for job in jobs if job.netns != netns]


# Processes of this host that may belong to a job: those that loaded torch, and torchrun's agents.


JOB_VARIABLES = (*RANK.variables, *LOCAL_RANK.variables, RUN_ID, *(one.rank for one in RANK_VARIABLES))
"""Variables of a launcher: a Python process with one of them, but without torch yet, may be a starting rank."""
DISTRIBUTED = ("pt_tcpstore", "gloo_tcp_loop", "pt_gloo_runloop", "pt_nccl")
"""Prefixes of the names of torch.distributed's own threads, including those assigned here to unnamed ones."""
_AGENTS = ("run", "launch")
_TITLE = re.compile(r"[\w.-]{1,40}::[\w.:()=-]{1,80}")
"""Titles of vLLM's processes (``VLLM::EngineCore_DP0``; the first part can be set), SGLang's and Ray's."""
_WORKER = re.compile(r"::(?:Worker|scheduler|gpu_worker)(?:_|$)")
"""Part of the titles of an engine's ranks: vLLM's (v1/executor/multiproc_executor.py) and SGLang's
(srt/managers/scheduler.py, multimodal_gen)."""
_HELPER = re.compile(r"::(?:APIServer|DPCoordinator|tokenizer|detokenizer|data_parallel_controller|http_server|router)")
"""The same for the processes that serve the ranks of an engine, and are none."""
DATA_WORKER = "pt_data_worker"
_LIBRARY = re.compile(r"^\S+ \S*x\S* .*?(/\S.*/lib/libtorch_cpu\.so)$", re.MULTILINE)
_VERSION = re.compile(r"__version__ = '([\w.+-]{1,60})'")


@dataclass(frozen=True)
class JobCandidate:
    """Process that may belong to a job."""

    pid: int
    parent: int
    started: float
    """Seconds from the start of the system to that of the process."""
    state: str
    name: str
    command: tuple[str, ...]
    variables: dict[str, str] = field(repr=False)
    readable: bool = True
    torch: str | None = None
    """See :class:`~distdoctor.model.facts.JobProcess`."""
    netns: str = ""
    ray: str = ""
    """Job of Ray that it belongs to, as driver or as an actor of Ray Train; empty for all others."""
    ray_group: int = 0
    """Process that started this worker of Ray Train and all others of its group; 0 for any other process."""

    @cached_property
    def thread_names(self) -> tuple[str, ...]:
        """Return the names of its threads."""
        return tuple(proc.thread_names(self.pid).values())

    @property
    def is_agent(self) -> bool:
        """Return whether it is torchrun's agent, or a launcher that takes its place (torch/distributed/run.py)."""
        return self.name == "pt_elastic" or _starts_agent(self.command)

    @property
    def is_distributed(self) -> bool:
        """Return whether torch.distributed has threads in it."""
        return any(name.startswith(DISTRIBUTED) for name in self.thread_names)

    @property
    def title(self) -> str:
        """Return the title that an engine gave it; empty for a plain command line."""
        found = _TITLE.match(self.command[0]) if self.command else None
        return found[0] if found else ""

    @property
    def is_worker(self) -> bool:
        """Return whether its title is that of an engine's rank."""
        return _WORKER.search(self.title) is not None

    @property
    def serves_an_engine(self) -> bool:
        """Return whether its title is that of a process beside an engine's ranks."""
        return _HELPER.search(self.title) is not None and not self.is_distributed

    @property
    def user(self) -> str:
        """Return the user's name, or number."""
        try:
            number = os.stat(f"/proc/{self.pid}").st_uid
        except OSError:
            return ""
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)


@dataclass(frozen=True)
class Scan:
    """Candidates, and the processes above them."""

    candidates: dict[int, JobCandidate]
    parents: dict[int, int]
    """Parent of every process on this host."""
    unreadable: tuple[JobCandidate, ...] = ()
    """Processes that look like a job and are not readable."""
    ray: tuple[hang_ray.Session, ...] = ()
    """Sessions of Ray."""

    def above(self, pid: int) -> list[int]:
        """Return the processes above ``pid``, the nearest first."""
        chain: list[int] = []
        while (pid := self.parents.get(pid, 0)) > 0 and pid not in chain:
            chain.append(pid)
        return chain


def scan_processes() -> Scan:
    """Return every candidate of this host but this process and those above and below it."""
    stats = {pid: found for pid in proc.all_pids() if (found := proc.stat(pid)) is not None}
    parents = {pid: one.parent for pid, one in stats.items()}
    candidates: dict[int, JobCandidate] = {}
    unreadable: list[JobCandidate] = []
    empty = Scan({}, parents)
    own_commands = {pid: word for pid in stats if (word := _doctors_command(proc.command(pid))) is not None}
    doctors = {pid for pid, word in own_commands.items() if word != "run"} | {os.getpid()}
    ray = tuple(hang_ray.sessions(stats))
    ours = {os.getpid(), *empty.above(os.getpid()), *own_commands}
    for pid, one in stats.items():
        if pid in ours or not doctors.isdisjoint(empty.above(pid)):
            continue
        candidate = _candidate(pid, one, ray)
        if candidate is None:
            continue
        if candidate.readable:
            candidates[pid] = candidate
        else:
            unreadable.append(candidate)
    return Scan(candidates, parents, tuple(unreadable), ray)


def _candidate(pid: int, stat: proc.Stat, ray: tuple[hang_ray.Session, ...] = ()) -> JobCandidate | None:
    command = tuple(proc.command(pid))
    name = (proc.read_text(pid, "comm", 64) or "").strip()
    if not command[0] and stat.state != "Z":
        return None  # a thread of the kernel
    variables = proc.environ(pid)
    if variables is not None:  # these are reported
        variables.update({name: without_userinfo(variables[name]) for name in ADDRESS_VARIABLES if name in variables})
    torch = None
    if variables is None or stat.state == "Z":
        one = JobCandidate(pid, stat.parent, stat.started, stat.state, name, command, variables or {}, False)
        return one if _is_python(pid, command, name) and (one.is_agent or one.is_distributed) else None
    if not _is_python(pid, command, name):
        return None
    torch = _torch_of(pid)
    netns = proc.read_link(pid, "ns/net") or ""
    one = JobCandidate(pid, stat.parent, stat.started, stat.state, name, command, variables, True, torch, netns)
    one = _of_ray(one, ray) if ray else one
    return (
        one
        if one.ray or torch is not None or one.is_agent or any(word in variables for word in JOB_VARIABLES)
        else None
    )


def _of_ray(one: JobCandidate, sessions: tuple[hang_ray.Session, ...]) -> JobCandidate:
    """Return the process with the facts of Ray's session: a worker of Ray Train has its rank only in memory."""
    for session in sessions:
        worker = session.workers.get(one.pid)
        job = one.variables.get("RAY_JOB_ID", "") if str(session.raylet) == one.variables.get("RAY_RAYLET_PID") else ""
        if worker is not None and job:
            variables = one.variables | worker.variables
            return replace(one, variables=variables, ray=f"{job} of {session.name}", ray_group=worker.group)
        if job and hang_ray.is_train_command(one.command):
            return replace(one, name=fit(one.command[0].strip()), ray=f"{job} of {session.name}")
        # A driver that has ranks' threads or variables is a rank itself, of another launcher or by its own code.
        if job or one.is_distributed or RANK.variables[0] in one.variables:
            continue
        if job := hang_ray.job_of_driver(one.pid, session):
            return replace(one, ray=f"{job} of {session.name}")
    return one


def _is_python(pid: int, command: tuple[str, ...], name: str) -> bool:
    if name.startswith(("python", "pt_")):
        return True
    program = os.path.basename(proc.read_link(pid, "exe") or (command[0] if command else ""))
    return program.startswith(("python", "pypy"))


def _doctors_command(command: Sequence[str]) -> str | None:
    """Return the subcommand of a distdoctor process, also of an agent that starts some; None for any other.

    Processes below it are no job, except those of ``run``.
    """
    for place, word in enumerate(command):
        by_name = place < 6 and os.path.basename(word) == "distdoctor"
        if by_name or (place and word == "distdoctor" and command[place - 1] == "-m"):
            return next(iter(command[place + 1 :]), "")
    return None


def _starts_agent(command: tuple[str, ...]) -> bool:
    for place, word in enumerate(command[:8]):
        if os.path.basename(word) == "torchrun":
            return True
        if word == "-m" and command[place + 1 : place + 2] in (
            ("torch.distributed.run",),
            ("torch.distributed.launch",),
        ):
            return True
        if word.endswith(tuple(f"/torch/distributed/{name}.py" for name in _AGENTS)):
            return True
    return False


def _torch_of(pid: int) -> str | None:
    """Return the version of the torch that the process has loaded, from the file next to its library."""
    maps = proc.read_text(pid, "maps")
    if maps is None or "libtorch_cpu.so" not in maps:
        return None
    match = _LIBRARY.search(maps)
    if not match:
        return ""
    folder = os.path.dirname(os.path.dirname(match[1]))
    found = _VERSION.search(proc.read_text(pid, f"root{folder}/version.py", 4096) or "")
    return found[1] if found else ""


# Jobs of this host that Ray started, and the facts in its files.


def name_of(one: JobCandidate, scan: Scan) -> str:
    """Return the name of the job that a process of Ray belongs to; of several groups of workers, its own."""
    groups = {other.ray_group for other in scan.candidates.values() if other.ray == one.ray and other.ray_group}
    return f"Ray job {one.ray}" + (f", workers of pid {one.ray_group}" if len(groups) > 1 else "")


def is_worker(one: JobCandidate) -> bool:
    """Return whether a process of Ray is a worker of Ray Train: off the head node only its title and threads show
    that."""
    return bool(one.ray_group) or one.is_distributed or "TrainWorker" in one.name


def view_of(members: Collection[JobCandidate], scan: Scan, alone: bool) -> RayView | None:
    """Return the facts in Ray's files about the job of these processes, None if they are not Ray's.

    A driver without ranks here is a job if it trains with torch, or if it is ``alone`` on this host.
    """
    mine = [one for one in members if one.ray]
    session = next((s for s in scan.ray if mine and mine[0].ray.endswith(f" of {s.name}")), None)
    trains = any(one.ray_group or one.torch is not None or ray.is_train_command(one.command) for one in mine)
    if session is None or not (trains or alone):
        return None
    if not any(is_worker(one) for one in mine) and _has_own_ranks(session, mine, scan):
        return None
    driver = next((one.pid for one in mine if ray.job_of_driver(one.pid, session)), None)
    starts = {one.pid for one in mine} | {one.ray_group for one in mine}
    workers = next((ranks for pid, ranks in session.groups.items() if pid in starts), {})
    return ray.session_view(session, driver, workers)


def _has_own_ranks(session: ray.Session, mine: Collection[JobCandidate], scan: Scan) -> bool:
    """Return whether actors outside Ray Train are ranks, such as those of a trainer with its own actors.

    They are the job, and its driver waits for them.
    """
    others = (one for one in scan.candidates.values() if one not in mine and not one.ray)
    return any(one.is_distributed and one.variables.get("RAY_RAYLET_PID") == str(session.raylet) for one in others)

"""The processes of this host that may belong to a job: what has loaded torch, and torchrun's agents."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from distdoctor.inspection import proc_files, ray_session, thread_names
from distdoctor.model.launch_settings import LOCAL_RANK, RANK
from distdoctor.model.launch_variables import RANK_VARIABLES, RUN_ID
from distdoctor.model.sanitize import ADDRESS_VARIABLES, fit, without_userinfo

STARTED_BY = (
    *RANK.variables,
    *LOCAL_RANK.variables,
    RUN_ID,
    *(one.rank for one in RANK_VARIABLES),
)
"""Variables of a launcher: a Python that has one of them and has not loaded torch yet may be a rank that starts."""
DISTRIBUTED = ("pt_tcpstore", "gloo_tcp_loop", "pt_gloo_runloop", "pt_nccl")
"""Beginnings of the names that torch.distributed's own threads have, or are given here where they have none."""
_AGENTS = ("run", "launch")
DATA_WORKER = "pt_data_worker"
_LIBRARY = re.compile(r"^\S+ \S*x\S* .*?(/\S.*/lib/libtorch_cpu\.so)$", re.MULTILINE)
_VERSION = re.compile(r"__version__ = '([\w.+-]{1,60})'")


@dataclass(frozen=True)
class Candidate:
    """One process."""

    pid: int
    parent: int
    started: float
    """Seconds after the start of the system."""
    state: str
    name: str
    command: tuple[str, ...]
    variables: dict[str, str] = field(repr=False)
    readable: bool = True
    torch: str | None = None
    """As of :class:`~distdoctor.model.facts.JobProcess`."""
    netns: str = ""
    ray: str = ""
    """The job of Ray that it belongs to, as driver or as an actor of Ray Train; empty for all others."""
    ray_group: int = 0
    """The process that started this worker of Ray Train and all others of its group; 0 where it is none."""

    @cached_property
    def thread_names(self) -> tuple[str, ...]:
        """What its threads call themselves."""
        return tuple(thread_names.names_of(self.pid).values())

    @property
    def is_agent(self) -> bool:
        """Whether it is torchrun's agent, or what started one in its place (torch/distributed/run.py)."""
        return self.name == "pt_elastic" or _starts_agent(self.command)

    @property
    def is_distributed(self) -> bool:
        """Whether torch.distributed has threads in it."""
        return any(name.startswith(DISTRIBUTED) for name in self.thread_names)

    @property
    def user(self) -> str:
        """The user's name, or number."""
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
    """What was found."""

    candidates: dict[int, Candidate]
    parents: dict[int, int]
    """The parent of every process of this host."""
    unreadable: tuple[Candidate, ...] = ()
    """Those that look like a job and are not ours to see."""
    ray: tuple[ray_session.Session, ...] = ()
    """Ray's sessions."""

    def above(self, pid: int) -> list[int]:
        """The processes above ``pid``, the nearest first."""
        chain: list[int] = []
        while (pid := self.parents.get(pid, 0)) > 0 and pid not in chain:
            chain.append(pid)
        return chain


def scan() -> Scan:
    """Every candidate of this host but this process and those above and below it."""
    stats = {pid: found for pid in proc_files.all_pids() if (found := proc_files.stat(pid)) is not None}
    parents = {pid: one.parent for pid, one in stats.items()}
    candidates: dict[int, Candidate] = {}
    unreadable: list[Candidate] = []
    empty = Scan({}, parents)
    told = {pid: word for pid in stats if (word := _doctors_command(proc_files.command(pid))) is not None}
    doctors = {pid for pid, word in told.items() if word != "run"} | {os.getpid()}
    ray = tuple(ray_session.sessions(stats))
    ours = {os.getpid(), *empty.above(os.getpid()), *told}
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


def _candidate(pid: int, stat: proc_files.Stat, ray: tuple[ray_session.Session, ...] = ()) -> Candidate | None:
    command = tuple(proc_files.command(pid))
    name = (proc_files.text(pid, "comm", 64) or "").strip()
    if not command[0] and stat.state != "Z":
        return None  # a thread of the kernel
    variables = proc_files.environ(pid)
    if variables is not None:  # these are told
        variables.update({name: without_userinfo(variables[name]) for name in ADDRESS_VARIABLES if name in variables})
    torch = None
    if variables is None or stat.state == "Z":
        one = Candidate(pid, stat.parent, stat.started, stat.state, name, command, variables or {}, False)
        return one if _is_python(pid, command, name) and (one.is_agent or one.is_distributed) else None
    if not _is_python(pid, command, name):
        return None
    torch = _torch_of(pid)
    netns = proc_files.link(pid, "ns/net") or ""
    one = Candidate(pid, stat.parent, stat.started, stat.state, name, command, variables, True, torch, netns)
    one = _of_ray(one, ray) if ray else one
    return (
        one if one.ray or torch is not None or one.is_agent or any(word in variables for word in STARTED_BY) else None
    )


def _of_ray(one: Candidate, sessions: tuple[ray_session.Session, ...]) -> Candidate:
    """The process with what Ray's session says of it: a worker of Ray Train gets its numbers, which are only in the
    worker's memory."""
    for session in sessions:
        worker = session.workers.get(one.pid)
        job = one.variables.get("RAY_JOB_ID", "") if str(session.raylet) == one.variables.get("RAY_RAYLET_PID") else ""
        if worker is not None and job:
            variables = one.variables | worker.variables
            return replace(one, variables=variables, ray=f"{job} of {session.name}", ray_group=worker.group)
        if job and ray_session.trains(one.command):
            return replace(one, name=fit(one.command[0].strip()), ray=f"{job} of {session.name}")
        # A driver that has ranks' threads or variables is a rank itself, of another launcher or by its own code.
        if job or one.is_distributed or RANK.variables[0] in one.variables:
            continue
        if job := ray_session.job_of_driver(one.pid, session):
            return replace(one, ray=f"{job} of {session.name}")
    return one


def _is_python(pid: int, command: tuple[str, ...], name: str) -> bool:
    if name.startswith(("python", "pt_")):
        return True
    program = os.path.basename(proc_files.link(pid, "exe") or (command[0] if command else ""))
    return program.startswith(("python", "pypy"))


def _doctors_command(command: Sequence[str]) -> str | None:
    """What a doctor was told to do, also by an agent that starts some; None where it is none.

    What is below it is no job, but for ``run``, which has started one.
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
    """The version of the torch that the process has loaded, from the file beside its library."""
    maps = proc_files.text(pid, "maps")
    if maps is None or "libtorch_cpu.so" not in maps:
        return None
    match = _LIBRARY.search(maps)
    if not match:
        return ""
    folder = os.path.dirname(os.path.dirname(match[1]))
    found = _VERSION.search(proc_files.text(pid, f"root{folder}/version.py", 4096) or "")
    return found[1] if found else ""

"""Looking at the processes of a job: twice, some seconds apart, and what moved between the looks."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from distdoctor.inspection import feeding, proc_files, thread_names
from distdoctor.inspection.candidates import DISTRIBUTED, Candidate
from distdoctor.inspection.command_line import of_agent
from distdoctor.inspection.sleeps import EVENTS, left
from distdoctor.inspection.sockets import SocketTables
from distdoctor.inspection.syscalls import FUTEX, SLEEP, WITH_FILE, name_of, poll_limit, restarted
from distdoctor.launch.nodes import number_of
from distdoctor.model.addresses import endpoint
from distdoctor.model.facts import Frame, JobProcess, JobThread, Moved
from distdoctor.model.facts.job import SERVES, Role
from distdoctor.model.launch_settings import (
    LOCAL_RANK,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    WORLD_SIZE,
    Setting,
)
from distdoctor.model.launch_variables import RANK_VARIABLES, RESTART_COUNT
from distdoctor.model.sanitize import encodable, environment
from distdoctor.probes.identity import variables

MOST_THREADS = 256
"""Those of which it is told what they do: a rank may have hundreds that do nothing, of OpenMP and of libraries."""
_SCHEDULERS = {
    RANK.name: tuple(one.rank for one in RANK_VARIABLES),
    WORLD_SIZE.name: tuple(one.size for one in RANK_VARIABLES),
    LOCAL_RANK.name: tuple(one.local_rank for one in RANK_VARIABLES),
}
"""What other launchers call them."""


_POLL = ("TP_", "NCCL")
"""How the names of threads begin that poll: those of torch.distributed.rpc (tensorpipe/transport/shm/reactor.cc; seen
in 2.13), and of NCCL (src/proxy.cc: ``NCCL Progress``)."""
_SERVES = EVENTS | {"poll", "ppoll", "accept"}
"""Calls in which a server waits for its clients."""
_POLLS = ("poll", "ppoll")
"""Calls in which a client waits for an answer where it has set a time limit (CPython's Modules/socketmodule.c)."""
_OUTPUT = {"0x1": "its standard output", "0x2": "its standard error"}


@dataclass(frozen=True)
class Look:
    """What is counted of one process at one time."""

    at: float
    cpu: float = 0.0
    main_cpu: float = 0.0
    read: int = 0
    written: int = 0
    switches: int = 0
    call: str = ""
    frames: tuple[Frame, ...] = ()
    exchanged: int = 0
    """Bytes that gloo's threads read and wrote."""
    others: dict[int, int] = field(default_factory=dict)
    """Of its other threads: how often each gave up the processor."""


def look(pid: int, at: float, frames: tuple[Frame, ...] = (), main_thread: int | None = None) -> Look | None:
    """A look at a process; None where it is gone. ``main_thread``: the one that counts as its main one, if another."""
    thread = f"{pid}/task/{main_thread or pid}"
    whole, main = proc_files.stat(pid), proc_files.stat(thread)
    if whole is None:
        return None
    io, status = proc_files.numbers(pid, "io"), proc_files.numbers(thread, "status")
    spent, read, written, exchanged = _of_torch(pid)
    return Look(
        at,
        whole.cpu - spent,
        main.cpu if main else 0.0,
        io.get("rchar", 0) - read,
        io.get("wchar", 0) - written,
        status.get("voluntary_ctxt_switches", 0),
        (proc_files.text(thread, "syscall", 400) or "").partition(" 0x7")[0],
        frames,
        exchanged,
        {tid: times for tid, times in feeding.switches(pid).items() if tid != main_thread},
    )


def _of_torch(pid: int) -> tuple[float, int, int, int]:
    """Seconds of processor time, bytes read and bytes written of those of its threads that ask again and again whether
    something has come, though nothing has; and of a store's, which answers others that ask, this inspection too. And
    the bytes that gloo's own threads read and wrote."""
    spent, read, written, exchanged = 0.0, 0, 0, 0
    for tid in proc_files.names(pid, "task"):
        name = proc_files.text(pid, f"task/{tid}/comm", 64) or ""
        if name.startswith((*_POLL, thread_names.STORE)):
            one, io = proc_files.stat(f"{pid}/task/{tid}"), proc_files.numbers(f"{pid}/task/{tid}", "io")
            spent += one.cpu if one else 0.0
            read, written = read + io.get("rchar", 0), written + io.get("wchar", 0)
        elif name.startswith((thread_names.LOOP, thread_names.RUNS)):
            io = proc_files.numbers(f"{pid}/task/{tid}", "io")
            exchanged += io.get("rchar", 0) + io.get("wchar", 0)
    return spent, read, written, exchanged


def idle(pid: int | str) -> float | None:
    """For how many seconds its main thread, or the thread ``PID/task/TID``, has not run; None where that is not known.
    To be asked before anything that wakes it, as py-spy does."""
    then, cpu = proc_files.last_run(pid), proc_files.last_cpu(pid)
    if then is None or cpu is None:
        return None
    if then == 0:  # woken on another processor, and about to run there (kernel/sched/fair.c: migrate_task_rq_fair)
        return 0.0
    ahead = _scheduler_clock(cpu, int(time.monotonic() / 10.0))
    return None if ahead is None else round(max(0.0, time.monotonic() + ahead - then), 1)


@lru_cache(maxsize=4096)
def _scheduler_clock(cpu: int, _time: int) -> float | None:
    """By how much the scheduler's clock of a processor is ahead of time.monotonic(): each has its own, without what its
    interrupts and other guests of a virtual machine took (kernel/sched/core.c: update_rq_clock_task). None where that
    processor may not be used, or is not to be had."""
    found: list[float] = []

    def read() -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})  # of this thread alone
            time.sleep(0.001)
            if (seen := proc_files.last_run(f"self/task/{threading.get_native_id()}")) is not None:
                found.append(seen - time.monotonic())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(0.2)
    return found[0] if found else None


def moved(before: Look, after: Look) -> Moved:
    """What changed from one look to the other."""
    both = bool(before.frames and after.frames)
    return Moved(
        round(after.at - before.at, 3),
        round(after.cpu - before.cpu, 2),
        round(after.main_cpu - before.main_cpu, 2),
        after.read - before.read,
        after.written - before.written,
        after.switches - before.switches,
        before.frames != after.frames if both else None,
        before.call != after.call if before.call and after.call else None,
        exchanged=after.exchanged - before.exchanged,
    )


def process(one: Candidate, role: Role, tables: SocketTables, main_thread: int | None = None) -> JobProcess:
    """What /proc shows of a process now, but for its stack and what moved."""
    env, stat = one.variables, proc_files.stat(one.pid)
    readable = one.readable and (role == "child" or os.access(f"/proc/{one.pid}/environ", os.R_OK))
    return encodable(
        JobProcess(
            pid=one.pid,
            parent=one.parent,
            role=role,
            name=one.name,
            state=stat.state if stat else "",
            user=one.user,
            age=round(max(0.0, proc_files.uptime() - one.started), 1),
            rank=_number(env, RANK) if role == "rank" else None,
            local_rank=_number(env, LOCAL_RANK) if role == "rank" else None,
            node_rank=of_agent(one.command, env).static_node_rank if role == "agent" else _number(env, NODE_RANK),
            world_size=_number(env, WORLD_SIZE),
            local_world_size=_number(env, NPROC_PER_NODE),
            restart=number_of(env.get(RESTART_COUNT)) or 0,
            variables=environment(variables(env)) if role in ("rank", "agent") else {},
            torch=one.torch,
            threads=threads(one.pid, tables, main_thread)[: None if role != "child" else 1],
            sockets=tables.of(one.pid) if role != "child" else None,
            files=_files(one.pid) if role == "rank" else (),
            readable=readable,
            frozen=proc_files.frozen(one.pid) if role == "rank" else "",
        )
    )


def threads(pid: int, tables: SocketTables, main_thread: int | None = None) -> tuple[JobThread, ...]:
    """Its threads, the main one first, or what counts as that. Of too many those of torch.distributed are told, and
    the first of the others."""
    names, main = thread_names.names_of(pid), main_thread or pid
    first = sorted(names, key=lambda tid: (tid != main, not names[tid].startswith(DISTRIBUTED), tid))[:MOST_THREADS]
    # In the order in which they were begun, which that of their numbers is only as long as these do not start anew.
    begun = {tid: one.started for tid in first if (one := proc_files.stat(f"{pid}/task/{tid}")) is not None}
    tids = sorted(first, key=lambda tid: (tid != main, begun.get(tid, 0.0), tid))
    return tuple(_thread(pid, tid, names[tid], tables, main) for tid in tids)


def _thread(pid: int, tid: int, name: str, tables: SocketTables, main_thread: int) -> JobThread:
    task, main = f"{pid}/task/{tid}", tid == main_thread
    stat = proc_files.stat(task)
    words = (proc_files.text(task, "syscall", 400) or "").split()
    call = name_of(*words[:2]) if words and words[0].lstrip("-").isdecimal() else ""
    waits_in = (proc_files.text(task, "wchan", 200) or "").strip()
    timed = words[4] != "0x0" if call == FUTEX and len(words) > 4 else None
    if call == "restart_syscall":
        call, timed = restarted(waits_in)
    reads = ""
    if call in WITH_FILE and len(words) > 1:
        reads = proc_files.link(pid, f"fd/{int(words[1], 16)}") or ""
        found = tables.at(pid, reads[len("socket:[") : -1]) if reads.startswith("socket:[") else None
        if found is not None and found.remote_port:
            reads = f"{reads} to {endpoint(found.remote, found.remote_port)}"
        if reads.startswith("pipe:") and words[1] in _OUTPUT:
            reads = f"{reads} ({_OUTPUT[words[1]]})"
    if main and call in _SERVES and (port := thread_names.port_served(pid, (call, *words[1:]), tables)):
        reads = f"{SERVES}{port}"
    if call in _POLLS and not reads and not name.startswith(DISTRIBUTED):
        asked = thread_names.asked_by(pid, (call, *words[1:]), tables)
        reads = f"socket: to {endpoint(asked.remote, asked.remote_port)}" if asked is not None else ""
    # Since when it sleeps is known of the main thread alone; Python's sleep says when it ends.
    asleep = left(pid, words, idle(task) if main else None) if call == SLEEP or (call in EVENTS and main) else None
    state = stat.state if stat else ""
    age = None
    if stat is not None and not main and name.startswith(DISTRIBUTED):
        age = round(max(0.0, proc_files.uptime() - stat.started), 1)
    return JobThread(
        tid,
        name,
        state,
        waits_in.removeprefix("0"),
        call,
        timed,
        limit=poll_limit(words) if main and call == "poll" else None,
        age=age,
        reads=reads[:300],
        left=asleep,
    )


def _files(pid: int) -> tuple[str, ...]:
    """Where its output goes, as far as it goes to files."""
    links = (proc_files.link(pid, f"fd/{number}") for number in (1, 2))
    return tuple(dict.fromkeys(path for path in links if path and re.match(r"/(?!dev/)", path)))


def _number(env: dict[str, str], setting: Setting) -> int | None:
    for name in (*setting.variables, *_SCHEDULERS.get(setting.name, ())):
        if (value := number_of(env.get(name))) is not None:
            return value
    return None

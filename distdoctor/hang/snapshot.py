"""Snapshot of a job's processes: two looks some seconds apart, the changes between them, and samples of stacks."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

from distdoctor.hang import blocked_on, jobs, peers, proc, stacks
from distdoctor.hang.agent_options import of_agent
from distdoctor.hang.blocked_on import EVENTS, sleep_left
from distdoctor.hang.jobs import DISTRIBUTED, JobCandidate, LocalJob, Scan
from distdoctor.hang.proc import FUTEX, SLEEP, WITH_FILE, SocketTables, name_of, poll_limit, restarted
from distdoctor.hang.stacks import may_have_training_thread, training_thread
from distdoctor.knowledge.live.stacks import AT_ZMQ, PATHS
from distdoctor.model.addresses import endpoint
from distdoctor.model.facts import Frame, JobProcess, JobThread, ProcessChanges
from distdoctor.model.facts.job import SERVES, Role
from distdoctor.model.launch_settings import LOCAL_RANK, NODE_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE, Setting
from distdoctor.model.launch_variables import RANK_VARIABLES, RESTART_COUNT
from distdoctor.model.text import encodable, environment
from distdoctor.plan.syntax import number_of
from distdoctor.probes.host.identity import variables

MOST_THREADS = 256
"""Most threads that are reported: a rank may have hundreds of idle ones, of OpenMP and of libraries."""
_SCHEDULERS = {
    RANK.name: tuple(one.rank for one in RANK_VARIABLES),
    WORLD_SIZE.name: tuple(one.size for one in RANK_VARIABLES),
    LOCAL_RANK.name: tuple(one.local_rank for one in RANK_VARIABLES),
}
"""Names of the rank variables of other launchers."""


_POLL = ("TP_", "NCCL")
"""Prefixes of the names of polling threads: torch.distributed.rpc's (tensorpipe/transport/shm/reactor.cc; seen in
2.13), and NCCL's (src/proxy.cc: ``NCCL Progress``)."""
CLOCK_SECONDS = 1.0
"""Limit for the turn of a thread on a busy processor: of each second, real-time threads leave the others 50 ms
(sched(7))."""
_SERVES = EVENTS | {"poll", "ppoll", "accept"}
"""Calls in which a server waits for its clients."""
_POLLS = ("poll", "ppoll")
"""Calls in which a client waits for an answer with a time limit (CPython's Modules/socketmodule.c)."""
_OUTPUT = {"0x1": "its standard output", "0x2": "its standard error"}


@dataclass(frozen=True)
class Look:
    """Counters of one process at one time."""

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
    """Voluntary context switches of its other threads."""


def take(pid: int, at: float, frames: tuple[Frame, ...] = (), main_thread: int | None = None) -> Look | None:
    """Return a look at a process, None if it is gone. ``main_thread``: the thread that counts as its main one, if
    another."""
    thread = f"{pid}/task/{main_thread or pid}"
    whole, main = proc.stat(pid), proc.stat(thread)
    if whole is None:
        return None
    io, status = proc.list_numbers(pid, "io"), proc.list_numbers(thread, "status")
    spent, read, written, exchanged = _of_torch(pid)
    return Look(
        at,
        whole.cpu - spent,
        main.cpu if main else 0.0,
        io.get("rchar", 0) - read,
        io.get("wchar", 0) - written,
        status.get("voluntary_ctxt_switches", 0),
        (proc.read_text(thread, "syscall", 400) or "").partition(" 0x7")[0],
        frames,
        exchanged,
        {tid: times for tid, times in blocked_on.context_switches(pid).items() if tid != main_thread},
    )


def _of_torch(pid: int) -> tuple[float, int, int, int]:
    """Return counters of threads whose activity is no progress: seconds of processor time, bytes read, bytes written.

    These are polling threads, and a store's, which answers others (including this inspection). The fourth value is the
    bytes that gloo's own threads read and wrote.
    """
    spent, read, written, exchanged = 0.0, 0, 0, 0
    for tid in proc.list_names(pid, "task"):
        name = proc.read_text(pid, f"task/{tid}/comm", 64) or ""
        if name.startswith((*_POLL, proc.STORE)):
            one, io = proc.stat(f"{pid}/task/{tid}"), proc.list_numbers(f"{pid}/task/{tid}", "io")
            spent += one.cpu if one else 0.0
            read, written = read + io.get("rchar", 0), written + io.get("wchar", 0)
        elif name.startswith((proc.LOOP, proc.RUNS)):
            io = proc.list_numbers(f"{pid}/task/{tid}", "io")
            exchanged += io.get("rchar", 0) + io.get("wchar", 0)
    return spent, read, written, exchanged


def idle_facts(pid: int | str) -> float | None:
    """Return the seconds since its main thread, or the thread ``PID/task/TID``, last ran; None if unknown.

    Call it before anything that wakes the thread, as py-spy does.
    """
    then, cpu = proc.last_run(pid), proc.last_cpu(pid)
    if then is None or cpu is None:
        return None
    if then == 0:  # woken on another processor, and about to run there (kernel/sched/fair.c: migrate_task_rq_fair)
        return 0.0
    ahead = _scheduler_clock(cpu, int(time.monotonic() / 10.0))
    return None if ahead is None else round(max(0.0, time.monotonic() + ahead - then), 1)


@lru_cache(maxsize=4096)
def _scheduler_clock(cpu: int, _time: int) -> float | None:
    """Return the seconds by which the scheduler's clock of a processor is ahead of time.monotonic().

    Each processor has its own clock, without the time of interrupts and of other guests of a virtual machine
    (kernel/sched/core.c: update_rq_clock_task). None if that processor may not be used, or is not available.
    """
    found: list[float] = []

    def read() -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})  # of this thread alone
            time.sleep(0.001)
            if (last := proc.last_run(f"self/task/{threading.get_native_id()}")) is not None:
                found.append(last - time.monotonic())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(CLOCK_SECONDS)
    return found[0] if found else None


def movement_between(before: Look, after: Look) -> ProcessChanges:
    """Return the changes from one look to the other."""
    both = bool(before.frames and after.frames)
    return ProcessChanges(
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


def process_facts(one: JobCandidate, role: Role, tables: SocketTables, main_thread: int | None = None) -> JobProcess:
    """Return the facts of a process in /proc, without its stack and changes."""
    env, stat = one.variables, proc.stat(one.pid)
    readable = one.readable and (role == "child" or os.access(f"/proc/{one.pid}/environ", os.R_OK))
    return encodable(
        JobProcess(
            pid=one.pid,
            parent=one.parent,
            role=role,
            name=one.name,
            title=one.title,
            state=stat.state if stat else "",
            user=one.user,
            age=round(max(0.0, proc.uptime() - one.started), 1),
            rank=_setting_number(env, RANK) if role == "rank" else None,
            local_rank=_setting_number(env, LOCAL_RANK) if role == "rank" else None,
            node_rank=of_agent(one.command, env).static_node_rank
            if role == "agent"
            else _setting_number(env, NODE_RANK),
            world_size=_setting_number(env, WORLD_SIZE),
            local_world_size=_setting_number(env, NPROC_PER_NODE),
            restart=number_of(env.get(RESTART_COUNT)) or 0,
            variables=environment(variables(env)) if role in ("rank", "agent") else {},
            torch=one.torch,
            threads=thread_facts(one.pid, tables, main_thread)[: None if role != "child" else 1],
            sockets=tables.of(one.pid) if role != "child" else None,
            files=_files(one.pid) if role == "rank" else (),
            readable=readable,
            frozen=proc.frozen(one.pid) if role == "rank" else "",
        )
    )


def thread_facts(pid: int, tables: SocketTables, main_thread: int | None = None) -> tuple[JobThread, ...]:
    """Return its threads, the main one (or its substitute) first.

    If there are too many, those of torch.distributed are kept, and the first of the others.
    """
    names, main = proc.thread_names(pid), main_thread or pid
    first = sorted(names, key=lambda tid: (tid != main, not names[tid].startswith(DISTRIBUTED), tid))[:MOST_THREADS]
    # In the order of their starts, which is that of their numbers only until these wrap around.
    begun = {tid: one.started for tid in first if (one := proc.stat(f"{pid}/task/{tid}")) is not None}
    tids = sorted(first, key=lambda tid: (tid != main, begun.get(tid, 0.0), tid))
    return tuple(_thread(pid, tid, names[tid], tables, main) for tid in tids)


def _thread(pid: int, tid: int, name: str, tables: SocketTables, main_thread: int) -> JobThread:
    task, main, distributed = f"{pid}/task/{tid}", tid == main_thread, name.startswith(DISTRIBUTED)
    stat = proc.stat(task)
    words = (proc.read_text(task, "syscall", 400) or "").split()
    waits_in = (proc.read_text(task, "wchan", 200) or "").strip()
    call, timed = _call(words, waits_in)
    # The start of a sleep is known for the main thread alone; Python's sleep shows its end.
    sleeps = call == SLEEP or (call in EVENTS and main)
    return JobThread(
        tid,
        name,
        stat.state if stat else "",
        waits_in.removeprefix("0"),
        call,
        timed,
        limit=poll_limit(words) if main and call == "poll" else None,
        age=round(max(0.0, proc.uptime() - stat.started), 1) if stat and distributed and not main else None,
        reads=_waits_at(pid, (call, *words[1:]), tables, serves=main, asks=not distributed)[:300],
        left=sleep_left(pid, words, idle_facts(task) if main else None) if sleeps else None,
    )


def _call(words: Sequence[str], waits_in: str) -> tuple[str, bool | None]:
    """Return the system call in the words of ``/proc/PID/syscall``, and whether it has a time limit (None: unknown)."""
    call = name_of(*words[:2]) if words and words[0].lstrip("-").isdecimal() else ""
    if call == "restart_syscall":
        return restarted(waits_in)
    return call, words[4] != "0x0" if call == FUTEX and len(words) > 4 else None


def _waits_at(pid: int, call: Sequence[str], tables: SocketTables, *, serves: bool, asks: bool) -> str:
    """Return the file, pipe or socket at which a thread waits in a call (its name and arguments), empty if unknown.

    ``serves``, ``asks``: whether the thread may wait for clients, or poll for the answer of a server.
    """
    if serves and call[0] in _SERVES and (port := proc.port_served(pid, call, tables)):
        return f"{SERVES}{port}"
    if call[0] in WITH_FILE and len(call) > 1:
        link = proc.read_link(pid, f"fd/{int(call[1], 16)}") or ""
        socket = tables.at(pid, link[len("socket:[") : -1]) if link.startswith("socket:[") else None
        if socket is not None and socket.remote_port:
            return f"{link} to {endpoint(socket.remote, socket.remote_port)}"
        return f"{link} ({_OUTPUT[call[1]]})" if link.startswith("pipe:") and call[1] in _OUTPUT else link
    if serves and proc.at_zmq(pid, call):
        return AT_ZMQ
    asked = proc.connection_of_call(pid, call, tables) if asks and call[0] in _POLLS else None
    return f"socket: to {endpoint(asked.remote, asked.remote_port)}" if asked is not None else ""


def _files(pid: int) -> tuple[str, ...]:
    """Return the files that its output goes to."""
    links = (proc.read_link(pid, f"fd/{number}") for number in (1, 2))
    return tuple(dict.fromkeys(path for path in links if path and re.match(r"/(?!dev/)", path)))


def _setting_number(env: dict[str, str], setting: Setting) -> int | None:
    for name in (*setting.variables, *_SCHEDULERS.get(setting.name, ())):
        if (value := number_of(env.get(name))) is not None:
            return value
    return None


# Two looks at a job's processes some seconds apart: the place of each, and its changes.


MOST_CHILDREN = 8
"""Most processes below ranks whose stacks are read: a pool may have many, and each takes time."""
SETTLES, SETTLING = 30, 0.05
"""Most further looks at a process that was about to run, and the seconds between. On a busy host a process that polls
waits for a processor for most of the time."""
RESTED = 0.02
"""Seconds of processor time below which it has hardly run between the looks."""
STOPPED_FOR, STOP_TRIES = 0.5, 25
"""Seconds for which a stopped process is watched, and the number of looks: cpulimit(1) stops a process ten times a
second."""


@dataclass(frozen=True)
class Snapshot:
    """Processes of a job, as seen in two looks."""

    processes: tuple[JobProcess, ...]
    """Processes that existed both times."""
    apart: float
    """Seconds between the looks."""
    tables: SocketTables
    notes: tuple[str, ...]
    """Facts that could not be read, with the reasons."""


def take_two(found: LocalJob, scan: Scan, apart: float, wanted: str, meanwhile: Callable[[], object]) -> Snapshot:
    """Look twice, ``apart`` seconds from each other; ``meanwhile`` is called between the looks.

    ``wanted``: the value of ``--stacks``.
    """
    traced, reason = _traced(found, wanted)
    idle = {pid: _idle(one) for pid, (one, _) in found.members.items()}
    first_stacks = stacks.read(traced)
    mains = {pid: training_thread(pid, stack) for pid, (stack, _) in first_stacks.items()}
    began = time.monotonic()
    first = {pid: take(pid, began, main_thread=mains.get(pid)) for pid in found.members}
    meanwhile()
    here = [pid for pid in traced if found.members[pid][1] == "rank"]
    world = found.variable(WORLD_SIZE.variables[0])
    # A wait for a GPU uses the processor, so all may do so and wait for each other.
    sure = not any(name.startswith("pt_nccl") for one in found.ranks for name in one.thread_names)
    # On a busy machine ``meanwhile`` takes most of the time: some is left for the samples.
    until = max(began + apart, time.monotonic() + min(apart, MIN_SAMPLING_SECONDS))
    paths = sample_paths(here, until, alone=sure and world == str(len(here)), mains=mains)
    time.sleep(max(0.0, began + apart - time.monotonic()))
    second = {pid: take(pid, time.monotonic(), main_thread=mains.get(pid)) for pid in found.members}
    seconds = time.monotonic() - began
    tables = SocketTables()
    numbers_of_others = jobs.inherited(found, scan)
    last = {
        pid: process_facts(one, role, tables, mains.get(pid))
        for pid, (one, role) in found.members.items()
        if second[pid] is not None
    }
    last |= _settled(last, found, tables, {pid: one.main_cpu for pid, one in first.items() if one is not None}, mains)
    last |= _going_on(last)
    gone = [pid for pid in found.members if pid not in last]
    ended = [above for pid in gone for above in scan.above(pid)]
    last_stacks = stacks.read(last.keys() & set(traced), native=wanted == "on", given=True)
    processes = []
    for pid, look in last.items():
        before, after = first[pid], second[pid]
        if before is None or after is None:
            continue
        awake = blocked_on.woken_threads(pid, before.others, after.others)
        moved = replace(
            movement_between(before, after),
            fed=blocked_on.fed_descriptors(pid, awake, seconds),
            woke=tuple(sorted(awake)),
        )
        moved = replace(moved, ended=ended.count(pid))
        look = replace(look, moved=moved, idle=idle[pid].get(mains.get(pid, pid)))
        if pid in numbers_of_others:
            look = replace(look, rank=None, local_rank=None)
        look = with_stacks(look, first_stacks.get(pid), last_stacks.get(pid), paths.get(pid, ()))
        processes.append(blocked_on.with_lock(look))
    notes = [*([reason] if reason else []), *stacks.failed(last_stacks)]
    if gone:
        notes.append(f"ended while it was looked at: process {', '.join(map(str, gone[:8]))}")
    processes = blocked_on.with_answerers(blocked_on.with_pipe_peers(processes), tables)
    processes = peers.with_peers(processes, found.netns)
    return Snapshot(tuple(processes), seconds, tables, tuple(notes))


def _settled(
    processes: Mapping[int, JobProcess],
    found: LocalJob,
    tables: SocketTables,
    before: Mapping[int, float],
    mains: Mapping[int, int] | None = None,
) -> dict[int, JobProcess]:
    """Return another look at processes that were about to run and have hardly run since the first look.

    A process that polls every second is then asleep. ``before``: the processor time of the main threads.
    """
    later: dict[int, JobProcess] = {}
    waking = [pid for pid, one in processes.items() if _about_to_run(one)]
    for _ in range(SETTLES if waking else 0):
        time.sleep(SETTLING)
        stats = {pid: proc.stat(f"{pid}/task/{(mains or {}).get(pid, pid)}") for pid in waking}
        waking = [pid for pid, one in stats.items() if one is not None and one.cpu - before.get(pid, one.cpu) < RESTED]
        later |= {pid: process_facts(*found.members[pid], tables, (mains or {}).get(pid)) for pid in waking}
        waking = [pid for pid in waking if _about_to_run(later[pid])]
        if not waking:
            break
    return later


def _going_on(processes: Mapping[int, JobProcess]) -> dict[int, JobProcess]:
    """Return the stopped processes that continue within a moment: something limits their share of the processor."""
    stopped = {pid: one for pid, one in processes.items() if one.state == "T"}
    going: dict[int, JobProcess] = {}
    for _ in range(STOP_TRIES if stopped else 0):
        time.sleep(STOPPED_FOR / STOP_TRIES)
        states = {pid: stat.state for pid in stopped.keys() - going if (stat := proc.stat(pid)) is not None}
        going |= {pid: replace(stopped[pid], state=state) for pid, state in states.items() if state != "T"}
        if len(going) == len(stopped):
            break
    return going


def _idle(one: JobCandidate) -> dict[int, float | None]:
    """Return the seconds since the main thread last ran; for a worker of Ray, of each thread, as any may be its main
    one."""
    tids = map(int, proc.list_names(one.pid, "task")) if may_have_training_thread(one.command) else [one.pid]
    return {tid: idle_facts(f"{one.pid}/task/{tid}") for tid in tids}


def _about_to_run(one: JobProcess) -> bool:
    return one.main is not None and one.main.state == "R" and not one.main.call


def _traced(found: LocalJob, wanted: str) -> tuple[Sequence[int], str]:
    """Return the processes whose stacks are read, and the reason if there are none."""
    pids = [pid for pid, (_, role) in found.members.items() if role != "child"]
    # Below ranks only Python processes, such as those of multiprocessing: their command was read.
    pids += [pid for pid, (one, role) in found.members.items() if role == "child" and one.command][:MOST_CHILDREN]
    if wanted == "off":
        return [], ""
    reason = stacks.why_not(pids) if pids else ""
    # A frozen process does not stop for a debugger, which would wait for it.
    frozen = {one.pid for one in found.ranks if proc.frozen(one.pid)}
    return [] if reason else [pid for pid in pids if pid not in frozen], reason


def with_stacks(
    one: JobProcess,
    before: tuple[stacks.Stack, str] | None,
    after: tuple[stacks.Stack, str] | None,
    paths: Collection[StackPath] = (),
) -> JobProcess:
    """Return the process with its stacks and the change of its main thread's stack; ``paths``: samples in between."""
    if after is None:
        return one
    frames, error = after
    threads = tuple(replace(thread, frames=frames.get(thread.tid, ())) for thread in one.threads)
    main = one.main.tid if one.main is not None else one.pid
    if before is not None and one.moved is not None and main in before[0] and main in frames:
        python = [tuple(f for f in stack[main] if f.file.endswith(".py")) for stack in (before[0], frames)]
        all_paths = {*paths, *map(stack_path, python)} if paths else ()
        one = replace(one, moved=replace(one.moved, stack=python[0] != python[1], paths=len(all_paths) or None))
    return replace(one, threads=threads, stack_error=error)


# Samples of the stacks of processes that compute while others wait for them: progress, or a loop in one function.


MOST_PROCESSES, MOST_SAMPLES = 4, 24
"""Most processes and samples.

24 samples show three paths in nearly every look even if more than half of the time goes into one function, as in a
model of small layers: simulated from 245 samples, 2 of 10,000 looks do not; with 16 samples 41, with 10 528.
"""
BETWEEN = 0.01
"""Seconds between two samples: a model gets through some layers meanwhile."""
MOST_OF_ALL = 2
"""Most processes that are sampled if all processes here compute."""
MORE_SECONDS = 2.0
"""Additional seconds for all samples on a busy machine: with fewer samples a process with progress looks more often
like one without."""
_WATCHED = 0.3
"""Seconds for which the processor time is measured to find computing processes."""
MIN_SAMPLING_SECONDS = 0.7
"""Seconds for samples, however long the first look took."""
StackPath = tuple[tuple[str, str], ...]


def stack_path(frames: Iterable[Frame]) -> StackPath:
    """Return the functions on a stack without lines: a loop that calls nothing stays on one path."""
    return tuple((frame.file, frame.function) for frame in frames if frame.file.endswith(".py"))


def sample_paths(
    traced: Collection[int], end: float, alone: bool = True, mains: Mapping[int, int] | None = None
) -> dict[int, set[StackPath]]:
    """Return the sampled paths of each computing process until ``end`` (time.monotonic()).

    ``mains``: the threads that count as their main ones. None is sampled if all compute and are ``alone``: nobody waits
    for them.
    """
    if end - time.monotonic() < 2 * _WATCHED or (alone and len(traced) < 2):
        return {}
    main_of = {pid: (mains or {}).get(pid, pid) for pid in traced}
    busy = _computing(main_of)
    everyone = len(busy) == len(traced)
    if not busy or (everyone and alone):
        return {}
    return _sampled(busy[: MOST_OF_ALL if everyone else MOST_PROCESSES], main_of, end + MORE_SECONDS)


def _computing(main_of: Mapping[int, int]) -> list[int]:
    """Return the processes whose main thread computes, as seen for a moment."""
    before = {pid: _main(pid, main) for pid, main in main_of.items()}
    time.sleep(_WATCHED)
    return [pid for pid, main in main_of.items() if _computes(before[pid], _main(pid, main))]


def _sampled(pids: Sequence[int], main_of: Mapping[int, int], end: float) -> dict[int, set[StackPath]]:
    """Return the paths of each process in samples until ``end``, or until it has enough of them."""
    found: dict[int, set[StackPath]] = {pid: set() for pid in pids}
    ran = {pid: _cpu(pid, main_of[pid]) for pid in found}
    taken = dict.fromkeys(found, 0)
    while time.monotonic() <= end:
        left = [pid for pid in found if taken[pid] < MOST_SAMPLES and len(found[pid]) < PATHS]
        if not left:
            break
        # A process that got no processor since the last sample is at the same place, which proves nothing.
        moved = {pid: cpu for pid in left if (cpu := _cpu(pid, main_of[pid])) > ran[pid] or not taken[pid]}
        for pid, (stack, _) in stacks.read(moved).items():
            if main_of[pid] in stack:
                found[pid].add(stack_path(stack[main_of[pid]]))
            taken[pid] += 1
            ran[pid] = moved[pid]
        time.sleep(BETWEEN)
    return found


def _main(pid: int, tid: int) -> proc.Stat | None:
    return proc.stat(f"{pid}/task/{tid}")


def _cpu(pid: int, tid: int) -> float:
    """Return the processor time of its main thread in seconds, 0.0 if it has ended."""
    found = _main(pid, tid)
    return found.cpu if found is not None else 0.0


def _computes(before: proc.Stat | None, after: proc.Stat | None) -> bool:
    """Return whether a main thread used the processor for some hundredths of a second, or waited for one."""
    return before is not None and after is not None and (after.state == "R" or after.cpu - before.cpu > 0.02)

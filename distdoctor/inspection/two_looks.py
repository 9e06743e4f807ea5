"""The processes of a job, looked at twice some seconds apart: where each of them is, and what moved meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from distdoctor.inspection import answerers, feeding, file_locks, jobs, looks, pipe_ends, proc_files, samples, stacks
from distdoctor.inspection.candidates import Candidate, Scan
from distdoctor.inspection.jobs import Found
from distdoctor.inspection.sockets import SocketTables
from distdoctor.inspection.training_threads import may_have_training_thread, training_thread
from distdoctor.model.facts import JobProcess
from distdoctor.model.launch_settings import WORLD_SIZE

MOST_CHILDREN = 8
"""Processes below ranks whose stacks are read: a pool may have many, and each takes time."""
SETTLES, SETTLING = 4, 0.05
"""How often one that was about to run is looked at again, and the seconds between."""
RESTED = 0.02
"""Seconds of processor time below which it has hardly run between the looks."""
STOPPED_FOR, STOP_TRIES = 0.5, 25
"""Seconds for which one is watched that is stopped, and how often: cpulimit(1) stops a process ten times a second."""


@dataclass(frozen=True)
class Seen:
    """What was seen of them."""

    processes: tuple[JobProcess, ...]
    """Those that were there both times."""
    apart: float
    """Seconds between the looks."""
    tables: SocketTables
    notes: tuple[str, ...]
    """What could not be seen, and why."""


def at(found: Found, scan: Scan, apart: float, wanted: str, meanwhile: Callable[[], object]) -> Seen:
    """Two looks, ``apart`` seconds from each other; ``meanwhile`` is called between them. ``wanted``: which stacks, as
    ``--stacks`` tells."""
    traced, reason = _traced(found, wanted)
    idle = {pid: _idle(one) for pid, (one, _) in found.members.items()}
    first_stacks = stacks.read(traced)
    mains = {pid: training_thread(pid, stack) for pid, (stack, _) in first_stacks.items()}
    began = time.monotonic()
    first = {pid: looks.look(pid, began, main_thread=mains.get(pid)) for pid in found.members}
    meanwhile()
    here = [pid for pid in traced if found.members[pid][1] == "rank"]
    world = found.variable(WORLD_SIZE.variables[0])
    # Who waits for a GPU computes, so all may do so and wait for each other.
    sure = not any(name.startswith("pt_nccl") for one in found.ranks for name in one.thread_names)
    # What was done meanwhile takes most of the time on a busy machine: some is left for the samples all the same.
    until = max(began + apart, time.monotonic() + min(apart, samples.LEAST_SECONDS))
    paths = samples.paths(here, until, alone=sure and world == str(len(here)), mains=mains)
    time.sleep(max(0.0, began + apart - time.monotonic()))
    second = {pid: looks.look(pid, time.monotonic(), main_thread=mains.get(pid)) for pid in found.members}
    seconds = time.monotonic() - began
    tables = SocketTables()
    numbers_of_others = jobs.inherited(found, scan)
    last = {
        pid: looks.process(one, role, tables, mains.get(pid))
        for pid, (one, role) in found.members.items()
        if second[pid] is not None
    }
    last |= _settled(last, found, tables, {pid: one.main_cpu for pid, one in first.items() if one is not None}, mains)
    last |= _going_on(last)
    gone = [pid for pid in found.members if pid not in last]
    ended = [above for pid in gone for above in scan.above(pid)]
    last_stacks = stacks.read(last.keys() & set(traced), native=wanted == "on", given=True)
    processes = []
    for pid, seen in last.items():
        before, after = first[pid], second[pid]
        if before is None or after is None:
            continue
        awake = feeding.woke(pid, before.others, after.others)
        moved = replace(looks.moved(before, after), fed=feeding.fed(pid, awake, seconds), woke=tuple(sorted(awake)))
        moved = replace(moved, ended=ended.count(pid))
        seen = replace(seen, moved=moved, idle=idle[pid].get(mains.get(pid, pid)))
        if pid in numbers_of_others:
            seen = replace(seen, rank=None, local_rank=None)
        seen = with_stacks(seen, first_stacks.get(pid), last_stacks.get(pid), paths.get(pid, ()))
        processes.append(file_locks.with_lock(seen))
    notes = [*([reason] if reason else []), *stacks.failed(last_stacks)]
    if gone:
        notes.append(f"ended while it was looked at: process {', '.join(map(str, gone[:8]))}")
    processes = answerers.with_answerers(pipe_ends.with_other_ends(processes), tables)
    return Seen(tuple(processes), seconds, tables, tuple(notes))


def _settled(
    seen: Mapping[int, JobProcess],
    found: Found,
    tables: SocketTables,
    before: Mapping[int, float],
    mains: Mapping[int, int] | None = None,
) -> dict[int, JobProcess]:
    """Those that were about to run and have hardly run since the first look, looked at once more: who looks every
    second whether something has come is seen to sleep then. ``before``: the processor time of the main threads."""
    later: dict[int, JobProcess] = {}
    waking = [pid for pid, one in seen.items() if _about_to_run(one)]
    for _ in range(SETTLES if waking else 0):
        time.sleep(SETTLING)
        stats = {pid: proc_files.stat(f"{pid}/task/{(mains or {}).get(pid, pid)}") for pid in waking}
        waking = [pid for pid, one in stats.items() if one is not None and one.cpu - before.get(pid, one.cpu) < RESTED]
        later |= {pid: looks.process(*found.members[pid], tables, (mains or {}).get(pid)) for pid in waking}
        waking = [pid for pid in waking if _about_to_run(later[pid])]
        if not waking:
            break
    return later


def _going_on(seen: Mapping[int, JobProcess]) -> dict[int, JobProcess]:
    """Those that were stopped and go on within a moment: something limits their share of the processor."""
    stopped = {pid: one for pid, one in seen.items() if one.state == "T"}
    going: dict[int, JobProcess] = {}
    for _ in range(STOP_TRIES if stopped else 0):
        time.sleep(STOPPED_FOR / STOP_TRIES)
        states = {pid: stat.state for pid in stopped.keys() - going if (stat := proc_files.stat(pid)) is not None}
        going |= {pid: replace(stopped[pid], state=state) for pid, state in states.items() if state != "T"}
        if len(going) == len(stopped):
            break
    return going


def _idle(one: Candidate) -> dict[int, float | None]:
    """For how long its main thread has not run; of a worker of Ray's each thread, of which one may count as that."""
    tids = map(int, proc_files.names(one.pid, "task")) if may_have_training_thread(one.command) else [one.pid]
    return {tid: looks.idle(f"{one.pid}/task/{tid}") for tid in tids}


def _about_to_run(one: JobProcess) -> bool:
    return one.main is not None and one.main.state == "R" and not one.main.call


def _traced(found: Found, wanted: str) -> tuple[Sequence[int], str]:
    """The processes whose stacks are read, and why there are none."""
    pids = [pid for pid, (_, role) in found.members.items() if role != "child"]
    # Of what runs below ranks that which runs Python, as what multiprocessing started: its command was read.
    pids += [pid for pid, (one, role) in found.members.items() if role == "child" and one.command][:MOST_CHILDREN]
    if wanted == "off":
        return [], ""
    reason = stacks.why_not(pids) if pids else ""
    # What is frozen does not stop for a debugger, which would wait for it.
    frozen = {one.pid for one in found.ranks if proc_files.frozen(one.pid)}
    return [] if reason else [pid for pid in pids if pid not in frozen], reason


def with_stacks(
    one: JobProcess,
    before: tuple[stacks.Stack, str] | None,
    after: tuple[stacks.Stack, str] | None,
    paths: Collection[samples.Path] = (),
) -> JobProcess:
    """The process with its stacks, and how that of its main thread changed; ``paths``: where it was seen meanwhile."""
    if after is None:
        return one
    frames, error = after
    threads = tuple(replace(thread, frames=frames.get(thread.tid, ())) for thread in one.threads)
    main = one.main.tid if one.main is not None else one.pid
    if before is not None and one.moved is not None and main in before[0] and main in frames:
        python = [tuple(f for f in stack[main] if f.file.endswith(".py")) for stack in (before[0], frames)]
        ways = {*paths, *map(samples.path_of, python)} if paths else ()
        one = replace(one, moved=replace(one.moved, stack=python[0] != python[1], paths=len(ways) or None))
    return replace(one, threads=threads, stack_error=error)

"""Samples of the stacks of those that compute while others wait for them: whether they get about, or stay in one
function."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from distdoctor.inspection import proc_files, stacks
from distdoctor.knowledge.job_movement import PATHS
from distdoctor.model.facts import Frame

MOST_PROCESSES, MOST_SAMPLES = 4, 24
"""So many that nearly all looks see three paths also where more than half of the time goes into one function, as in a
model of small layers: as those paths came in 245 samples, of 10,000 looks 2 do not; with 16 samples 41, with 10 528."""
BETWEEN = 0.01
"""Seconds between two samples: a model gets through some layers meanwhile."""
MOST_OF_ALL = 2
"""Processes that are looked at where all compute that are here."""
MORE_SECONDS = 2.0
"""How much longer it may take to have them all, on a machine that has much else to do: with fewer who gets about looks
more often like one that does not."""
_WATCHED = 0.3
"""Seconds for which the processor time is looked at, to know who computes."""
LEAST_SECONDS = 0.7
"""Seconds that are left for samples however long the first look took."""
Path = tuple[tuple[str, str], ...]


def path_of(frames: Iterable[Frame]) -> Path:
    """The functions on a stack, wherever in them it is: a loop that calls nothing stays on one path."""
    return tuple((frame.file, frame.function) for frame in frames if frame.file.endswith(".py"))


def paths(
    traced: Collection[int], end: float, alone: bool = True, mains: Mapping[int, int] | None = None
) -> dict[int, set[Path]]:
    """The paths at which each process that computes was seen until ``end`` (time.monotonic()). ``mains``: the threads
    that count as their main ones. None is looked at where
    all compute, and are ``alone``: nobody waits for them."""
    if end - time.monotonic() < 2 * _WATCHED or (alone and len(traced) < 2):
        return {}
    main_of = {pid: (mains or {}).get(pid, pid) for pid in traced}
    before = {pid: _main(pid, main_of[pid]) for pid in traced}
    time.sleep(_WATCHED)
    busy = [pid for pid in traced if _computes(before[pid], _main(pid, main_of[pid]))]
    everyone = len(busy) == len(traced)
    if not busy or (everyone and alone):
        return {}
    found: dict[int, set[Path]] = {pid: set() for pid in busy[: MOST_OF_ALL if everyone else MOST_PROCESSES]}
    ran = {pid: _cpu(pid, main_of[pid]) for pid in found}
    taken = dict.fromkeys(found, 0)
    while time.monotonic() <= end + MORE_SECONDS:
        left = [pid for pid in found if taken[pid] < MOST_SAMPLES and len(found[pid]) < PATHS]
        if not left:
            break
        # Who got no processor since the last sample is where it was, which says nothing.
        moved = {pid: cpu for pid in left if (cpu := _cpu(pid, main_of[pid])) > ran[pid] or not taken[pid]}
        for pid, (stack, _) in stacks.read(moved).items():
            if main_of[pid] in stack:
                found[pid].add(path_of(stack[main_of[pid]]))
            taken[pid] += 1
            ran[pid] = moved[pid]
        time.sleep(BETWEEN)
    return found


def _main(pid: int, tid: int) -> proc_files.Stat | None:
    return proc_files.stat(f"{pid}/task/{tid}")


def _cpu(pid: int, tid: int) -> float:
    """Processor time of its main thread in seconds; 0.0 where it has ended."""
    found = _main(pid, tid)
    return found.cpu if found is not None else 0.0


def _computes(before: proc_files.Stat | None, after: proc_files.Stat | None) -> bool:
    """Whether a main thread used the processor for some hundredths of a second, or would if others left it one."""
    return before is not None and after is not None and (after.state == "R" or after.cpu - before.cpu > 0.02)

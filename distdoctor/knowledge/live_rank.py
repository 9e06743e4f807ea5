"""One rank of a job that runs now, as its checks see it: where it is, whether it works, waits, pauses or is held."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distdoctor.knowledge import job_movement, job_places, job_threads
from distdoctor.knowledge.job_places import Place
from distdoctor.knowledge.job_stacks import awaits_index
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Answerer, FileLock, JobProcess

PAUSE, DEVICE_PAUSE = 5.0, 20.0
"""Seconds for which a rank may stand still and be called slow: it waits for data, or for a service; for a disk, which
a large checkpoint keeps busy for as long, some more."""
SLEEP = 60.0
"""Seconds for which it may sleep yet, where that is known, and be called slow."""
_ASKED_AGAIN = (job_places.GROUP, job_places.KEY, job_places.COLLECTIVE, job_places.BEHIND)
"""Where a rank may look again and again whether what it waits for has come."""
_MAY_SPIN = (job_places.CODE, job_places.COLLECTIVE, job_places.GROUP, job_places.PEERS)
"""Where a rank may wait for its GPU."""


@dataclass(frozen=True, eq=False)
class LiveRank:
    """One rank whose process is here."""

    node: Node
    process: JobProcess
    number: int | None
    """Its global rank; None where neither its variables nor the store tell."""
    place: Place
    below: tuple[JobProcess, ...] = ()
    """The processes below it."""

    @cached_property
    def works(self) -> bool:
        """Whether anything moved in it, or in what runs below it."""
        return job_movement.works(self.process) or any(job_movement.works(one) for one in self.below)

    @property
    def waits(self) -> bool:
        """Whether it waits for others, and nothing moves meanwhile."""
        return self.place.kind in job_places.TOGETHER and not self.moves_on

    @property
    def moves_on(self) -> bool:
        """Whether it gets on with what it does together with others: what polls does not, however often it looks."""
        moved = self.process.moved
        if moved is None or self.place.kind in (job_places.MASTER, job_places.HOSTING, job_places.STORE):
            return False
        if self.place.spins:
            return False
        if self.place.kind in _ASKED_AGAIN and job_movement.polls(self.process) and not moved.stack:
            return False  # a store that is a file is looked at every 10 ms (c10d/FileStore.cpp), a lock every 50
        if moved.exchanged > job_movement.MUCH:
            return True  # a slow link costs no time
        most = max(1.5, moved.seconds)
        loops = max(1, len(job_threads.threads_of(self.process, "gloo_tcp_loop")))
        by_time = moved.cpu * 30 >= most * loops  # that of each group wakes up a hundred times a second, whatever comes
        return bool(moved.stack) or moved.main_cpu * 75 >= most or by_time or moved.switches > 5 * most

    @property
    def _only_computes(self) -> bool:
        moved = self.process.moved
        if moved is None or not job_movement.works(self.process) or job_movement.gets_about(self.process):
            return False
        return moved.read + moved.written <= job_movement.MUCH and not any(
            job_movement.works(one) for one in self.below
        )

    @property
    def may_spin(self) -> bool:
        """Whether it may be in a wait for a GPU, and so for a collective of NCCL, in which the processor is all that
        moves: as far as is seen it is at one place, or no stack tells and it reads and writes nothing. So it looks
        below a call of torch.distributed, too (recv() and barrier() with NCCL 2.28, seen on an H200)."""
        moved = self.process.moved
        if moved is None or not job_threads.threads_of(self.process, "pt_nccl") or moved.stack:
            return False
        if self.place.kind not in _MAY_SPIN or not self._only_computes or moved.exchanged > job_movement.MUCH:
            return False
        return moved.paths == 1 or (moved.paths is None and moved.read + moved.written == 0)

    @property
    def waited(self) -> float | None:
        """For how many seconds at least it has waited for the others; None where that is not known, as of who asks
        again and again whether a collective is through."""
        if self.place.spins:
            return None
        if self.place.kind == job_places.COLLECTIVE and job_movement.polls(self.process):
            return None
        if self.place.kind in (job_places.PEERS, job_places.GROUP, job_places.COLLECTIVE, job_places.REMOTE):
            return self.process.idle
        return None

    @cached_property
    def still(self) -> float | None:
        """For how many seconds it has stood still where it is; None where that is not known. Who waits for processes of
        its own is as still as the one that ran last."""
        mine = job_movement.still_for(self.process)
        told = [seconds for one in self.watched if (seconds := job_movement.still_for(one)) is not None]
        if told and (self.place.kind == job_places.LOADER or self.place.child is not None):
            return min(told)
        return min([mine, *told]) if mine is not None else None

    @property
    def watched(self) -> list[JobProcess]:
        """The processes below it for which it waits, as far as that is seen."""
        if self.place.child is not None:
            return [one for one in self.below if one.pid == self.place.child]
        main = self.process.main
        if main is not None and main.call in ("wait4", "waitid"):
            return list(self.below)
        if self.place.kind != job_places.LOADER:
            return []
        # Who waits for a worker looks every 5 s whether it lives (torch/utils/data/_utils/__init__.py). Up to torch 2.5
        # the name of a worker does not tell that it is one.
        workers = [one for one in self.below if one.role == "loader"] or list(self.below)
        return [one for one in workers if not awaits_index(one.main)] or workers

    @property
    def lock(self) -> FileLock | None:
        """The lock on a file that it waits for, or that a program of its own does, for which it waits."""
        waiting = (self.process, *self.watched)
        return next((one.main.lock for one in waiting if one.main is not None and one.main.lock is not None), None)

    @property
    def answerer(self) -> Answerer | None:
        """Who of its host is to answer it, or a process below it for which it waits."""
        ends = self.process.main.other_ends if self.process.main is not None else ()
        waiting = (self.process, *self.watched, *(one for one in self.below if one.pid in ends))
        return next((one.main.asks for one in waiting if one.main is not None and one.main.asks is not None), None)

    @property
    def asleep(self) -> float | None:
        """For how many seconds it sleeps yet, or what it waits for does; None where none does, or it is not known."""
        told = [one.main.left for one in (self.process, *self.watched) if one.main and one.main.left is not None]
        return min(told, default=None)

    @property
    def gets_data(self) -> bool:
        """Whether something comes for it, however slowly: for a thread or a process of it. Who waits for a
        file waits for neither."""
        main = self.process.main
        if main is not None and job_movement.awaits_file(main):
            return False
        return any(job_movement.gets_data(one) for one in (self.process, *self.below)) or any(
            one.main is not None
            and one.main.reads.startswith("socket:")
            and one.main.call not in ("poll", "ppoll")
            and one.moved is not None
            and one.moved.switches > 0
            for one in self.below
        )

    @property
    def pauses(self) -> bool:
        """Whether it stands still for so short a time that it may only be slow."""
        if self.works or self.waits or self.place.kind not in job_places.OWN or job_movement.polls(self.process):
            return False
        if self.gets_data or job_movement.ran_programs(self.process):
            return True
        if self.asleep is not None:
            return self.asleep < SLEEP
        longest = DEVICE_PAUSE if self.place.kind in (job_places.DEVICE, job_places.MEMORY) else PAUSE
        return self.still is not None and self.still < longest

    @property
    def called(self) -> str:
        """``rank 3``, or its process where its number is not known."""
        return f"rank {self.number}" if self.number is not None else f"pid {self.process.pid}"

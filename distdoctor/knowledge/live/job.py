"""A job that runs now as its checks see it: the ranks of all nodes whose facts are here, each where it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from distdoctor.knowledge.live import places, stacks
from distdoctor.knowledge.live import places as live_places
from distdoctor.knowledge.live.places import COLLECTIVE, GROUP, PEERS, Place, place_of
from distdoctor.knowledge.live.stacks import awaits_index
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import (
    Answerer,
    FileLock,
    JobFacts,
    JobProcess,
    Member,
    RasCount,
    RasView,
    StoreView,
    WorkerServer,
)

BUSY = 0.05
"""How much of a processor shows that a program works: servers that wait use some thousandths for their clocks."""
YOUNG = 10.0
"""Seconds after the start of the ranks that are here before which others may just be late."""


@dataclass(frozen=True, eq=False)
class LiveJob:
    """The job."""

    ranks: tuple[LiveRank, ...]
    stores: tuple[StoreView, ...]
    facts: tuple[tuple[Node, JobFacts], ...]
    remains: tuple[LiveRank, ...] = ()
    """What ranks had forked before they ended: it keeps their connections open, and so nobody notices."""

    @property
    def agents(self) -> Iterator[tuple[Node, JobProcess]]:
        """torchrun's agents that are here."""
        return ((node, one) for node, job in self.facts for one in job.processes if one.role == "agent")

    def answered(self, rank: LiveRank) -> bool:
        """Return whether a process of its host that works is to answer this rank; of another rank its place tells
        more."""
        asks = rank.answerer
        ranks = {one.process.pid for one in self.ranks if one.node is rank.node}
        return asks is not None and asks.pid not in ranks and asks.busy >= BUSY

    @property
    def agents_meet(self) -> bool:
        """Return whether torchrun's agents wait for each other: ranks in the store are those of an earlier attempt."""
        states = [one for view in self.stores for one in view.rendezvous_of(self.first.run_id)]
        return any(one.waiting or (one.agents and not one.complete) for one in states)

    @cached_property
    def first(self) -> JobFacts:
        """The job as the first node has it."""
        return self.facts[0][1]

    @cached_property
    def store(self) -> StoreView | None:
        """The store at which the ranks meet, where it answered: of several views that with the most in it."""
        known = [view for view in self.stores if view.known and not (view.rendezvous and not view.groups)]
        return max(known, key=lambda view: (len(view.joined), view.keys or 0), default=None)

    @property
    def servers(self) -> tuple[WorkerServer, ...]:
        """Its ranks' worker servers, each as it was first seen."""
        found = {one.rank: one for _, job in reversed(self.facts) for one in job.servers}
        return tuple(found[rank] for rank in sorted(found))

    @cached_property
    def worlds(self) -> dict[int, tuple[int, ...]]:
        """Return how many ranks it has, as its ranks were told -> those ranks."""
        told: dict[int, set[int]] = {}
        for rank in self.ranks:
            if rank.process.world_size is not None and rank.number is not None:
                told.setdefault(rank.process.world_size, set()).add(rank.number)
        group = self.store.default_group if self.store and not self.store.restarted else None
        for size, members in (group.worlds if group else {}).items():
            told.setdefault(size, set()).update(members)
        return {size: tuple(sorted(those)) for size, those in sorted(told.items(), key=lambda pair: -len(pair[1]))}

    @property
    def world(self) -> int | None:
        """Return how many ranks it has, as most of them were told."""
        found = next(iter(self.worlds), None)
        return found if found is not None else self.store.world if self.store else None

    @cached_property
    def numbers(self) -> dict[int, LiveRank]:
        """The ranks that are here, by their numbers."""
        return {rank.number: rank for rank in self.ranks if rank.number is not None}

    @cached_property
    def gone(self) -> dict[int, str]:
        """The ranks that joined on nodes whose facts are here, and have no process there, or one that has ended -> the
        node of each."""
        found = {
            r.number: r.node.name for r in self.ranks if r.place.kind == live_places.ENDED and r.number is not None
        }
        group = self.store.default_group if self.store and not self.store.restarted else None
        unknown = any(rank.number is None for rank in self.ranks)
        here = {n.identity.hostname: n.name for n, job in self.facts if all(p.readable for p in job.processes)}
        hosts_ranks = {rank.node.name for rank in self.ranks}
        lives = {(node.name, rank) for node, job in self.facts for rank in job.strangers}
        for member in group.members if group and not unknown else ():
            name = here.get(member.host)
            if name in hosts_ranks and member.rank not in self.numbers and (name, member.rank) not in lives:
                found[member.rank] = str(name)
        for node, job in self.facts:
            own = {socket.local for one in job.processes for socket in one.sockets or ()}
            pids = {one.pid for one in job.processes}
            for lost in job.ras.missing if job.ras is not None and job.ras.bereft else ():
                if lost.host in own and lost.pid not in pids and lost.rank not in self.numbers and not unknown:
                    found.setdefault(lost.rank, node.name)
        return dict(sorted(found.items()))

    @cached_property
    def claims(self) -> dict[int, list[LiveRank]]:
        """The numbers that several processes of this job have -> those processes. None of them has ended, and none runs
        below another: that would be one rank and what started it."""
        claimed: dict[int, list[LiveRank]] = {}
        meant = {self._meets(job) for node, job in self.facts if node is self.facts[0][0]}
        one_host = len({node.host_key for node, _ in self.facts}) == 1
        for node, job in self.facts:
            lonely = job.master_addr == "localhost" or is_loopback(job.master_addr)
            if self._meets(job) not in meant or (lonely and not one_host):
                continue
            for rank in self.ranks:
                own = rank.node is node and rank.process in job.processes and rank.process.rank is not None
                if own and rank.place.kind != live_places.ENDED:
                    claimed.setdefault(rank.process.rank or 0, []).append(rank)
        return {number: those for number, those in sorted(claimed.items()) if len(those) > 1}

    @property
    def on_one_host(self) -> bool:
        """Return whether it is to have one host alone, as far as its launcher or its variables say."""
        master = self.first.master_addr
        return self.first.nnodes == 1 or master == "localhost" or is_loopback(master)

    @staticmethod
    def _meets(job: JobFacts) -> tuple[str, int | None]:
        """Return what ranks of one job have in common: where they meet, and the run id."""
        return job.run_id, job.master_port

    @property
    def waiting(self) -> list[LiveRank]:
        """Those that wait for others, and nothing moves."""
        return [rank for rank in self.ranks if rank.waits]

    @property
    def waited(self) -> float | None:
        """For how many seconds at least the first of these has waited; None where that is not known."""
        return max((rank.waited for rank in self.waiting if rank.waited is not None), default=None)

    @property
    def age(self) -> float:
        """Seconds since the last of its processes here was started."""
        ages = [rank.process.age for rank in self.ranks] or [one.age for _, one in self.agents]
        return min(ages, default=0.0)

    @property
    def young(self) -> bool:
        """Return whether it was started so short a time ago that who is not here may just be late."""
        return self.age < YOUNG

    @property
    def in_rendezvous(self) -> bool:
        """Return whether its ranks are still making the default group: some wait there for others."""
        places = (live_places.MASTER, live_places.HOSTING, live_places.STORE, live_places.PEERS, live_places.GROUP)
        return any(rank.place.kind in places for rank in self.ranks)

    def host_of(self, number: int) -> str:
        """On which node a rank is; empty where it is not known."""
        if number in self.numbers:
            return self.numbers[number].node.name
        if self.store is not None and (host := self.store.host_of(number)):
            return host
        return next((node.name for node, local in self._local_worlds() if number in local), "")

    def _local_worlds(self) -> Iterator[tuple[Node, range]]:
        """The ranks that a launcher said belong on a node whose facts are here."""
        for node, job in self.facts:
            one = next((p for p in job.ranks if p.local_world_size and p.rank is not None), None)
            if one is not None and one.local_rank is not None:
                first = (one.rank or 0) - one.local_rank
                yield node, range(first, first + (one.local_world_size or 0))

    def rank_of(self, member: Member) -> LiveRank | None:
        """Return whose gloo listens where this member of a group wrote that it does; None where that is none that is
        here."""
        rank = self._listening.get((member.address, member.port or 0))
        return rank if rank is not None and member.host in ("", rank.node.identity.hostname) else None

    @cached_property
    def _listening(self) -> dict[tuple[str, int], LiveRank]:
        return {
            (socket.local, socket.local_port): rank
            for rank in self.ranks
            for socket in rank.process.sockets or ()
            if socket.state == "LISTEN"
        }

    @cached_property
    def master_ports(self) -> set[int]:
        """The ports of its stores."""
        return set().union(*(ports_of(job) for _, job in self.facts))


@lru_cache(maxsize=8)
def live_job(cluster: Cluster) -> LiveJob | None:
    """The job in the facts of these nodes; None where none is. Of several, the one of the first node."""
    facts = [(node, job) for node in cluster.nodes for job in node.facts.jobs]
    if not facts:
        return None
    stores = tuple(view for _, job in facts for view in job.stores)
    bare = LiveJob((), stores, tuple(facts))
    found = [rank for node, job in facts for rank in _ranks(node, job, bare.store)]
    remains = [rank for rank in found if _is_fork(rank.process, bare.store)]
    ranks = [rank for rank in found if rank not in remains]
    ranks = [_behind(rank, ranks) for rank in ranks]
    ranks = in_nccl(ranks, [job.ras for _, job in facts if job.ras is not None])
    ranks.sort(key=lambda rank: (rank.number is None, rank.number or 0, rank.process.pid))
    return LiveJob(tuple(ranks), stores, tuple(facts), tuple(remains))


def _ranks(node: Node, job: JobFacts, store: StoreView | None) -> Iterator[LiveRank]:
    ports = ports_of(job)
    for one in job.ranks:
        below = tuple(_below(one.pid, job.processes))
        number = one.rank if one.rank is not None else _number(one, node, store, ports)
        place = place_of(one, below, ports)
        if place.kind == live_places.CODE and stacks.may_be_between_tries(one) and not _answers(job):
            # Between two tries to connect a client of the store sleeps, for longer each time (c10d's socket.cpp).
            place = Place(live_places.MASTER, sure=False)
        yield LiveRank(node, one, number, place, below)


def _behind(rank: LiveRank, ranks: Iterable[LiveRank]) -> LiveRank:
    """The rank, which waits for another where that one, or a process below it, has the lock on a file it waits for."""
    lock = rank.lock
    if lock is None or rank.place.kind not in live_places.OWN:
        return rank
    for other in ranks:
        theirs = {other.process.pid, *(one.pid for one in other.below)}
        if other is not rank and other.node is rank.node and not theirs.isdisjoint(lock.holders):
            why = f"{lock.path}, which {other.called} has"
            return replace(rank, place=Place(live_places.BEHIND, frame=rank.place.frame, why=why))
    return rank


def _is_fork(one: JobProcess, store: StoreView | None) -> bool:
    """Return whether it is a fork of a rank, and not the rank: it has the port at which that listens for its peers,
    and has a single thread. fork(2) takes none of the others along, and gloo listens in one of its own
    (gloo_tcp_loop)."""
    group = store.default_group if store is not None and not store.restarted else None
    ports = {(member.address, member.port) for member in group.members} if group else set()
    return len(one.threads) == 1 and any(
        s.state == "LISTEN" and (s.local, s.local_port) in ports for s in one.sockets or ()
    )


def _answers(job: JobFacts) -> bool:
    """Return whether a store of the job, as far as one was asked, took the connection."""
    asked = [view.contact for view in job.stores if view.contact is not None]
    return not asked or any(contact.outcome == "open" for contact in asked)


def ports_of(job: JobFacts) -> frozenset[int]:
    """The ports of the stores of the job, as far as they are known."""
    ports = {view.port for view in job.stores}
    if job.master_port is not None:
        ports.add(job.master_port)
    _, _, port = job.rdzv_endpoint.rpartition(":")
    return frozenset(ports | ({int(port)} if port.isdecimal() and len(port) < 6 else set()))


def _below(pid: int, processes: Iterable[JobProcess]) -> Iterator[JobProcess]:
    above = {pid}
    for one in sorted(processes, key=lambda one: one.pid):
        if one.parent in above and one.role not in ("rank", "agent"):
            above.add(one.pid)
            yield one


def _number(one: JobProcess, node: Node, store: StoreView | None, ports: frozenset[int]) -> int | None:
    """The rank of a process whose variables do not tell: whoever wrote in the store that it listens where this does."""
    group = store.default_group if store else None
    listening = {(s.local, s.local_port) for s in one.sockets or () if s.state == "LISTEN"}
    for member in group.members if group else ():
        if (member.address, member.port) in listening and member.host in ("", node.identity.hostname):
            return member.rank
    if stacks.hosts_store(one) and any(port in ports for _, port in listening):
        return 0
    return None


# One rank of a job that runs now, as its checks see it: where it is, whether it works, waits, pauses or is held.


PAUSE, DEVICE_PAUSE = 5.0, 20.0
"""Seconds for which a rank may stand still and be called slow: it waits for data, or for a service; for a disk, which
a large checkpoint keeps busy for as long, some more."""
SLEEP = 60.0
"""Seconds for which it may sleep yet, where that is known, and be called slow."""
_ASKED_AGAIN = (places.GROUP, places.KEY, places.COLLECTIVE, places.BEHIND)
"""Where a rank may look again and again whether what it waits for has come."""
_MAY_SPIN = (places.CODE, places.COLLECTIVE, places.GROUP, places.PEERS)
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
        """Return whether anything moved in it, or in what runs below it."""
        return stacks.works(self.process) or any(stacks.works(one) for one in self.below)

    @property
    def waits(self) -> bool:
        """Return whether it waits for others, and nothing moves meanwhile."""
        return self.place.kind in places.TOGETHER and not self.moves_on

    @property
    def moves_on(self) -> bool:
        """Return whether it gets on with what it does together with others: what polls does not, however often it
        looks."""
        moved = self.process.moved
        if moved is None or self.place.kind in (places.MASTER, places.HOSTING, places.STORE):
            return False
        if self.place.spins:
            return False
        if self.place.kind in _ASKED_AGAIN and stacks.polls(self.process) and not moved.stack:
            return False  # a store that is a file is looked at every 10 ms (c10d/FileStore.cpp), a lock every 50
        if moved.exchanged > stacks.MUCH:
            return True  # a slow link costs no time
        most = max(1.5, moved.seconds)
        loops = max(1, len(stacks.threads_of(self.process, "gloo_tcp_loop")))
        by_time = moved.cpu * 30 >= most * loops  # that of each group wakes up a hundred times a second, whatever comes
        return bool(moved.stack) or moved.main_cpu * 75 >= most or by_time or moved.switches > 5 * most

    @property
    def _only_computes(self) -> bool:
        moved = self.process.moved
        if moved is None or not stacks.works(self.process) or stacks.gets_about(self.process):
            return False
        return moved.read + moved.written <= stacks.MUCH and not any(stacks.works(one) for one in self.below)

    @property
    def may_spin(self) -> bool:
        """Return whether it may be in a wait for a GPU, and so for a collective of NCCL, in which the processor is
        all that moves: as far as is seen it is at one place, or no stack tells and it reads and writes nothing. So
        it looks below a call of torch.distributed, too (recv() and barrier() with NCCL 2.28, seen on an H200)."""
        moved = self.process.moved
        if moved is None or not stacks.threads_of(self.process, "pt_nccl") or moved.stack:
            return False
        if self.place.kind not in _MAY_SPIN or not self._only_computes or moved.exchanged > stacks.MUCH:
            return False
        return moved.paths == 1 or (moved.paths is None and moved.read + moved.written == 0)

    @property
    def waited(self) -> float | None:
        """For how many seconds at least it has waited for the others; None where that is not known, as of who asks
        again and again whether a collective is through."""
        if self.place.spins:
            return None
        if self.place.kind == places.COLLECTIVE and stacks.polls(self.process):
            return None
        if self.place.kind in (places.PEERS, places.GROUP, places.COLLECTIVE, places.REMOTE):
            return self.process.idle
        return None

    @cached_property
    def still(self) -> float | None:
        """For how many seconds it has stood still where it is; None where that is not known. Who waits for processes of
        its own is as still as the one that ran last."""
        mine = stacks.still_for(self.process)
        told = [seconds for one in self.watched if (seconds := stacks.still_for(one)) is not None]
        if told and (self.place.kind == places.LOADER or self.place.child is not None):
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
        if self.place.kind != places.LOADER:
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
        """Return who of its host is to answer it, or a process below it for which it waits."""
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
        """Return whether something comes for it, however slowly: for a thread or a process of it.

        Who waits for a file waits for neither."""
        main = self.process.main
        if main is not None and stacks.awaits_file(main):
            return False
        return any(stacks.gets_data(one) for one in (self.process, *self.below)) or any(
            one.main is not None
            and one.main.reads.startswith("socket:")
            and one.main.call not in ("poll", "ppoll")
            and one.moved is not None
            and one.moved.switches > 0
            for one in self.below
        )

    @property
    def pauses(self) -> bool:
        """Return whether it stands still for so short a time that it may only be slow."""
        if self.works or self.waits or self.place.kind not in places.OWN or stacks.polls(self.process):
            return False
        if self.gets_data or stacks.ran_programs(self.process):
            return True
        if self.asleep is not None:
            return self.asleep < SLEEP
        longest = DEVICE_PAUSE if self.place.kind in (places.DEVICE, places.MEMORY) else PAUSE
        return self.still is not None and self.still < longest

    @property
    def called(self) -> str:
        """``rank 3``, or its process where its number is not known."""
        return f"rank {self.number}" if self.number is not None else f"pid {self.process.pid}"


# Which ranks wait in a collective of NCCL, told by how many of them each rank has called (NCCL's RAS).
#
# A rank that waits for its GPU looks the same whether that computes or is in a collective: CUDA waits with a
# processor
# busy. Where RAS says that a rank has called one which others have not, the GPU can be nowhere else in the end.


def in_nccl(ranks: Sequence[LiveRank], views: Iterable[RasView]) -> list[LiveRank]:
    """The ranks, those in a collective that are ahead of others in it; with these, those that wait for their GPU
    below another call of torch.distributed, which the others do not make."""
    told = list(views)
    counts = [count for view in told for count in view.counts if _of_these(count, ranks)]
    ahead = {rank: those for rank in ranks if rank.may_spin and (those := _ahead(rank, ranks, counts))}
    placed = [_placed(rank, ahead) for rank in ranks] if ahead else list(ranks)
    return [_bereft(rank, told) if rank.may_spin and not rank.place.spins else rank for rank in placed]


def _bereft(rank: LiveRank, views: Iterable[RasView]) -> LiveRank:
    """The rank, whose collective never ends where a process of its communicator is gone. In code of its own it may wait
    for what its GPU computes alone, as after a training that the others have ended well."""
    if rank.place.kind != COLLECTIVE or not any(rank.process.pid in view.bereft for view in views):
        return rank
    why = "a process of its communicator is gone, says NCCL's RAS"
    return replace(rank, place=replace(rank.place, why=why, spins=True))


def _placed(rank: LiveRank, ahead: dict[LiveRank, list[tuple[RasCount, int]]]) -> LiveRank:
    if those := ahead.get(rank):
        numbers = dict.fromkeys(f"{count.operation} {number}" for count, number in those)
        why = f"has called {' and '.join(numbers)}, and others have not, says NCCL's RAS"
        by_stack = rank.place.call if rank.place.kind == COLLECTIVE else ""
        call = by_stack or " and ".join(sorted({count.operation for count, _ in those}))
        groups = tuple(dict.fromkeys(count.communicator for count, _ in those))
        return replace(rank, place=Place(COLLECTIVE, call, rank.place.frame, why, spins=True, communicators=groups))
    if rank.may_spin and rank.place.kind in (COLLECTIVE, GROUP, PEERS):
        return replace(rank, place=replace(rank.place, spins=True))
    return rank


def _of_these(count: RasCount, ranks: Iterable[LiveRank]) -> bool:
    """Return whether a rank that it names is one of these: RAS of another job may listen at the same port."""
    return not {one.pid for one in count.ranks}.isdisjoint(rank.process.pid for rank in ranks)


def _ahead(rank: LiveRank, ranks: Sequence[LiveRank], counts: Iterable[RasCount]) -> list[tuple[RasCount, int]]:
    """The counts in which this rank has called more than others, each with how many it has."""
    if [one.process.pid for one in ranks].count(rank.process.pid) > 1:
        return []  # of two hosts
    called = list[tuple[RasCount, int]]()
    for count in counts:
        named = [one.launched for one in count.ranks if one.pid == rank.process.pid]
        of_all = len(count.ranks) + count.others == rank.process.world_size
        launched = named[0] if named else count.others_launched if of_all else None
        if launched is not None and launched > count.behind:
            called.append((count, launched))
    return called

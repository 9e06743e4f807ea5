"""Job that runs now, as its checks see it: the ranks of all nodes whose facts are here, with the place of each."""

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
"""Share of a processor that shows work: waiting servers use some thousandths for their clocks."""
YOUNG = 10.0
"""Seconds after the start of the ranks here before which others may just be late."""


@dataclass(frozen=True, eq=False)
class LiveJob:
    """Job with its ranks and nodes."""

    ranks: tuple[LiveRank, ...]
    stores: tuple[StoreView, ...]
    facts: tuple[tuple[Node, JobFacts], ...]
    remains: tuple[LiveRank, ...] = ()
    """Forks that ranks left when they ended: they keep the connections open, so that no peer notices."""

    @property
    def further_stores(self) -> tuple[StoreView, ...]:
        """Return the other stores that its processes serve."""
        return tuple(view for _, job in self.facts for view in job.further_stores)

    @property
    def agents(self) -> Iterator[tuple[Node, JobProcess]]:
        """Return torchrun's agents on these nodes."""
        return ((node, one) for node, job in self.facts for one in job.processes if one.role == "agent")

    def answered(self, rank: LiveRank) -> bool:
        """Return whether a working process of its host owes this rank an answer; for another rank its place shows
        more."""
        asks = rank.answerer
        ranks = {one.process.pid for one in self.ranks if one.node is rank.node}
        return asks is not None and asks.pid not in ranks and asks.busy >= BUSY

    def writer_of(self, rank: LiveRank) -> LiveRank | None:
        """Return the process that gives orders to an engine's worker that waits for one; None if it is not here.

        It has the memory of the queue mapped; if that is unknown, it is the process that started the worker.
        """
        if rank.place.kind != places.QUEUE or rank.place.why == stacks.ZMQ_FULL:
            return None
        peers = rank.process.peers
        known = peers is not None and rank.place.why == stacks.SHARED
        pids = {peer.pid for peer in peers or () if peer.memory} if known else {rank.process.parent}
        here = [one for one in self.beside if one.node is rank.node and one.process.pid in pids]
        return min(here, key=lambda one: one.process.pid != rank.process.parent, default=None)

    @cached_property
    def beside(self) -> tuple[LiveRank, ...]:
        """Return the processes that start ranks or serve them, each with its place."""
        found = ((n, job, one) for n, job in self.facts for one in job.processes if one.role in ("launcher", "helper"))
        return tuple(LiveRank(node, one, None, place_of(one, (), ports_of(job))) for node, job, one in found)

    @cached_property
    def cores(self) -> tuple[LiveRank, ...]:
        """Return the processes beside the ranks for which ranks at queues wait: for an order, or to take a message."""
        found = [one for rank in self.ranks if rank.place.why == stacks.SHARED and (one := self.writer_of(rank))]
        return tuple(dict.fromkeys((*found, *(one for rank in self.ranks for one in self.takers_of(rank)))))

    def takers_of(self, rank: LiveRank) -> list[LiveRank]:
        """Return the processes beside the ranks that may take the message which a rank waits to send."""
        ends = {peer.pid for peer in rank.process.peers or () if peer.sockets}
        sends = rank.place.why == stacks.ZMQ_FULL
        return [one for one in self.beside if sends and one.node is rank.node and one.process.pid in ends]

    def abandoned(self, rank: LiveRank) -> bool:
        """Return whether no order can come to a worker: all processes with the queue's memory only read from it."""
        readers = {one.process.pid for one in self.ranks if one.node is rank.node and one.place.why == stacks.SHARED}
        peers = rank.process.peers
        if (
            rank.place.why != stacks.SHARED
            or peers is None
            or any(r.process.pid == rank.process.parent for r in self.beside)
        ):
            return False
        return readers.issuperset(peer.pid for peer in peers if peer.memory)

    @property
    def without_requests(self) -> bool:
        """Return whether all workers of an engine wait for an order of a process that waits for a request."""
        cores = [self.writer_of(rank) for rank in self.ranks]
        return bool(cores) and all(core is not None and stacks.awaits_request(core.process.main) for core in cores)

    @property
    def core_waits(self) -> bool:
        """Return whether a process that gives orders to workers waits for them: for an answer, or for space."""
        return any(stacks.awaits_worker(one.process) for one in self.beside if one.process.role == "launcher")

    @property
    def agents_meet(self) -> bool:
        """Return whether torchrun's agents wait for each other: ranks in the store are those of an earlier attempt."""
        states = [one for view in self.stores for one in view.rendezvous_of(self.first.run_id)]
        return any(one.waiting or (one.agents and not one.complete) for one in states)

    @cached_property
    def first(self) -> JobFacts:
        """Return the job's facts from the first node."""
        return self.facts[0][1]

    @cached_property
    def store(self) -> StoreView | None:
        """Return the store at which the ranks join, if it answered: of several views the one with the most content."""
        known = [view for view in self.stores if view.known and not (view.rendezvous and not view.groups)]
        return max(known, key=lambda view: (len(view.joined), view.keys or 0), default=None)

    @property
    def servers(self) -> tuple[WorkerServer, ...]:
        """Return the worker servers of its ranks, each as it was first seen."""
        found = {one.rank: one for _, job in reversed(self.facts) for one in job.servers}
        return tuple(found[rank] for rank in sorted(found))

    @cached_property
    def worlds(self) -> dict[int, tuple[int, ...]]:
        """Return the world sizes in the variables of its ranks, else in their calls -> those ranks."""
        sizes: dict[int, set[int]] = {}
        for rank in self.ranks:
            if rank.process.world_size is not None and rank.number is not None:
                sizes.setdefault(rank.process.world_size, set()).add(rank.number)
        group = self.store.default_group if self.store and not self.store.restarted else None
        for size, members in (group.worlds if group else {}).items():
            sizes.setdefault(size, set()).update(members)
        for rank in self.ranks if not sizes else ():
            if (met := stacks.meeting_size(rank.process.main)) and rank.number is not None:
                sizes.setdefault(met, set()).add(rank.number)
        return {size: tuple(sorted(ranks)) for size, ranks in sorted(sizes.items(), key=lambda pair: -len(pair[1]))}

    @property
    def world(self) -> int | None:
        """Return the world size of most of its ranks."""
        found = next(iter(self.worlds), None)
        return found if found is not None else self.store.world if self.store else None

    @cached_property
    def numbers(self) -> dict[int, LiveRank]:
        """Return the ranks here by number."""
        return {rank.number: rank for rank in self.ranks if rank.number is not None}

    @cached_property
    def gone(self) -> dict[int, str]:
        """Return the node of each rank that joined on a node with facts here and has no live process there."""
        ended = {
            r.number: r.node.name for r in self.ranks if r.place.kind == live_places.ENDED and r.number is not None
        }
        if any(rank.number is None for rank in self.ranks):  # each may be one that seems to be gone
            return dict(sorted(ended.items()))
        missing = {**dict(self._missing_in_ras()), **dict(self._missing_members())}
        return dict(sorted({**{n: node for n, node in missing.items() if n not in self.numbers}, **ended}.items()))

    def _missing_members(self) -> Iterator[tuple[int, str]]:
        """Yield (rank, node) of members of the default group on nodes whose processes were all read."""
        group = self.store.default_group if self.store and not self.store.restarted else None
        readable = {n.identity.hostname: n.name for n, job in self.facts if all(p.readable for p in job.processes)}
        with_ranks = {rank.node.name for rank in self.ranks}
        strangers = {(node.name, rank) for node, job in self.facts for rank in job.strangers}
        for member in group.members if group else ():
            name = readable.get(member.host, "")
            if name in with_ranks and (name, member.rank) not in strangers:
                yield member.rank, name

    def _missing_in_ras(self) -> Iterator[tuple[int, str]]:
        """Yield (rank, node) of processes on these nodes that NCCL's RAS misses."""
        for node, job in self.facts:
            addresses = {socket.local for one in job.processes for socket in one.sockets or ()}
            pids = {one.pid for one in job.processes}
            for lost in job.ras.missing if job.ras is not None and job.ras.bereft else ():
                if lost.host in addresses and lost.pid not in pids:
                    yield lost.rank, node.name

    @cached_property
    def claims(self) -> dict[int, list[LiveRank]]:
        """Return the rank numbers that several processes of this job have -> those processes.

        None of them has ended, and none runs below another: that would be one rank and its parent.
        """
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
        return {number: processes for number, processes in sorted(claimed.items()) if len(processes) > 1}

    @property
    def on_one_host(self) -> bool:
        """Return whether it is planned on a single host, as far as its launcher or its variables show."""
        master = self.first.master_addr
        return self.first.nnodes == 1 or master == "localhost" or is_loopback(master)

    @staticmethod
    def _meets(job: JobFacts) -> tuple[str, int | None]:
        """Return the common properties of one job's ranks: the address where they join, and the run id."""
        return job.run_id, job.master_port

    @property
    def waiting(self) -> list[LiveRank]:
        """Return the ranks that wait for others without progress."""
        return [rank for rank in self.ranks if rank.waits]

    @property
    def waited(self) -> float | None:
        """Return the least seconds that the first of these has waited, None if unknown."""
        return max((rank.waited for rank in self.waiting if rank.waited is not None), default=None)

    @property
    def age(self) -> float:
        """Return the seconds since the last of its processes here was started."""
        ages = [rank.process.age for rank in self.ranks] or [one.age for _, one in self.agents]
        return min(ages, default=0.0)

    @property
    def young(self) -> bool:
        """Return whether it started so recently that missing ranks may just be late."""
        return self.age < YOUNG

    @property
    def in_rendezvous(self) -> bool:
        """Return whether its ranks are still making the default group: some wait there for others."""
        places = (live_places.MASTER, live_places.HOSTING, live_places.STORE, live_places.PEERS, live_places.GROUP)
        return any(rank.place.kind in places for rank in self.ranks)

    def host_of(self, number: int) -> str:
        """Return the node of a rank, empty if unknown."""
        if number in self.numbers:
            return self.numbers[number].node.name
        if self.store is not None and (host := self.store.host_of(number)):
            return host
        return next((node.name for node, local in self._local_worlds() if number in local), "")

    def _local_worlds(self) -> Iterator[tuple[Node, range]]:
        """Yield the nodes with facts here and the ranks that a launcher assigned to them."""
        for node, job in self.facts:
            one = next((p for p in job.ranks if p.local_world_size and p.rank is not None), None)
            if one is not None and one.local_rank is not None:
                first = (one.rank or 0) - one.local_rank
                yield node, range(first, first + (one.local_world_size or 0))

    def rank_of(self, member: Member) -> LiveRank | None:
        """Return the rank whose gloo listens at the address of this group member, None if it is not here."""
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
        """Return the ports of its stores."""
        return set().union(*(ports_of(job) for _, job in self.facts))


@lru_cache(maxsize=8)
def live_job(cluster: Cluster) -> LiveJob | None:
    """Return the job in the facts of these nodes, None if there is none; of several, the one of the first node."""
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
        number = one.rank if one.rank is not None else _rank_by_store(one, node, store, ports)
        place = place_of(one, below, ports)
        if place.kind == live_places.CODE and stacks.may_be_between_tries(one) and not _answers(job):
            # Between two tries to connect a client of the store sleeps, for longer each time (c10d's socket.cpp).
            place = Place(live_places.MASTER, sure=False)
        yield LiveRank(node, one, number, place, below)


def _behind(rank: LiveRank, ranks: Iterable[LiveRank]) -> LiveRank:
    """Return the rank, as waiting for another rank that holds (itself or by a child) the file lock it waits for."""
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
    """Return whether it is a fork of a rank, and not the rank: it has the rank's listening port and a single thread.

    fork(2) copies only the calling thread, and gloo listens in a thread of its own (gloo_tcp_loop).
    """
    group = store.default_group if store is not None and not store.restarted else None
    ports = {(member.address, member.port) for member in group.members} if group else set()
    return len(one.threads) == 1 and any(
        s.state == "LISTEN" and (s.local, s.local_port) in ports for s in one.sockets or ()
    )


def _answers(job: JobFacts) -> bool:
    """Return whether a store of the job, if one was asked, accepted the connection."""
    asked = [view.contact for view in job.stores if view.contact is not None]
    return not asked or any(contact.outcome == "open" for contact in asked)


def ports_of(job: JobFacts) -> frozenset[int]:
    """Return the known ports of the job's stores."""
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


def _rank_by_store(one: JobProcess, node: Node, store: StoreView | None, ports: frozenset[int]) -> int | None:
    """Return the rank of a process without rank variables: the member in the store that listens at its address."""
    group = store.default_group if store else None
    listening = {(s.local, s.local_port) for s in one.sockets or () if s.state == "LISTEN"}
    for member in group.members if group else ():
        if (member.address, member.port) in listening and member.host in ("", node.identity.hostname):
            return member.rank
    if stacks.hosts_store(one) and any(port in ports for _, port in listening):
        return 0
    return None


# Rank of a job that runs now: its place, and whether it works, waits, pauses or is held.


PAUSE, DEVICE_PAUSE = 5.0, 20.0
"""Seconds for which a rank without progress may just be slow: it waits for data, or for a service; longer for a disk,
which a large checkpoint keeps busy for as long."""
SLEEP = 60.0
"""Most seconds left of a sleep, if known, for which it may just be slow."""
_ASKED_AGAIN = (places.GROUP, places.KEY, places.COLLECTIVE, places.BEHIND)
"""Places at which a rank may poll for what it waits for."""
_MAY_SPIN = (places.CODE, places.COLLECTIVE, places.GROUP, places.PEERS)
"""Places at which a rank may wait for its GPU."""


@dataclass(frozen=True, eq=False)
class LiveRank:
    """Rank whose process is here."""

    node: Node
    process: JobProcess
    number: int | None
    """Global rank, None if neither its variables nor the store give it."""
    place: Place
    below: tuple[JobProcess, ...] = ()
    """Processes below it."""

    @cached_property
    def works(self) -> bool:
        """Return whether it, or a process below it, was active."""
        if self.place.kind == places.QUEUE:  # it asks again and again for a message, if without a pause
            return stacks.gets_about(self.process) or self.exchanges
        return stacks.works(self.process) or any(stacks.works(one) for one in self.below)

    @property
    def exchanges(self) -> bool:
        """Return whether it sent something to its peers between the looks, so that it was in a collective."""
        return self.process.moved is not None and self.process.moved.exchanged > 0

    @property
    def waits(self) -> bool:
        """Return whether it waits for others, without activity."""
        return self.place.kind in places.TOGETHER and not self.moves_on

    @property
    def moves_on(self) -> bool:
        """Return whether it makes progress in a call together with others: polling is none, however frequent."""
        moved = self.process.moved
        if moved is None or self.place.kind in (places.MASTER, places.HOSTING, places.STORE):
            return False
        if self.place.spins:
            return False
        if self.place.kind in _ASKED_AGAIN and stacks.polls(self.process) and not moved.stack:
            return False  # a store that is a file is polled every 10 ms (c10d/FileStore.cpp), a lock every 50
        if moved.exchanged > stacks.MUCH:
            return True  # a slow link costs no time
        most = max(1.5, moved.seconds)
        loops = max(1, len(stacks.threads_of(self.process, "gloo_tcp_loop")))
        by_time = (
            moved.cpu * 30 >= most * loops
        )  # the thread of each group wakes up a hundred times a second, with or without data
        return bool(moved.stack) or moved.main_cpu * 75 >= most or by_time or moved.switches > 5 * most

    @property
    def _only_computes(self) -> bool:
        moved = self.process.moved
        if moved is None or not stacks.works(self.process) or stacks.gets_about(self.process):
            return False
        return moved.read + moved.written <= stacks.MUCH and not any(stacks.works(one) for one in self.below)

    @property
    def may_spin(self) -> bool:
        """Return whether it may wait for a GPU, and so for a collective of NCCL, with only the processor active.

        It stays at one place as far as is seen, or without a stack it reads and writes nothing. It looks the same below
        a call of torch.distributed (recv() and barrier() with NCCL 2.28, seen on an H200).
        """
        return bool(stacks.threads_of(self.process, "pt_nccl")) and self.spins_in_place

    @property
    def spins_in_place(self) -> bool:
        """Return whether it is active with the processor alone, and at one place as far as is seen."""
        moved = self.process.moved
        if moved is None or moved.stack:
            return False
        if self.place.kind not in _MAY_SPIN or not self._only_computes or moved.exchanged > stacks.MUCH:
            return False
        return moved.paths == 1 or (moved.paths is None and moved.read + moved.written == 0)

    @property
    def waited(self) -> float | None:
        """Return the least seconds that it has waited for the others, None if unknown, as for a rank that polls a
        collective."""
        if self.place.spins:
            return None
        if self.place.kind == places.COLLECTIVE and stacks.polls(self.process):
            return None
        if self.place.kind in (places.PEERS, places.GROUP, places.COLLECTIVE, places.REMOTE):
            return self.process.idle
        return None

    @cached_property
    def still(self) -> float | None:
        """Return the seconds since it last made progress, None if unknown.

        A rank that waits for its own processes is as still as the one that ran last.
        """
        mine = stacks.still_for(self.process)
        times = [seconds for one in self.watched if (seconds := stacks.still_for(one)) is not None]
        if times and (self.place.kind == places.LOADER or self.place.child is not None):
            return min(times)
        return min([mine, *times]) if mine is not None else None

    @property
    def watched(self) -> list[JobProcess]:
        """Return the processes below it that it waits for, as far as is seen."""
        if self.place.child is not None:
            return [one for one in self.below if one.pid == self.place.child]
        main = self.process.main
        if main is not None and main.call in ("wait4", "waitid"):
            return list(self.below)
        if self.place.kind != places.LOADER:
            return []
        # A rank that waits for a worker checks every 5 s that it lives (torch/utils/data/_utils/__init__.py). Up to
        # torch 2.5 the name of a worker does not show that it is one.
        workers = [one for one in self.below if one.role == "loader"] or list(self.below)
        return [one for one in workers if not awaits_index(one.main)] or workers

    @property
    def lock(self) -> FileLock | None:
        """Return the file lock that it waits for, or that a program waits for which it waits for."""
        waiting = (self.process, *self.watched)
        return next((one.main.lock for one in waiting if one.main is not None and one.main.lock is not None), None)

    @property
    def answerer(self) -> Answerer | None:
        """Return the local process that it, or a process below it that it waits for, waits for; not itself, where it
        serves a store."""
        ends = self.process.main.other_ends if self.process.main is not None else ()
        waiting = (self.process, *self.watched, *(one for one in self.below if one.pid in ends))
        asked = (one.main.asks for one in waiting if one.main is not None)
        return next((asks for asks in asked if asks is not None and asks.pid != self.process.pid), None)

    @property
    def asleep(self) -> float | None:
        """Return the seconds that it, or what it waits for, has left to sleep; None if neither sleeps, or unknown."""
        times = [one.main.left for one in (self.process, *self.watched) if one.main and one.main.left is not None]
        return min(times, default=None)

    @property
    def gets_data(self) -> bool:
        """Return whether it, by a thread or a process of it, receives data, however slowly.

        A rank that waits for a file waits for neither.
        """
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
        """Return whether it stands still for so short a time that it may just be slow."""
        if self.works or self.waits or self.place.kind not in places.OWN or stacks.polls(self.process):
            return False
        if self.place.kind == places.QUEUE:
            return False  # a reader may be seen between two of its short sleeps
        if self.gets_data or stacks.ran_programs(self.process):
            return True
        if self.asleep is not None:
            return self.asleep < SLEEP
        longest = DEVICE_PAUSE if self.place.kind in (places.DEVICE, places.MEMORY) else PAUSE
        return self.still is not None and self.still < longest

    @property
    def called(self) -> str:
        """Return ``rank 3``, or its process if its number is unknown."""
        return f"rank {self.number}" if self.number is not None else f"pid {self.process.pid}"


# Ranks that wait in a collective of NCCL, by the number that each rank has called (NCCL's RAS).
#
# A rank that waits for its GPU looks the same whether the GPU computes or is in a collective: CUDA waits with a busy
# processor. If RAS reports that a rank has called one which others have not, its GPU must end up there.


def in_nccl(ranks: Sequence[LiveRank], views: Iterable[RasView]) -> list[LiveRank]:
    """Return the ranks, with those marked that are ahead of others in a collective.

    If there are such, ranks that wait for their GPU below another call of torch.distributed, which the others do not
    make, are marked, too.
    """
    answered = list(views)
    counts = [count for view in answered for count in view.counts if _of_these(count, ranks)]
    # A communicator outside torch, such as pynccl's, has no thread of torch's: RAS names its processes.
    named = {one.pid for count in counts for one in count.ranks}
    may = [rank for rank in ranks if rank.may_spin or (rank.process.pid in named and rank.spins_in_place)]
    ahead = {rank: excess for rank in may if (excess := _ahead(rank, ranks, counts))}
    placed = [_placed(rank, ahead) for rank in ranks] if ahead else list(ranks)
    return [_bereft(rank, answered) if rank.may_spin and not rank.place.spins else rank for rank in placed]


def _bereft(rank: LiveRank, views: Iterable[RasView]) -> LiveRank:
    """Return the rank, marked if its collective never ends because a process of its communicator is gone.

    In its own code it may wait for local work of its GPU, as after a training that the others have finished.
    """
    if rank.place.kind != COLLECTIVE or not any(rank.process.pid in view.bereft for view in views):
        return rank
    why = "a process of its communicator is gone, says NCCL's RAS"
    return replace(rank, place=replace(rank.place, why=why, spins=True))


def _placed(rank: LiveRank, ahead: dict[LiveRank, list[tuple[RasCount, int]]]) -> LiveRank:
    if counts := ahead.get(rank):
        numbers = dict.fromkeys(f"{count.operation} {number}" for count, number in counts)
        why = f"has called {' and '.join(numbers)}, and others have not, says NCCL's RAS"
        by_stack = rank.place.call if rank.place.kind == COLLECTIVE else ""
        call = by_stack or " and ".join(sorted({count.operation for count, _ in counts}))
        groups = tuple(dict.fromkeys(count.communicator for count, _ in counts))
        return replace(rank, place=Place(COLLECTIVE, call, rank.place.frame, why, spins=True, communicators=groups))
    if rank.may_spin and rank.place.kind in (COLLECTIVE, GROUP, PEERS):
        return replace(rank, place=replace(rank.place, spins=True))
    return rank


def _of_these(count: RasCount, ranks: Iterable[LiveRank]) -> bool:
    """Return whether it names one of these ranks: another job's RAS may listen at the same port."""
    return not {one.pid for one in count.ranks}.isdisjoint(rank.process.pid for rank in ranks)


def _ahead(rank: LiveRank, ranks: Sequence[LiveRank], counts: Iterable[RasCount]) -> list[tuple[RasCount, int]]:
    """Return the counts in which this rank has called more than others, each with its excess."""
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

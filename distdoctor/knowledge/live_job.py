"""A job that runs now as its checks see it: the ranks of all nodes whose facts are here, each where it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from distdoctor.knowledge import job_movement, job_places
from distdoctor.knowledge.job_places import Place, place_of
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import JobFacts, JobProcess, StoreView, WorkerServer

PAUSE, DEVICE_PAUSE = 5.0, 20.0
"""Seconds for which a rank may stand still and be called slow: it sleeps, or waits for its data; for a disk, which a
large checkpoint keeps busy for as long, some more."""
YOUNG = 10.0
"""Seconds after the start of the ranks that are here before which others may just be late."""


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
        return bool(moved.stack) or moved.main_cpu >= 0.02 or moved.cpu >= 0.05 or moved.switches > 5 * moved.seconds

    @property
    def computes(self) -> bool:
        """Whether nothing but the processor moves in it: it reads and writes nothing, nothing below it works, and as
        far as is seen it stays in a function or two. So does a long step, and so does a loop without an end."""
        moved = self.process.moved
        if moved is None or self.place.kind != job_places.CODE or not job_movement.works(self.process):
            return False
        if job_movement.gets_about(self.process):
            return False
        return moved.read + moved.written <= job_movement.MUCH and not any(
            job_movement.works(one) for one in self.below
        )

    @property
    def waited(self) -> float | None:
        """For how many seconds at least it has waited for the others; None where that is not known."""
        if self.place.kind in (job_places.PEERS, job_places.GROUP, job_places.COLLECTIVE):
            return self.process.idle
        return None

    @cached_property
    def still(self) -> float | None:
        """For how many seconds it has stood still where it is; None where that is not known. Who waits for processes of
        its own is as still as the one that ran last."""
        main, kind = self.process.main, self.place.kind
        mine = job_movement.still_for(self.process)
        loaders = [one for one in self.below if one.role == "loader"]
        # Who waits for a worker looks every 5 s whether it lives (torch/utils/data/_utils/__init__.py).
        watched = loaders if kind == job_places.LOADER else []
        if main is not None and main.call in ("wait4", "waitid"):
            watched = list(self.below)
        told = [seconds for one in watched if (seconds := job_movement.still_for(one)) is not None]
        if kind == job_places.LOADER and told:
            return min(told)
        return min([mine, *told]) if mine is not None else None

    @property
    def pauses(self) -> bool:
        """Whether it stands still for so short a time that it may only be slow."""
        if self.works or self.waits or self.place.kind not in job_places.OWN or job_movement.polls(self.process):
            return False
        longest = DEVICE_PAUSE if self.place.kind == job_places.DEVICE else PAUSE
        return self.still is not None and self.still < longest

    @property
    def called(self) -> str:
        """``rank 3``, or its process where its number is not known."""
        return f"rank {self.number}" if self.number is not None else f"pid {self.process.pid}"


@dataclass(frozen=True, eq=False)
class LiveJob:
    """The job."""

    ranks: tuple[LiveRank, ...]
    stores: tuple[StoreView, ...]
    facts: tuple[tuple[Node, JobFacts], ...]

    @property
    def agents(self) -> Iterator[tuple[Node, JobProcess]]:
        """torchrun's agents that are here."""
        return ((node, one) for node, job in self.facts for one in job.processes if one.role == "agent")

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
        """How many ranks it has, as its ranks were told -> those ranks."""
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
        """How many ranks it has, as most of them were told."""
        found = next(iter(self.worlds), None)
        return found if found is not None else self.store.world if self.store else None

    @cached_property
    def numbers(self) -> dict[int, LiveRank]:
        """The ranks that are here, by their numbers."""
        return {rank.number: rank for rank in self.ranks if rank.number is not None}

    @cached_property
    def claims(self) -> dict[int, list[LiveRank]]:
        """The numbers that several processes of this job have -> those processes. None of them has ended, and none runs
        below another: that would be one rank and what started it."""
        claimed: dict[int, list[LiveRank]] = {}
        meant = {self._meets(job) for node, job in self.facts if node is self.facts[0][0]}
        one_host = len({node.host for node, _ in self.facts}) == 1
        for node, job in self.facts:
            lonely = job.master_addr == "localhost" or is_loopback(job.master_addr)
            if self._meets(job) not in meant or (lonely and not one_host):
                continue
            for rank in self.ranks:
                own = rank.node is node and rank.process in job.processes and rank.process.rank is not None
                if own and rank.place.kind != job_places.ENDED:
                    claimed.setdefault(rank.process.rank or 0, []).append(rank)
        return {number: those for number, those in sorted(claimed.items()) if len(those) > 1}

    @staticmethod
    def _meets(job: JobFacts) -> tuple[str, int | None]:
        """What ranks of one job have in common: where they meet, and the run id."""
        return job.run_id, job.master_port

    @property
    def waiting(self) -> list[LiveRank]:
        """Those that wait for others, and nothing moves."""
        return [rank for rank in self.ranks if rank.waits]

    @property
    def age(self) -> float:
        """Seconds since the last of its processes here was started."""
        ages = [rank.process.age for rank in self.ranks] or [one.age for _, one in self.agents]
        return min(ages, default=0.0)

    @property
    def young(self) -> bool:
        """Whether it was started so short a time ago that who is not here may just be late."""
        return self.age < YOUNG

    @property
    def in_rendezvous(self) -> bool:
        """Whether its ranks are still making the default group: some wait there for others."""
        places = (job_places.MASTER, job_places.HOSTING, job_places.STORE, job_places.PEERS, job_places.GROUP)
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

    @property
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
    ranks = [rank for node, job in facts for rank in _ranks(node, job, bare.store)]
    ranks.sort(key=lambda rank: (rank.number is None, rank.number or 0, rank.process.pid))
    return LiveJob(tuple(ranks), stores, tuple(facts))


def _ranks(node: Node, job: JobFacts, store: StoreView | None) -> Iterator[LiveRank]:
    ports = ports_of(job)
    for one in job.ranks:
        below = tuple(_below(one.pid, job.processes))
        number = one.rank if one.rank is not None else _number(one, node, store, ports)
        place = place_of(one, below, ports)
        if place.kind == job_places.CODE and job_places.may_be_between_tries(one) and not _answers(job):
            # Between two tries to connect a client of the store sleeps, for longer each time (c10d's socket.cpp).
            place = Place(job_places.MASTER, sure=False)
        yield LiveRank(node, one, number, place, below)


def _answers(job: JobFacts) -> bool:
    """Whether a store of the job, as far as one was asked, took the connection."""
    asked = [view.contact for view in job.stores if view.contact is not None]
    return not asked or any(contact.outcome == "open" for contact in asked)


def ports_of(job: JobFacts) -> frozenset[int]:
    """The ports of the stores of the job, as far as they are known."""
    ports = {view.port for view in job.stores}
    if job.master_port is not None:
        ports.add(job.master_port)
    _, _, port = job.rdzv_endpoint.rpartition(":")
    return frozenset(ports | ({int(port)} if port.isdecimal() else set()))


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
    if job_places.hosts_store(one) and any(port in ports for _, port in listening):
        return 0
    return None

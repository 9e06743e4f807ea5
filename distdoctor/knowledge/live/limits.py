"""Time that a job waits for nodes and ranks that have not joined, and the limit at which PyTorch gives up."""

from __future__ import annotations

from dataclasses import dataclass

from distdoctor.knowledge.live import places
from distdoctor.knowledge.live.job import LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import threads_of
from distdoctor.model.addresses import is_loopback
from distdoctor.model.launch_variables import AGENT_STORE
from distdoctor.model.text import duration_to_second

AGENTS_LIMIT = 900.0
"""The longest of torchrun's defaults (launcher/api.py), where the job's own limit is unknown."""
RANKS_LIMIT = 1800.0
"""``default_pg_timeout`` (torch/csrc/distributed/c10d/Types.hpp): the timeout of init_process_group() unless the job
sets another, and the longest default."""
NCCL_LIMIT = 600.0
"""The default with ``backend="nccl"``."""
TRIES = 2
"""Times that a client's timeout runs while it cannot connect: the first try ends shortly before the timeout, so that
TCPStore's constructor tries once more (TCPStore.cpp; 44 s with a timeout of 20 s)."""
_AT_STORE = (places.STORE, places.GROUP, places.PEERS)
"""Places where poll(2) waits for an answer of the store, with the store's timeout (TCPStore.cpp, ``doWait``)."""


@dataclass(frozen=True)
class JoinWait:
    """Wait for nodes or ranks that have not joined."""

    waited: float
    """Seconds so far."""
    limit: float
    """Seconds after which the waiting process gives up."""
    who: str
    """Process that gives up."""
    known: bool = True
    """True if this job is known to have this limit, False if it is the default."""

    @property
    def over(self) -> bool:
        """Return whether the missing nodes or ranks are too late."""
        return self.waited >= self.limit

    @property
    def so_far(self) -> str:
        """Return the time waited so far, such as ``for 1 min 40 s``."""
        return f"for {duration_to_second(self.waited)}"

    @property
    def ends(self) -> str:
        """Return the end of the wait, in a clause."""
        if self.over:
            return f"the {'' if self.known else 'default '}limit of {duration_to_second(self.limit)} is over"
        if self.known:
            return f"{self.who} gives up in {duration_to_second(self.limit - self.waited)}"
        limits = [duration_to_second(seconds) for seconds in (self.limit, self.limit * NCCL_LIMIT / RANKS_LIMIT)]
        return f"by default {self.who} gives up after {limits[0]}, with NCCL after {limits[1]}"


def agents_wait(job: LiveJob) -> JoinWait:
    """Return the wait of torchrun's agents for the agents of other nodes."""
    limit = job.first.join_timeout
    waited = max((one.age for _, one in job.agents), default=0.0)
    return JoinWait(waited, AGENTS_LIMIT if limit is None else limit, "torchrun")


def ranks_wait(job: LiveJob) -> JoinWait:
    """Return the wait of ranks in init_process_group() for other ranks."""
    limits = [limit for rank in job.waiting if (limit := _limit(rank)) is not None]
    waited = [seconds for rank in job.waiting if (seconds := _waited(rank)) is not None]
    limit = min(limits, default=RANKS_LIMIT)
    return JoinWait(max(waited, default=job.age), limit, "init_process_group()", known=bool(limits))


def connect_wait(job: LiveJob) -> JoinWait | None:
    """Return the wait of clients for a store that nobody hosts yet: TCPStore tries again until its timeout.

    None if facts show that the store will not open there. Its host (rank 0, or torchrun's agent before it starts ranks)
    runs elsewhere or has ended, or the address is this node's own loopback and rank 0 is another node's.
    """
    trying = [rank for rank in job.ranks if rank.place.kind == places.MASTER]
    agents = [one for _, one in job.agents]
    started = 0 in job.numbers or 0 in job.gone or any(facts.node_rank == 0 for _, facts in job.facts)
    hosted = any(rank.process.variables.get(AGENT_STORE) == "True" for rank in trying)
    if started or hosted or _asks_itself(job):
        return None
    if trying:
        waited = max(rank.process.age for rank in trying)
        return JoinWait(waited, TRIES * RANKS_LIMIT, "init_process_group()", known=False)
    limit = job.first.connect_timeout
    waited = max((one.age for one in agents), default=0.0)
    return JoinWait(waited, TRIES * (AGENTS_LIMIT if limit is None else limit), "torchrun")


def _asks_itself(job: LiveJob) -> bool:
    """Return whether a node whose ranks are not the first looks for rank 0 at its own loopback address."""
    contacts = [view.contact.address for view in job.stores if view.contact is not None]
    here = [rank for rank in job.ranks if rank.process.local_rank is not None and rank.number is not None]
    later = any((rank.number or 0) > (rank.process.local_rank or 0) for rank in here) or job.first.node_rank
    return bool(later) and any(map(is_loopback, contacts))


def _limit(rank: LiveRank) -> float | None:
    main = rank.process.main
    return main.limit if main is not None and rank.place.kind in _AT_STORE else None


def _waited(rank: LiveRank) -> float | None:
    """Return the seconds since it came to the store: since it serves it, or listens for its peers; at least since it
    sleeps."""
    own = [*threads_of(rank.process, "pt_tcpstore"), *threads_of(rank.process, "gloo_tcp_loop")]
    ages = [thread.age for thread in own if thread.age is not None]
    return max(ages, default=rank.process.idle)

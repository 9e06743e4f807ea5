"""Time that a job waits for nodes and ranks that have not joined, and the limit at which PyTorch gives up."""

from __future__ import annotations

from dataclasses import dataclass

from distdoctor.knowledge.live import places
from distdoctor.knowledge.live.job import LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import threads_of
from distdoctor.model.text import duration_to_second

AGENTS_LIMIT = 900.0
"""The longest of torchrun's defaults (launcher/api.py), where the job's own limit is unknown."""
RANKS_LIMIT = 1800.0
"""``default_pg_timeout`` (torch/csrc/distributed/c10d/Types.hpp): the timeout of init_process_group() unless the job
sets another, and the longest default: with ``backend="nccl"`` it is 10 min."""
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
        return f"by default {self.who} gives up after {duration_to_second(self.limit)}, with NCCL after 10 min"


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


def _limit(rank: LiveRank) -> float | None:
    main = rank.process.main
    return main.limit if main is not None and rank.place.kind in _AT_STORE else None


def _waited(rank: LiveRank) -> float | None:
    """Return the seconds since it came to the store: since it serves it, or listens for its peers; at least since it
    sleeps."""
    own = [*threads_of(rank.process, "pt_tcpstore"), *threads_of(rank.process, "gloo_tcp_loop")]
    ages = [thread.age for thread in own if thread.age is not None]
    return max(ages, default=rank.process.idle)

"""Where what a job tells of itself, and what is seen of it, do not say the same: both are told, as disagreeing."""

from __future__ import annotations

from collections.abc import Iterator

from distdoctor.knowledge import job_places
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.facts import WorkerServer

_STANDS = (job_places.STOPPED, job_places.ENDED)


def disagreeing(job: LiveJob, *, hangs: bool) -> Iterator[str]:
    """A line for each two of them that do. ``hangs``: what was found says so."""
    for server in job.servers:
        rank = job.numbers.get(server.rank)
        if rank is not None:
            yield from (f"sources disagree on rank {server.rank}: {line}" for line in _of_rank(rank, server))
    for node, facts in job.facts:
        view = facts.ras
        if view is None or not view.answers or not view.whole:
            continue
        if hangs and not view.errors and not view.warnings:
            yield f"sources disagree: NCCL's RAS on {node.name} calls the job healthy, and it was found to hang"
        elif view.errors and job.ranks and all(_gets_on(rank) for rank in job.ranks):
            yield f"sources disagree: NCCL's RAS on {node.name} tells of errors, and every rank here gets on"


def _gets_on(rank: LiveRank) -> bool:
    return (rank.works or rank.moves_on) and not (rank.may_spin or rank.place.spins)


def _of_rank(rank: LiveRank, server: WorkerServer) -> Iterator[str]:
    """How its recorder and its process do not fit each other."""
    calls = [call for view in server.recorders for call in view.calls]
    mine = [call for call in calls if call.operation == rank.place.call]
    if rank.waits and rank.place.kind == job_places.COLLECTIVE and mine and all(call.done for call in calls):
        file = ", which may be of before," if server.url.startswith("file:") else ""
        yield f"its flight recorder{file} has all that it called as done, its stack is {rank.place.said()}"
    if server.answers and rank.place.kind in _STANDS:
        yield f"its worker server answers, its process is {rank.place.said()}"

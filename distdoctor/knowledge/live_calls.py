"""Which ranks of a job are in another call than the others, where all of them wait in calls that each has to make."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from distdoctor.knowledge import job_places, job_stacks, live_groups, live_waits
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank

_SAME_CALL = frozenset(["all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
                        "all_to_all", "all_to_all_single", "barrier", "monitored_barrier"])  # fmt: skip
"""Those in which all ranks do the same: in the others the root often calls it on a line of its own."""
PAIRS = frozenset(["send", "recv", "isend", "irecv", "batch_isend_irecv", "wait",
                   job_places.MESSAGE, job_places.ONLY_MESSAGE])  # fmt: skip
"""Those in which a rank waits for one other, or may."""
_FURTHER_GROUPS = ("new_group", "split_group")
_PASSES = frozenset([job_stacks.FORWARD, job_stacks.BACKWARD])


class Met(NamedTuple):
    """Ranks that all wait in calls which each of them has to make, and none of them gets on."""

    job: LiveJob
    inside: list[LiveRank]
    whole: bool
    """Whether these are all ranks of the job; else they are those of one host."""

    def in_pair(self, rank: LiveRank) -> bool:
        """Whether it waits for one other rank, or may. A wait() is for what was called before: with no message under
        way, for a collective."""
        if self.whole and not any(one.place.call in PAIRS - {"wait"} for one in self.inside):
            return False
        return rank.place.call in PAIRS


def met_in(job: LiveJob) -> Met | None:
    """What can be compared of the job; None where some rank is elsewhere, or where nothing tells that these belong
    together."""
    inside = [rank for rank in job.waiting if _in_call(rank)]
    whole = job.world is not None and len(inside) == job.world
    groups = {group.path for group in job.store.groups} if job.store else set()
    if len(inside) < 2 or len(inside) < len(job.ranks) or not (whole or len(groups) == 1):
        return None
    # Of a group that is being made they wait for none of the others.
    return None if live_groups.whole_in_making(job) else Met(job, inside, whole)


def _in_call(rank: LiveRank) -> bool:
    """Whether it is in a call that all ranks have to make: a collective, or the making of a further group."""
    place = rank.place
    if place.kind in (job_places.GROUP, job_places.PEERS):
        return place.call in _FURTHER_GROUPS
    return place.kind == job_places.COLLECTIVE and bool(place.call)


def those_apart(met: Met, knot: live_waits.Knot | None) -> list[LiveRank]:
    """The ranks that are in another collective, or in that of another group, than most; of two halves, those without
    the lowest rank. ``knot``: those for which all wait in the end."""
    if knot is not None and knot.wrong is not None:
        return [knot.wrong]
    inside = list(knot.groups) if knot is not None else [rank for rank in met.inside if not met.in_pair(rank)]
    by_call: dict[object, list[LiveRank]] = {}
    for rank in inside:
        by_call.setdefault(knot.of(rank) if knot is not None and knot.apart else rank.place.call, []).append(rank)
    if len(by_call) > 2 and {*by_call} >= _PASSES:  # of one step of training: some are further in it than others
        first, second = sorted(_PASSES)
        by_call[first] += by_call.pop(second)
    if len(by_call) < 2 and met.whole and {*by_call} <= _SAME_CALL:
        by_call = {}
        for rank in inside:
            by_call.setdefault(rank.place.frame, []).append(rank)
    if len(by_call) < 2 or None in by_call:
        return []
    usual = max(by_call.values(), key=len)
    return [rank for rank in inside if rank not in usual]


def either_may_be_wrong(met: Met, knot: live_waits.Knot | None, odd: list[LiveRank], others: list[LiveRank]) -> bool:
    """Whether those that are apart may be right, and the others wrong. Of one host alone it is not asked: the other
    hosts tell."""
    if not met.whole or (knot is not None and knot.wrong is not None):
        return False
    if knot is None and live_waits.may_differ(met.job, odd, others):
        return True
    roots = {root for rank in others if (root := job_stacks.root_of(rank.process.main)) is not None}
    calls = Counter(rank.place.call for rank in odd)
    return len(roots) > 1 or max(calls.values()) >= len(others)


def threads_cross(ranks: list[LiveRank]) -> bool:
    """Whether in each rank a thread is in a collective beside the main one, and both run: those of groups of their own,
    and those that all begin in one order, would end."""
    both = all(
        live_waits.under_way(rank) > 1 and any(map(job_stacks.call_of, rank.process.threads[1:])) for rank in ranks
    )
    return both and not live_waits.in_several_groups(ranks)

"""Which ranks wait in a collective of NCCL, told by how many of them each rank has called (NCCL's RAS).

A rank that waits for its GPU looks the same whether that computes or is in a collective: CUDA waits with a processor
busy. Where RAS says that a rank has called one which others have not, the GPU can be nowhere else in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.knowledge.job_places import COLLECTIVE, GROUP, PEERS, Place
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.facts import RasCount, RasView


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
    """Whether a rank that it names is one of these: RAS of another job may listen at the same port."""
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

"""Which ranks of a job that hangs do not send and receive the same messages: told by whom ``send`` and ``recv`` name.

gloo's ``send`` ends once the other side has asked for the message (gloo/transport/tcp/pair.cc: it announces it, and
waits), so that two ranks which both send first wait for each other, however short the messages are.
"""

from __future__ import annotations

from distdoctor.knowledge import job_places
from distdoctor.knowledge.job_stacks import partner_of
from distdoctor.knowledge.live_groups import Blame, Pair, of_pairs
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank

_CALLS = ("send", "recv")
_MAY_BE_HALF = frozenset([*_CALLS, "isend", "irecv", "batch_isend_irecv", "wait"]) | {
    job_places.MESSAGE,
    job_places.ONLY_MESSAGE,
}
"""Calls that may be the other half of a message."""


def to_blame(job: LiveJob) -> Blame | None:
    """Who waits for each other in a circle; else one of two of which the first sends to the second, or waits for it,
    while that is in a collective of all. None where nothing shows that."""
    partners = {number: partner for number, rank in job.numbers.items() if (partner := _partner(rank)) is not None}
    for first in sorted(partners):
        way = [first]
        while (following := partners.get(way[-1])) is not None and following not in way:
            way.append(following)
        circle = way[way.index(following) :] if following is not None else []
        if circle and not _is_message(circle, job):
            return Blame(tuple(sorted(circle)), False, tuple(_said(number, job) for number in circle))
    pairs = []
    for number, partner in sorted(partners.items()):
        other = job.numbers.get(partner)
        if other is None or not other.waits or other.place.kind != job_places.COLLECTIVE:
            continue
        if other.place.call and other.place.call not in _MAY_BE_HALF:
            pairs.append(Pair(frozenset((number, partner)), f"{_said(number, job)}, {_said(partner, job)}"))
    return of_pairs(pairs) if pairs else None


def _partner(rank: LiveRank) -> int | None:
    """Whom it names, where it waits in a call for one message."""
    inside = rank.waits and rank.place.kind == job_places.COLLECTIVE and rank.place.call in _CALLS
    return partner_of(rank.process.main) if inside else None


def _is_message(circle: list[int], job: LiveJob) -> bool:
    """Whether it is two ranks of which one sends to the other, which waits for it."""
    return len(circle) == 2 and {job.numbers[number].place.call for number in circle} == set(_CALLS)


def _said(number: int, job: LiveJob) -> str:
    return f"rank {number} is {job.numbers[number].place.said()}"

"""Which ranks of a job that hangs do not send and receive the same messages: told by whom ``send`` and ``recv`` name.

gloo's ``send`` ends once the other side has asked for the message (gloo/transport/tcp/pair.cc: it announces it, and
waits), so that two ranks which both send first wait for each other, however short the messages are.
"""

from __future__ import annotations

from collections.abc import Sequence

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
_TAKEN_WITHIN = 5.0
"""Seconds of waiting after which two ranks of one host, of which one sends to the other, do not mean the same message:
what is under way wakes the threads of both."""


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
        if circle and _differ(circle, job):
            said = tuple(_said(number, job) for number in circle)
            return Blame(tuple(sorted(circle)), True, (*said, "the tag, or the group, is not the same on both sides"))
    pairs = []
    for number, partner in sorted(partners.items()):
        other = job.numbers.get(partner)
        if other is None or not other.waits or other.place.kind != job_places.COLLECTIVE:
            continue
        if other.place.call and other.place.call not in _MAY_BE_HALF:
            pairs.append(Pair(frozenset((number, partner)), f"{_said(number, job)}, {_said(partner, job)}"))
    return of_pairs(pairs) if pairs else None


def partners_of(ranks: Sequence[LiveRank]) -> set[int] | None:
    """Whom these name in the call in which they wait; None where that is not seen of each."""
    named = [_partner(rank) for rank in ranks]
    found = {partner for partner in named if partner is not None}
    return None if None in named else found


def for_the_next(inside: Sequence[LiveRank]) -> list[LiveRank]:
    """Those of ranks that all wait to receive, or to send, who wait for each other in a circle, and not for one that is
    in it; all where it is not seen of each whom it waits for."""
    by_number = {rank.number: rank for rank in inside}
    left = {rank.number: partner_of(rank.process.main) for rank in inside}
    if None in left or not set(left.values()) <= set(left):
        return [*inside]
    while outside := set(left) - set(left.values()):  # for whom nobody waits any more
        left = {number: partner for number, partner in left.items() if number not in outside}
    return [by_number[number] for number in left]


def _partner(rank: LiveRank) -> int | None:
    """Whom it names, where it waits in a call for one message."""
    inside = rank.waits and rank.place.kind == job_places.COLLECTIVE and rank.place.call in _CALLS
    return partner_of(rank.process.main) if inside else None


def _is_message(circle: list[int], job: LiveJob) -> bool:
    """Whether it is two ranks of which one sends to the other, which waits for it."""
    return len(circle) == 2 and {job.numbers[number].place.call for number in circle} == set(_CALLS)


def _differ(circle: list[int], job: LiveJob) -> bool:
    """Whether one of the two has waited for so long that no message can be under way between them."""
    one, other = (job.numbers[number] for number in circle)
    waited = [rank.waited for rank in (one, other) if rank.waits and rank.waited is not None]
    return one.node is other.node and len(waited) == 2 and min(waited) >= _TAKEN_WITHIN


def _said(number: int, job: LiveJob) -> str:
    return f"rank {number} is {job.numbers[number].place.said()}"

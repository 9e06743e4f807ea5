"""Which ranks of a job that hangs do not make the same process groups, or do not name the same root.

All ranks make all groups in one order, those that do not belong to a group, too (``new_group`` in distributed_c10d.py):
a group's name is how many were made before it, so ranks that make others, or in another order, meet strangers under one
name, or wait for those who do not come. Told by what ``new_group`` was given on ranks that are in it, and by what its
members wrote into the store: how many they believe it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from distdoctor.knowledge import job_places
from distdoctor.knowledge.job_stacks import root_of
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.knowledge.live_waits import whole_groups
from distdoctor.model.facts import Given, GroupView


@dataclass(frozen=True)
class Pair:
    """Two ranks that cannot both be right."""

    ranks: frozenset[int]
    why: str
    sure: bool = True
    """False where one may only be late: it waits for something else, and not in the making of a group."""


@dataclass(frozen=True)
class Blame:
    """Who does not make the groups that the others make."""

    ranks: tuple[int, ...]
    one_of: bool
    """It is one of these, and which is not known."""
    why: tuple[str, ...]
    of_roots: bool = False
    """They name another root than others; else they make other groups."""


def making(rank: LiveRank) -> Given | None:
    """The group that a rank makes now; None where it makes none, or that was not seen."""
    main = rank.process.main
    if main is None or rank.place.kind not in (job_places.GROUP, job_places.PEERS):
        return None
    return next((frame.given for frame in main.frames if frame.given and len(frame.given.ranks) > 1), None)


def whole_in_making(job: LiveJob) -> bool:
    """Whether all ranks of a group make it: what keeps them is no other rank, but the store, or the links."""
    made = Counter((given.group, given.ranks) for rank in job.ranks if rank.waits and (given := making(rank)))
    return any(count == len(ranks) for (_, ranks), count in made.items())


def to_blame(job: LiveJob) -> Blame | None:
    """Who does not make the same groups as others, or names another root; None where nothing shows that."""
    pairs = [*_by_stacks(job), *_by_store(job)]
    if pairs:
        return of_pairs(pairs)
    return of_pairs([*_by_roots(job)], of_roots=True) or next(_in_one_group(job), None)


def of_pairs(pairs: Sequence[Pair], *, of_roots: bool = False) -> Blame | None:
    """Who is in all of these pairs, or else one of those in any; None where none of them is sure."""
    involved = sorted(set().union(*(pair.ranks for pair in pairs)))
    in_all = [rank for rank in involved if all(rank in pair.ranks for pair in pairs)]
    why = tuple(dict.fromkeys(pair.why for pair in sorted(pairs, key=lambda pair: not pair.sure)))
    if len(in_all) == 1:
        return Blame(tuple(in_all), False, why, of_roots)
    if not any(pair.sure for pair in pairs):
        return None
    return Blame(tuple(in_all or involved), True, why, of_roots)


def _by_stacks(job: LiveJob) -> Iterator[Pair]:
    makers = {number: given for number, rank in job.numbers.items() if (given := making(rank)) is not None}
    for (one, first), (other, second) in combinations(sorted(makers.items()), 2):
        if first.group == second.group and first.ranks != second.ranks:
            why = f"rank {one} makes {_said(first)}, rank {other} makes {_said(second)}"
            yield Pair(frozenset((one, other)), why)
    for one, given in sorted(makers.items()):
        for other in given.ranks:
            rank = job.numbers.get(other)
            if other == one or rank is None or not rank.waits:
                continue
            why = f"rank {one} makes {_said(given)}, rank {other} is {rank.place.said()}"
            if other not in makers and rank.place.kind == job_places.COLLECTIVE and rank.place.call:
                yield Pair(frozenset((one, other)), why, sure=False)
            elif other in makers and _later(makers[other].group, given.group):
                yield Pair(frozenset((one, other)), f"{why}: {_said(makers[other])}")


def _by_roots(job: LiveJob) -> Iterator[Pair]:
    """Ranks that name one as the root which names another one itself, in the same call."""
    roots: dict[int, tuple[str, int]] = {}
    for number, rank in job.numbers.items():
        named = root_of(rank.process.main)
        if named is not None and rank.waits and rank.place.kind == job_places.COLLECTIVE:
            roots[number] = named
    for one, (call, root) in sorted(roots.items()):
        theirs = roots.get(root)
        if root != one and theirs is not None and theirs[0] == call and theirs[1] != root:
            why = f"in {call} rank {one} names {root} as the root, and rank {root} names {theirs[1]}"
            yield Pair(frozenset((one, root)), why)


def _in_one_group(job: LiveJob) -> Iterator[Blame]:
    """Of a group of which all ranks are in the same call, those that name another root than most."""
    for those in whole_groups(job):
        found = {rank.number or 0: root_of(rank.process.main) for rank in those if rank.waits}
        named = {number: given for number, given in sorted(found.items()) if given is not None}
        roots = Counter(root for _, root in named.values())
        if len(named) < len(those) or len(roots) < 2 or len({call for call, _ in named.values()}) > 1:
            continue
        (usual, most), (_, next_most), *_ = roots.most_common()
        unsure = most == next_most
        odd = [number for number, (_, root) in named.items() if unsure or root != usual]
        one, other = odd[0], next(number for number in named if named[number] != named[odd[0]])
        call, root = named[one]
        why = f"in {call} rank {one} names {root} as the root, and rank {other} names {named[other][1]}"
        yield Blame(tuple(odd), unsure, (why,), of_roots=True)


def _by_store(job: LiveJob) -> Iterator[Pair]:
    """The members of a group that believe it has another size than others do, as far as they are here."""
    store = job.store
    if store is None or store.restarted:
        return
    for group in store.groups:
        if group.default or len(group.worlds) < 2:
            continue
        known = ((member, job.rank_of(member)) for member in group.members)
        here = [(member, rank.number) for member, rank in known if rank is not None and rank.number is not None]
        for (one, first), (other, second) in combinations(here, 2):
            if first != second and one.world and other.world and one.world != other.world:
                size = f"{one.world} rank{'s' if one.world > 1 else ''}"
                why = f"the store: group {_name(group)} has {size} for rank {first} and {other.world} for rank {second}"
                yield Pair(frozenset((first, second)), why)


def _name(group: GroupView) -> str:
    return group.path.rpartition("//")[2]


def _later(one: str, other: str) -> bool:
    """Whether the group of the first name is made after that of the other, as far as the names are such numbers."""
    return one.isdecimal() and other.isdecimal() and int(one) > int(other)


def _said(given: Given) -> str:
    shown = ", ".join(map(str, given.ranks[:8])) + (" ..." if len(given.ranks) > 8 else "")
    return f"group {given.group} of ranks {shown}"

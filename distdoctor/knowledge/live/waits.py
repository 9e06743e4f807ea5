"""Waits among the ranks of a hanging job: circles, ranks in other calls, other groups or roots, unmatched messages.

gloo makes a device for each group, which has a port and a thread (``gloo_tcp_loop``), and the group then makes the
threads that run its collectives (``pt_gloo_runloop``; ProcessGroupGloo.hpp). So the order of a rank's threads shows for
which of its groups it waits. The store gives the members of each group by their ports; and a further group's name is
the number of groups made before it (distributed_c10d.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from distdoctor.knowledge.live import places, stacks
from distdoctor.knowledge.live.job import LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import is_futex, partner_of, root_of
from distdoctor.model.facts import CallArguments, GroupView, JobProcess, JobThread
from distdoctor.model.text import first_of

_SHOWN, _MOST_IN_CIRCLE = 8, 16
Graph = Mapping[str, set[str]]
"""Path of a group -> those of others."""


@dataclass(frozen=True)
class Knot:
    """Ranks that all others wait for in the end."""

    groups: Mapping[LiveRank, str]
    """Rank, in order -> the path of the group in whose collective it is."""
    why: tuple[str, ...]
    """Ranks in a collective of each group, and its members that are not."""
    wrong: LiveRank | None = None
    """Only rank that is in every circle."""

    @property
    def apart(self) -> bool:
        """Return whether they are in collectives of different groups."""
        return len({*self.groups.values()}) > 1

    def of(self, rank: LiveRank) -> str:
        """Return the group in whose collective one of them is: `` of group 2``."""
        return f" of {_named(self.groups[rank])}"


def knot_of(job: LiveJob, ranks: Sequence[LiveRank]) -> Knot | None:
    """Return the knot among ranks which all wait.

    None if the group that a rank waits for is unknown, if some wait for more than one, or if all wait in the same.
    """
    members = _members(job)
    inside = _inside(members, ranks)
    found = {rank: path for path, inside_of in inside.items() for rank in inside_of}
    if len(inside) < 2 or len(found) < len(ranks):
        return None
    absent = {path: [rank for rank in members[path] if found.get(rank) != path] for path in inside}
    if any(rank not in found for inside_of in absent.values() for rank in inside_of):
        return None
    last = _last({path: {found[rank] for rank in inside_of} for path, inside_of in absent.items()}, found[ranks[0]])
    waited_for = {rank for path in last for rank in absent[path]} or {rank for path in last for rank in inside[path]}
    why = (
        f"{_called(inside[path])} in a collective of {_named(path)} ({_called(members[path], verb=False)}), and "
        f"{_called(absent[path])} not"
        for path in members
        if path in last and absent[path]
    )
    common = _in_all_circles(found, {path: absent[path] for path in last})
    if len(common) > 1:
        waited_for = common
    groups = {rank: found[rank] for rank in ranks if rank in waited_for}
    return Knot(groups, tuple(why), next(iter(common)) if len(common) == 1 else None)


def _in_all_circles(running: Mapping[LiveRank, str], absent: Mapping[str, Sequence[LiveRank]]) -> set[LiveRank]:
    """Return the ranks without which no circle is left.

    Ranks that do the same wait for those which are behind, and so in no circle: a single rank that does something else
    is in all of them.
    """
    rank = next((waited[0] for waited in absent.values() if waited), None)
    path: list[LiveRank] = []
    while rank is not None and rank not in path and len(path) <= _MOST_IN_CIRCLE:
        path.append(rank)
        rank = next(iter(absent[running[rank]]), None)
    circle = path[path.index(rank) :] if rank in path else []
    return {rank for rank in circle if not _has_circle(running, absent, rank)}


def _has_circle(running: Mapping[LiveRank, str], absent: Mapping[str, Sequence[LiveRank]], without: LiveRank) -> bool:
    """Return whether ranks wait for each other in a circle without this one."""
    waits_for = {path: sum(rank is not without for rank in absentees) for path, absentees in absent.items()}
    groups_without: dict[LiveRank, list[str]] = {}
    for path, absentees in absent.items():
        for rank in absentees:
            groups_without.setdefault(rank, []).append(path)
    inside: dict[str, list[LiveRank]] = {}
    for rank, path in running.items():
        inside.setdefault(path, []).append(rank)
    free = [path for path, number in waits_for.items() if not number]
    left = len(waits_for)
    while free:
        left -= 1
        for rank in inside[free.pop()]:
            for path in groups_without.get(rank, ()) if rank is not without else ():
                waits_for[path] -= 1
                if not waits_for[path]:
                    free.append(path)
    return left > 0


def waited_for(job: LiveJob, ranks: Sequence[LiveRank]) -> set[LiveRank] | None:
    """Return the ranks that these wait for in the end: members of their groups that are in no collective.

    None if the groups of some are unknown.
    """
    members = _members(job)
    found = {rank: path for path, inside_of in _inside(members, ranks).items() for rank in inside_of}
    if len(found) < len(ranks):
        return None
    reached: set[LiveRank] = set()
    left, seen = {*found.values()}, set[str]()
    while left:
        seen.add(path := left.pop())
        absent = [rank for rank in members[path] if found.get(rank) != path]
        reached.update(rank for rank in absent if rank not in found)
        left |= {found[rank] for rank in absent if rank in found} - seen
    return reached


def whole_groups(job: LiveJob) -> list[list[LiveRank]]:
    """Return the ranks of each group that is completely in a collective of it, as far as known."""
    members = _members(job)
    return [inside for path, inside in _inside(members, job.ranks).items() if len(inside) == len(members[path])]


def may_differ(job: LiveJob, odd: Sequence[LiveRank], others: Sequence[LiveRank]) -> bool:
    """Return whether ranks with another call may just wait for one of the others: theirs is another group's, or all
    make the same call, there are several groups, and they are not known to be in one."""
    theirs, their_groups = ([_numbers(rank.process)[1] for rank in ranks] for ranks in (odd, others))
    if all(len(running) == 1 for running in (*theirs, *their_groups)) and set().union(*theirs).isdisjoint(
        set().union(*their_groups)
    ):
        return True
    if len({rank.place.call for rank in (*odd, *others)}) > 1:
        return False
    several = job.store is not None and len({group.path for group in job.store.groups}) > 1
    return several and not any(len(their_groups) == len(job.ranks) for their_groups in whole_groups(job))


def collectives_running(rank: LiveRank) -> int:
    """Return the number of running collectives in a rank: each has a thread of its own (a group has two)."""
    return sum(_runs(thread) for thread in rank.process.threads)


def in_several_groups(ranks: Iterable[LiveRank]) -> bool:
    """Return whether one of these runs collectives of more than one group, by the order of its threads."""
    return any(len(_numbers(rank.process)[1]) > 1 for rank in ranks)


def with_fewest_collectives(ranks: Sequence[LiveRank]) -> list[LiveRank]:
    """Return the ranks with the fewest running collectives; all if they are halves; none if all have as many."""
    by_number: dict[int, list[LiveRank]] = {}
    for rank in ranks:
        by_number.setdefault(collectives_running(rank), []).append(rank)
    if len(by_number) != 2 or 0 in by_number:
        return []
    fewer, more = sorted(by_number.values(), key=len)
    return fewer if len(fewer) < len(more) else list(ranks)


def _inside(members: Mapping[str, Sequence[LiveRank]], ranks: Iterable[LiveRank]) -> dict[str, list[LiveRank]]:
    """Return, by the path of each group, the ranks in which its collective runs, and that of no other."""
    groups_of: dict[LiveRank, list[str]] = {}
    for path, ranks_of in members.items():
        for rank in ranks_of:
            groups_of.setdefault(rank, []).append(path)
    found: dict[str, list[LiveRank]] = {}
    for rank in ranks:
        running = _running(rank, groups_of.get(rank, ()))
        if running is not None:
            found.setdefault(running, []).append(rank)
    return found


def _members(job: LiveJob) -> dict[str, list[LiveRank]]:
    """Return, by the path of each group, its ranks by their listening addresses; empty if not all is known."""
    store = job.store
    if store is None or store.restarted:
        return {}
    found: dict[str, list[LiveRank]] = {}
    for group in sorted(store.groups, key=_made):
        here = [rank for member in group.members if (rank := job.rank_of(member)) is not None]
        if group.device != "cpu" or len(here) < max(len(group.joined), group.world or 0) or _made(group) == _UNKNOWN:
            return {}
        found[group.path] = here
    return found


_UNKNOWN = 1 << 40


def _made(group: GroupView) -> int:
    """Return the number of groups that were made before it, from its name."""
    name = group.path.rpartition("//")[2]
    return -1 if group.default else int(name) if name.isdecimal() and len(name) < 10 else _UNKNOWN


def _running(rank: LiveRank, mine: Sequence[str]) -> str | None:
    """Return the group of ``mine``, in the order in which they were made, whose collective runs in the rank.

    None if none does, several do, or it is unknown.
    """
    groups, running = _numbers(rank.process)
    if groups != len(mine) or len(running) != 1:
        return None
    number = running.pop()
    return (
        mine[number] if number in range(groups) else None
    )  # torch 2.11 does not name the threads that identify groups


def _numbers(one: JobProcess) -> tuple[int, set[int]]:
    """Return the number of groups that its threads belong to, and the indices of those that run a collective."""
    groups, running = 0, set()
    for thread in one.threads:
        if thread.name.startswith("gloo_tcp_loop"):
            groups += 1
        elif _runs(thread):
            running.add(groups - 1)
    return groups, running


def _runs(thread: JobThread) -> bool:
    return thread.name.startswith("pt_gloo_runloop") and is_futex(thread) and bool(thread.timed)


def _last(ahead: Graph, start: str) -> set[str]:
    """Return groups that lead to each other, and to no further one: the end of the path from ``start``."""
    behind: dict[str, set[str]] = {path: set() for path in ahead}
    for path, others in ahead.items():
        for other in others:
            behind[other].add(path)
    while not (reached := _reached(ahead, start)) <= (back := _reached(behind, start)):
        start = min(reached - back)
    return reached


def _reached(graph: Graph, start: str) -> set[str]:
    found, left = {start}, [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def _called(ranks: Iterable[LiveRank], verb: bool = True) -> str:
    numbers = sorted(rank.number or 0 for rank in ranks)
    shown = first_of(numbers, _SHOWN)
    text = f"ranks {shown}" if len(numbers) > 1 else f"rank {shown}" if numbers else "nobody"
    return f"{text} {'are' if len(numbers) > 1 else 'is'}" if verb else text


def _named(path: str) -> str:
    return f"group {path.rpartition('//')[2]}" if "//" in path else "the default group"


# Ranks in another call than the others, if all wait in calls that every rank has to make.


_SAME_CALL = frozenset(["all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
                        "all_to_all", "all_to_all_single", "barrier", "monitored_barrier"])  # fmt: skip
"""Calls in which all ranks do the same: in the others the root often calls it on a line of its own."""
PAIRS = frozenset(["send", "recv", "isend", "irecv", "batch_isend_irecv", "wait",
                   places.MESSAGE, places.ONLY_MESSAGE])  # fmt: skip
"""Calls in which a rank waits, or may wait, for one other."""
_FURTHER_GROUPS = ("new_group", "split_group")
_PASSES = frozenset([stacks.FORWARD, stacks.BACKWARD])


class Comparison(NamedTuple):
    """Ranks that all wait, without progress, in calls which each of them has to make."""

    job: LiveJob
    inside: list[LiveRank]
    whole: bool
    """True if these are all ranks of the job, False if they are those of one host."""

    def in_pair(self, rank: LiveRank) -> bool:
        """Return whether it waits, or may wait, for one other rank.

        A wait() is for an earlier call: with no message under way, for a collective.
        """
        if self.whole and not any(one.place.call in PAIRS - {"wait"} for one in self.inside):
            return False
        return rank.place.call in PAIRS


def comparison_of(job: LiveJob) -> Comparison | None:
    """Return the comparable ranks of the job; None if some rank is elsewhere, or if nothing shows that they belong
    together."""
    inside = [rank for rank in job.waiting if _in_call(rank)]
    whole = job.world is not None and len(inside) == job.world
    groups = {group.path for group in job.store.groups} if job.store else set()
    if len(inside) < 2 or len(inside) < len(job.ranks) or not (whole or len(groups) == 1):
        return None
    # While a group is being made they wait for none of the others.
    return None if whole_in_making(job) else Comparison(job, inside, whole)


def _in_call(rank: LiveRank) -> bool:
    """Return whether it is in a call that all ranks have to make: a collective, or the making of a further group."""
    place = rank.place
    if place.kind in (places.GROUP, places.PEERS):
        return place.call in _FURTHER_GROUPS
    return place.kind == places.COLLECTIVE and bool(place.call)


def minority(met: Comparison, knot: Knot | None) -> list[LiveRank]:
    """Return the ranks in another collective, or another group's, than most; of two halves, those without the lowest
    rank.

    ``knot``: the ranks that all wait for in the end.
    """
    if knot is not None and knot.wrong is not None:
        return [knot.wrong]
    inside = list(knot.groups) if knot is not None else [rank for rank in met.inside if not met.in_pair(rank)]
    by_call: dict[object, list[LiveRank]] = {}
    for rank in inside:
        by_call.setdefault(knot.of(rank) if knot is not None and knot.apart else rank.place.call, []).append(rank)
    if len(by_call) > 2 and {*by_call} >= _PASSES:  # of one training step: some are further in it than others
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


def either_may_be_wrong(met: Comparison, knot: Knot | None, odd: list[LiveRank], others: list[LiveRank]) -> bool:
    """Return whether the ranks that differ may be right, and the others wrong.

    With one host alone the answer is no: the other hosts show it.
    """
    if not met.whole or (knot is not None and knot.wrong is not None):
        return False
    if knot is None and may_differ(met.job, odd, others):
        return True
    roots = {root for rank in others if (root := stacks.root_of(rank.process.main)) is not None}
    calls = Counter(rank.place.call for rank in odd)
    return len(roots) > 1 or max(calls.values()) >= len(others)


def threads_cross(ranks: list[LiveRank]) -> bool:
    """Return whether in each rank a second thread is in a collective, and both run.

    Collectives of separate groups, and those that all ranks begin in one order, would end.
    """
    both = all(collectives_running(rank) > 1 and any(map(stacks.call_of, rank.process.threads[1:])) for rank in ranks)
    return both and not in_several_groups(ranks)


# Ranks that make different process groups, or name different roots.
#
# All ranks make all groups in one order, even those that do not belong to a group (``new_group`` in
# distributed_c10d.py): a group's name is the number of groups made before it. Ranks that make others, or in another
# order, use one name for different groups, or wait for members that do not come. Evidence: the arguments of
# ``new_group`` on ranks that are in it, and the group sizes that members wrote into the store.


@dataclass(frozen=True)
class Pair:
    """Two ranks that cannot both be right."""

    ranks: frozenset[int]
    why: str
    sure: bool = True
    """False if one may just be late: it waits for something else, and not while making a group."""


@dataclass(frozen=True)
class Blame:
    """Ranks that do not make the groups that the others make."""

    ranks: tuple[int, ...]
    one_of: bool
    """True if it is one of these, and unknown which."""
    why: tuple[str, ...]
    of_roots: bool = False
    """True if they name another root than others, False if they make other groups."""


def making(rank: LiveRank) -> CallArguments | None:
    """Return the group that a rank is making, None if none or unknown."""
    main = rank.process.main
    if main is None or rank.place.kind not in (places.GROUP, places.PEERS):
        return None
    return next((frame.given for frame in main.frames if frame.given and len(frame.given.ranks) > 1), None)


def whole_in_making(job: LiveJob) -> bool:
    """Return whether all ranks of a group are making it: the store or the links keep them waiting, not another rank."""
    made = Counter((given.group, given.ranks) for rank in job.ranks if rank.waits and (given := making(rank)))
    return any(count == len(ranks) for (_, ranks), count in made.items())


def group_blame(job: LiveJob) -> Blame | None:
    """Return the ranks that make other groups than the others, or name another root; None without evidence."""
    pairs = [*_by_stacks(job), *_by_store(job)]
    if pairs:
        return blame_of_pairs(pairs)
    return blame_of_pairs([*_by_roots(job)], of_roots=True) or next(_in_one_group(job), None)


def blame_of_pairs(pairs: Sequence[Pair], *, of_roots: bool = False) -> Blame | None:
    """Return the ranks that are in all of these pairs, or else one of those in any; None if no pair is certain."""
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
            why = f"rank {one} makes {_group_text(first)}, rank {other} makes {_group_text(second)}"
            yield Pair(frozenset((one, other)), why)
    for one, given in sorted(makers.items()):
        for other in given.ranks:
            rank = job.numbers.get(other)
            if other == one or rank is None or not rank.waits:
                continue
            why = f"rank {one} makes {_group_text(given)}, rank {other} is {rank.place.said()}"
            if other not in makers and rank.place.kind == places.COLLECTIVE and rank.place.call:
                yield Pair(frozenset((one, other)), why, sure=False)
            elif other in makers and _later(makers[other].group, given.group):
                yield Pair(frozenset((one, other)), f"{why}: {_group_text(makers[other])}")


def _by_roots(job: LiveJob) -> Iterator[Pair]:
    """Yield ranks that name a root which itself names another one, in the same call."""
    roots: dict[int, tuple[str, int]] = {}
    for number, rank in job.numbers.items():
        named = root_of(rank.process.main)
        if named is not None and rank.waits and rank.place.kind == places.COLLECTIVE:
            roots[number] = named
    for one, (call, root) in sorted(roots.items()):
        theirs = roots.get(root)
        if root != one and theirs is not None and theirs[0] == call and theirs[1] != root:
            why = f"in {call} rank {one} names {root} as the root, and rank {root} names {theirs[1]}"
            yield Pair(frozenset((one, root)), why)


def _in_one_group(job: LiveJob) -> Iterator[Blame]:
    """Yield the ranks that name another root than most of a group whose ranks are all in the same call."""
    for group in whole_groups(job):
        found = {rank.number or 0: root_of(rank.process.main) for rank in group if rank.waits}
        named = {number: given for number, given in sorted(found.items()) if given is not None}
        roots = Counter(root for _, root in named.values())
        if len(named) < len(group) or len(roots) < 2 or len({call for call, _ in named.values()}) > 1:
            continue
        (usual, most), (_, next_most), *_ = roots.most_common()
        unsure = most == next_most
        odd = [number for number, (_, root) in named.items() if unsure or root != usual]
        one, other = odd[0], next(number for number in named if named[number] != named[odd[0]])
        call, root = named[one]
        why = f"in {call} rank {one} names {root} as the root, and rank {other} names {named[other][1]}"
        yield Blame(tuple(odd), unsure, (why,), of_roots=True)


def _by_store(job: LiveJob) -> Iterator[Pair]:
    """Yield members of a group that believe in different sizes of it, as far as they are here."""
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
    """Return whether the first group is made after the other, if their names are such numbers."""
    return one.isdecimal() and other.isdecimal() and int(one) > int(other)


def _group_text(given: CallArguments) -> str:
    shown = ", ".join(map(str, given.ranks[:8])) + (" ..." if len(given.ranks) > 8 else "")
    return f"group {given.group} of ranks {shown}"


# Ranks whose ``send`` and ``recv`` do not match, by the peers that they name. gloo's ``send`` ends once the other side
# has asked for the message (gloo/transport/tcp/pair.cc: it announces it, and waits), so that two ranks which both send
# first wait for each other, however short the messages are.


_CALLS = ("send", "recv")
_MAY_BE_HALF = frozenset([*_CALLS, "isend", "irecv", "batch_isend_irecv", "wait"]) | {
    places.MESSAGE,
    places.ONLY_MESSAGE,
}
"""Calls that may be the other half of a message."""
_TAKEN_WITHIN = 5.0
"""Seconds of waiting after which a sender and a receiver on one host do not mean the same message: a message under way
wakes the threads of both."""


def message_blame(job: LiveJob) -> Blame | None:
    """Return ranks that wait for each other in a circle, or a pair whose peer is in a collective; None without
    evidence.

    In the pair one rank sends to the other, or waits for it, while that is in a collective of all.
    """
    partners = {number: partner for number, rank in job.numbers.items() if (partner := _partner(rank)) is not None}
    for first in sorted(partners):
        path = [first]
        while (following := partners.get(path[-1])) is not None and following not in path:
            path.append(following)
        circle = path[path.index(following) :] if following is not None else []
        if circle and not _is_message(circle, job):
            return Blame(tuple(sorted(circle)), False, tuple(_message_text(number, job) for number in circle))
        if circle and _differ(circle, job):
            evidence = tuple(_message_text(number, job) for number in circle)
            return Blame(
                tuple(sorted(circle)), True, (*evidence, "the tag, or the group, is not the same on both sides")
            )
    pairs = []
    for number, partner in sorted(partners.items()):
        other = job.numbers.get(partner)
        if other is None or not other.waits or other.place.kind != places.COLLECTIVE:
            continue
        if other.place.call and other.place.call not in _MAY_BE_HALF:
            pairs.append(
                Pair(frozenset((number, partner)), f"{_message_text(number, job)}, {_message_text(partner, job)}")
            )
    return blame_of_pairs(pairs) if pairs else None


def partners_of(ranks: Sequence[LiveRank]) -> set[int] | None:
    """Return the ranks that these name in the call in which they wait, None if unknown for one."""
    named = [_partner(rank) for rank in ranks]
    found = {partner for partner in named if partner is not None}
    return None if None in named else found


def in_message_circle(inside: Sequence[LiveRank]) -> list[LiveRank]:
    """Return the ranks, all waiting to receive or send, that wait in a circle rather than for one in it; all if unknown
    for one."""
    by_number = {rank.number: rank for rank in inside}
    left = {rank.number: partner_of(rank.process.main) for rank in inside}
    if None in left or not set(left.values()) <= set(left):
        return [*inside]
    while outside := set(left) - set(left.values()):  # that no rank waits for any more
        left = {number: partner for number, partner in left.items() if number not in outside}
    return [by_number[number] for number in left]


def _partner(rank: LiveRank) -> int | None:
    """Return the peer of the single message that it waits for."""
    inside = rank.waits and rank.place.kind == places.COLLECTIVE and rank.place.call in _CALLS
    return partner_of(rank.process.main) if inside else None


def _is_message(circle: list[int], job: LiveJob) -> bool:
    """Return whether it is a sender and its receiver, waiting for each other."""
    return len(circle) == 2 and {job.numbers[number].place.call for number in circle} == set(_CALLS)


def _differ(circle: list[int], job: LiveJob) -> bool:
    """Return whether one of the two has waited for so long that no message can be under way between them."""
    one, other = (job.numbers[number] for number in circle)
    waited = [rank.waited for rank in (one, other) if rank.waits and rank.waited is not None]
    return one.node is other.node and len(waited) == 2 and min(waited) >= _TAKEN_WITHIN


def _message_text(number: int, job: LiveJob) -> str:
    return f"rank {number} is {job.numbers[number].place.said()}"

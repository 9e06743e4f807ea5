"""Which ranks of a job that hangs wait for each other in a circle: told by the groups in whose collectives they are.

gloo makes a device for each group, which has a port and a thread (``gloo_tcp_loop``), and the group then makes the
threads that run its collectives (``pt_gloo_runloop``; ProcessGroupGloo.hpp). So the order of a rank's threads tells for
which of its groups it waits. Which groups it is in, and who else is, the store tells by their ports; and a further
group's name is how many were made before it (distributed_c10d.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from distdoctor.knowledge.job_threads import is_futex
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.facts import GroupView, JobProcess, JobThread

_SHOWN, _MOST_IN_CIRCLE = 8, 16
Graph = Mapping[str, set[str]]
"""The path of a group -> those of others."""


@dataclass(frozen=True)
class Knot:
    """The ranks for which all others wait in the end."""

    groups: Mapping[LiveRank, str]
    """Each of them, in order -> the path of the group in whose collective it is."""
    why: tuple[str, ...]
    """Who is in a collective of which group, and who of that group is not."""
    wrong: LiveRank | None = None
    """The only one that is in every circle."""

    @property
    def apart(self) -> bool:
        """Whether they are in collectives of different groups."""
        return len({*self.groups.values()}) > 1

    def of(self, rank: LiveRank) -> str:
        """`` of group 2``: in whose collective one of them is."""
        return f" of {_named(self.groups[rank])}"


def knot_of(job: LiveJob, ranks: Sequence[LiveRank]) -> Knot | None:
    """The knot among ranks which all wait; None where it is not known of each for which of its groups it waits, where
    some wait for more than one, or where all wait in the same."""
    members = _members(job)
    inside = _inside(members, ranks)
    found = {rank: path for path, those in inside.items() for rank in those}
    if len(inside) < 2 or len(found) < len(ranks):
        return None
    absent = {path: [rank for rank in members[path] if found.get(rank) != path] for path in inside}
    if any(rank not in found for those in absent.values() for rank in those):
        return None
    last = _last({path: {found[rank] for rank in those} for path, those in absent.items()}, found[ranks[0]])
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
    """The ranks without which no circle is left. Ranks that do the same wait for those which are behind, and so in no
    circle: where one alone does something else, it is in all of them."""
    rank = next((those[0] for those in absent.values() if those), None)
    way: list[LiveRank] = []
    while rank is not None and rank not in way and len(way) <= _MOST_IN_CIRCLE:
        way.append(rank)
        rank = next(iter(absent[running[rank]]), None)
    circle = way[way.index(rank) :] if rank in way else []
    return {rank for rank in circle if not _has_circle(running, absent, rank)}


def _has_circle(running: Mapping[LiveRank, str], absent: Mapping[str, Sequence[LiveRank]], without: LiveRank) -> bool:
    """Whether ranks wait for each other in a circle when this one is left out."""
    waits_for = {path: sum(rank is not without for rank in those) for path, those in absent.items()}
    groups_without: dict[LiveRank, list[str]] = {}
    for path, those in absent.items():
        for rank in those:
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
    """The ranks for which these wait in the end: members of the groups in whose collectives these are, that are in no
    collective; None where the groups are not known of all of these."""
    members = _members(job)
    found = {rank: path for path, those in _inside(members, ranks).items() for rank in those}
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
    """The ranks of each group of which all are in a collective of it, as far as that is known."""
    members = _members(job)
    return [those for path, those in _inside(members, job.ranks).items() if len(those) == len(members[path])]


def may_differ(job: LiveJob, odd: Sequence[LiveRank], others: Sequence[LiveRank]) -> bool:
    """Whether those that do something else than the others may only wait for one of them: what runs in them is of
    another group, or all are in the same call, there are several groups, and they are not known to be in one."""
    theirs, those = ([_numbers(rank.process)[1] for rank in ranks] for ranks in (odd, others))
    if all(len(running) == 1 for running in (*theirs, *those)) and set().union(*theirs).isdisjoint(set().union(*those)):
        return True
    if len({rank.place.call for rank in (*odd, *others)}) > 1:
        return False
    several = job.store is not None and len({group.path for group in job.store.groups}) > 1
    return several and not any(len(those) == len(job.ranks) for those in whole_groups(job))


def under_way(rank: LiveRank) -> int:
    """How many collectives run in a rank: each has a thread of its own (a group has two)."""
    return sum(_runs(thread) for thread in rank.process.threads)


def in_several_groups(ranks: Iterable[LiveRank]) -> bool:
    """Whether collectives of more than one group run in one of these, as the order of its threads tells."""
    return any(len(_numbers(rank.process)[1]) > 1 for rank in ranks)


def with_other_number(ranks: Sequence[LiveRank]) -> list[LiveRank]:
    """Of ranks in each of which a collective runs, those in which as many run as in the fewest; all where they are
    halves; none where as many run in all."""
    by_number: dict[int, list[LiveRank]] = {}
    for rank in ranks:
        by_number.setdefault(under_way(rank), []).append(rank)
    if len(by_number) != 2 or 0 in by_number:
        return []
    fewer, more = sorted(by_number.values(), key=len)
    return fewer if len(fewer) < len(more) else list(ranks)


def _inside(members: Mapping[str, Sequence[LiveRank]], ranks: Iterable[LiveRank]) -> dict[str, list[LiveRank]]:
    """The path of each group -> those of the ranks in which its collective runs, and that of no other."""
    groups_of: dict[LiveRank, list[str]] = {}
    for path, those in members.items():
        for rank in those:
            groups_of.setdefault(rank, []).append(path)
    found: dict[str, list[LiveRank]] = {}
    for rank in ranks:
        running = _running(rank, groups_of.get(rank, ()))
        if running is not None:
            found.setdefault(running, []).append(rank)
    return found


def _members(job: LiveJob) -> dict[str, list[LiveRank]]:
    """The path of each group -> its ranks, by where they wrote that they listen; empty where not all is known."""
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
    """How many groups were made before it, as its name tells."""
    name = group.path.rpartition("//")[2]
    return -1 if group.default else int(name) if name.isdecimal() and len(name) < 10 else _UNKNOWN


def _running(rank: LiveRank, mine: Sequence[str]) -> str | None:
    """Of its groups, in the order in which they were made, the one whose collective runs in it; None where none does,
    several do, or that is not known."""
    groups, running = _numbers(rank.process)
    if groups != len(mine) or len(running) != 1:
        return None
    number = running.pop()
    return mine[number] if number in range(groups) else None  # torch 2.11 does not name the threads that tell groups


def _numbers(one: JobProcess) -> tuple[int, set[int]]:
    """How many groups its threads are of, and by number those of which one runs a collective."""
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
    """Groups that lead to each other, and to no further one: to where ``start`` leads in the end."""
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
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (f" and {len(numbers) - _SHOWN} more" if numbers[_SHOWN:] else "")
    said = f"ranks {shown}" if len(numbers) > 1 else f"rank {shown}" if numbers else "nobody"
    return f"{said} {'are' if len(numbers) > 1 else 'is'}" if verb else said


def _named(path: str) -> str:
    return f"group {path.rpartition('//')[2]}" if "//" in path else "the default group"

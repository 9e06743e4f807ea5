"""Flight-recorder dumps of several ranks beside each other: who did not call which collective, or called another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from distdoctor.logs.flight_recorder import DEFAULT, Dump, Step
from distdoctor.logs.rank_list import rank_list

ALL = "all have called it"
NOTHING = (
    "no collective is recorded: torch before 2.8 records none of gloo's, and none is kept where "
    "TORCH_FR_BUFFER_SIZE (before 2.8 TORCH_NCCL_TRACE_BUFFER_SIZE) is 0, its default up to 2.10"
)
SAID = 3
"""Different calls of one collective that are told."""


def by_rank(dumps: Sequence[Dump]) -> tuple[dict[int, Dump], list[str]]:
    """The dumps by their ranks, of several of one rank the latest, and what is to be said of the others."""
    ranked: dict[int, Dump] = {}
    notes = []
    for dump in dumps:
        known = ranked.get(dump.rank) if dump.rank is not None else None
        if dump.rank is None:
            notes.append(f"{dump.name}: neither the dump nor its name says of which rank it is: not compared")
        elif known is None:
            ranked[dump.rank] = dump
        else:
            later, earlier = (dump, known) if dump.latest > known.latest else (known, dump)
            ranked[dump.rank] = later
            if earlier.groups != later.groups:
                notes.append(f"{earlier.name}: not compared: {later.name} is a later dump of rank {dump.rank}")
    if ranked and not any(dump.groups or dump.enqueued for dump in ranked.values()):
        why = next((dump.passed_over for dump in ranked.values() if dump.passed_over), NOTHING)
        notes.append(f"{next(iter(ranked.values())).name}: {why}")
    return ranked, notes


def compare(dumps: Sequence[Dump]) -> Iterator[str]:
    """For each group, a line about the first collective at which its ranks part, or in which all wait."""
    ranked, _ = by_rank(dumps)
    for group in dict.fromkeys(name for dump in ranked.values() for name in dump.groups):
        listed = [dump.members[group] for dump in ranked.values() if dump.members.get(group)]
        here = {rank for rank, dump in ranked.items() if group in dump.groups}
        known = listed[0] if listed else tuple(range(max(ranked) + 1)) if group == DEFAULT else ()
        members = {*known, *here}
        found = _parting(group, {rank: ranked[rank] for rank in sorted(members & ranked.keys())}, members)
        yield from (line if known else line.replace(ALL, "who else is in the group is not recorded") for line in found)


def _parting(group: str, dumps: dict[int, Dump], members: set[int]) -> Iterator[str]:
    here = {rank: dump.groups.get(group, {}) for rank, dump in dumps.items()}
    unknown = sorted(members - here.keys())
    # What an earlier number was has been overwritten where the oldest that is kept is later.
    all_in = ""
    first = max((min(steps) for steps in here.values() if steps), default=0)
    for number in sorted({number for steps in here.values() for number in steps if number >= first}):
        at = {rank: steps[number] for rank, steps in here.items() if number in steps}
        step = next(iter(at.values()))
        waiting = [rank for rank, step in at.items() if not step.done]
        without = [rank for rank in here if rank not in at and _never_called(dumps[rank], group, number)]
        if without and waiting:
            yield (
                f"flight recorder: group {group}: {rank_list(without)} never called {step.operation} number {number}, "
                f"in which {rank_list(waiting)} wait{'s' if len(waiting) == 1 else ''}"
                f"{f' ({step.frame})' if step.frame else ''}"
            )
            return
        kinds = Counter(_kind(step) for step in at.values())
        if len(kinds) > 1 and not _may_differ(kinds):
            yield f"flight recorder: group {group}, number {number}: {_difference(at, kinds)}"
            return
        if waiting and not all_in and (unknown or len(waiting) == len(at)):
            of = f"no dump of {rank_list(unknown)}" if unknown else ALL
            all_in = f"flight recorder: group {group}: {rank_list(waiting)} in {step.operation} number {number}; {of}"
    if all_in:
        yield all_in


def _never_called(dump: Dump, group: str, number: int) -> bool:
    """Whether the rank has not called it, and not only left it out because it is over."""
    if dump.whole or any(not step.done for step in dump.groups.get(group, {}).values()):
        return True  # nothing is left out, or an earlier one is not over
    if not dump.enqueued:
        return dump.enqueued is not None  # it has called nothing in any group
    last = dump.enqueued.get(group)
    return last is not None and last < number


def _kind(step: Step) -> tuple[str, str]:
    return step.operation, step.elements


def _difference(at: dict[int, Step], kinds: Counter[tuple[str, str]]) -> str:
    """Who called what; where fewer than half of the ranks differ, these first and the others after them."""
    ordered = sorted(kinds, key=lambda kind: kinds[kind])
    told = [[rank for rank, step in at.items() if _kind(step) == kind] for kind in ordered]
    called = [f"{rank_list(ranks)} called {at[ranks[0]].operation} {at[ranks[0]].sizes}" for ranks in told[:SAID]]
    if len(ordered) == 2 and kinds[ordered[0]] < kinds[ordered[1]]:
        usual = at[told[1][0]]
        return f"{called[0]}, the others {usual.operation} {usual.sizes}"
    return f"{rank_list(sorted(at))} differ: {', '.join(called)}{', and others' if len(ordered) > SAID else ''}"


def _may_differ(kinds: Iterable[tuple[str, str]]) -> bool:
    """Whether it is one collective whose sizes may differ from rank to rank: what is gathered or scattered."""
    operations = {operation.replace("_", "") for operation, _ in kinds}
    return len(operations) == 1 and not operations & {"allreduce", "broadcast", "reduce"}

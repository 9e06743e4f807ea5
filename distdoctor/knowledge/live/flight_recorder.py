"""Comparison of the flight recorders of a job's ranks: the collective of each group at which they differ.

Only a difference is evidence. Equal or finished records prove nothing: a job may hang outside of any collective.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distdoctor.model.facts import RecordedCall, WorkerServer

MAY_DIFFER = ("gather", "scatter", "all_gather", "all_to_all", "reduce_scatter", "send", "recv", "coalesced")
"""Prefixes of operations in which each rank may pass another size."""


@dataclass(frozen=True)
class Absent:
    """Ranks that have not called the collective in which others wait."""

    group: str
    call: RecordedCall
    """Call as recorded by one of the waiting ranks."""
    absent: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True)
class Differs:
    """Ranks that called something else than most, at the same position."""

    group: str
    number: int
    usual: RecordedCall
    others: dict[int, RecordedCall]


def _by_group(servers: Sequence[WorkerServer]) -> Iterator[tuple[str, dict[int, dict[int, RecordedCall]]]]:
    """Yield each group with the recorded calls of its ranks: rank -> number -> call."""
    groups: dict[str, dict[int, dict[int, RecordedCall]]] = {}
    for server in servers:
        for view in server.recorders:
            groups.setdefault(view.group, {})[server.rank] = {call.number: call for call in view.calls}
    yield from groups.items()


def absent(servers: Sequence[WorkerServer]) -> Iterator[Absent]:
    """Yield per group the ranks that have not called the first collective in which some rank waits."""
    for group, ranks in _by_group(servers):
        pending = {rank: [number for number, call in calls.items() if not call.done] for rank, calls in ranks.items()}
        waiting = {rank: min(numbers) for rank, numbers in pending.items() if numbers}
        if not waiting:
            continue
        first = min(waiting.values())
        behind = tuple(sorted(rank for rank, calls in ranks.items() if max(calls, default=0) < first))
        there = tuple(sorted(rank for rank, number in waiting.items() if number == first))
        if behind:
            yield Absent(group, ranks[there[0]][first], behind, there)


def differing(servers: Sequence[WorkerServer]) -> Iterator[Differs]:
    """Yield per group the ranks that called something else than most at the first position with a difference."""
    for group, ranks in _by_group(servers):
        numbers = sorted({number for calls in ranks.values() for number, call in calls.items() if not call.done})
        for number in numbers:
            at = {rank: calls[number] for rank, calls in sorted(ranks.items()) if number in calls}
            kinds = Counter(_kind(call) for call in at.values())
            if len(kinds) > 1:
                usual = max(kinds, key=lambda kind: kinds[kind])
                yield Differs(
                    group,
                    number,
                    next(call for call in at.values() if _kind(call) == usual),
                    {rank: call for rank, call in at.items() if _kind(call) != usual},
                )
                break


def _kind(call: RecordedCall) -> tuple[str, str]:
    """Return the properties of a call that must be equal on all ranks."""
    return call.operation, "" if call.operation.lstrip("_").startswith(MAY_DIFFER) else call.sizes


def call_text(server: WorkerServer, group: str) -> str:
    """Return the newest call of a rank in a group, as evidence."""
    calls = next((view.calls for view in server.recorders if view.group == group), ())
    if not calls:
        return "nothing of this group"
    last = calls[-1]
    since = "" if last.age is None or last.done else f", for {last.age:.0f} s"
    where = f" ({last.frame})" if last.frame else ""
    return f"{last.operation} number {last.number} {'is done' if last.done else f'waits{since}'}{where}"

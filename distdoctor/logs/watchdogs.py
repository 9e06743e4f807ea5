"""Comparison of the NCCL watchdogs of all ranks: ranks that are behind, that made another call, or that are silent.

Each watchdog prints the number of the work that timed out, of the last enqueued and of the last completed; ranks that
hear of another rank's timeout print the latter two, too (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp). Numbers and
ranks belong to one process group, so only lines that name their group are compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from distdoctor.logs.rank_comparison import rank_list
from distdoctor.model.facts.logs import LineOrigin

LITERALS = ("last enqueued", "Last enqueued", "WorkNCCL(SeqNum=")
_GROUP = re.compile(
    r"\[PG (?:ID \d+ PG GUID )?(?P<name>\w{1,64}) ?(?:\((?P<told>[\w.: -]{1,60})\))? Rank (?P<rank>\d{1,6})\]"
)
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(?P<number>\d{1,18}), OpType=(?P<operation>\w{1,40})(?:, NumelIn=(?P<size>\d{1,18}))?"
)
_AT = re.compile(r"(?:at work|at NCCL work|work sequence id): (?P<number>\d{1,18})")
_ENQUEUED = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18})")
_TIMEOUT = "collective operation timeout"
_SAME_SIZE = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")
"""Collectives in which every rank contributes as much; ALLGATHER of tensors that differ consists of broadcasts."""
_ALL_WAIT = ("ALLREDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "ALLTOALL_BASE")
"""Collectives that complete nowhere before every rank is in them."""
_COUNTED_APART = ("SEND", "RECV", "COALESCED")
"""Operations with their own sequence numbers; the last enqueued one may be one of these."""
_WHOLE = ("default_pg", "mesh_default")
"""Names of the groups of all ranks."""
LEAD = 8
"""Most collectives by which ranks may be ahead of one that they wait for: not all ranks wait for all in a broadcast. A
larger difference means another sequence."""


@dataclass
class _Rank:
    number: int | None = None
    """Number of the work that timed out."""
    operation: str = ""
    size: str = ""
    enqueued: int | None = None
    failed: bool = False
    """True if it reports an error other than a timeout."""


class Watchdogs:
    """Watchdog reports by group and rank."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, _Rank]] = {}
        self._places: dict[str, dict[int, set[int]]] = {}
        """By group, the global ranks that reported each group rank."""
        self._caught: dict[tuple[int, int], _Rank] = {}
        """Report of a rank about a work number, before it named the group."""

    def take(self, who: LineOrigin, text: str) -> None:
        """Take a line, if a watchdog wrote it; the first of a rank counts, before others abort its work."""
        group, work, at, counts = _GROUP.search(text), _WORK.search(text), _AT.search(text), _ENQUEUED.search(text)
        rank = who.rank if who.rank is not None else int(group["rank"]) if group is not None else None
        if rank is None:
            return
        if work is not None:
            timed_out = _Rank(int(work["number"]), work["operation"], work["size"] or "", None, _TIMEOUT not in text)
            self._caught.setdefault((rank, int(work["number"])), timed_out)
        name = _named(group)
        if group is None or not name:
            return
        self._places.setdefault(name, {}).setdefault(int(group["rank"]), set()).add(rank)
        one = self._groups.setdefault(name, {}).setdefault(rank, _Rank())
        number = int(at["number"]) if at is not None else int(work["number"]) if work is not None else None
        if number is not None and one.number is None:
            announced = self._caught.get((rank, number), _Rank())
            one.number, one.operation, one.size, one.failed = (
                number,
                announced.operation,
                announced.size,
                announced.failed,
            )
        if counts is not None and one.enqueued is None:
            one.enqueued = int(counts["enqueued"])

    def compared(self) -> list[str]:
        """Return the ranks that are behind, that made another call, or that are missing while all others wait."""
        # Two ranks with one group rank: several groups share the name.
        alone = [name for name, places in self._places.items() if all(len(ranks) == 1 for ranks in places.values())]
        heard = {rank for rank, _ in self._caught}
        lines = [line for name in alone for line in [_compared(name, self._groups[name], heard)] if line]
        return sorted(lines, key=lambda line: line.endswith(_NOTHING))[:1]


_NOTHING = "nothing is here"


def _named(group: re.Match[str] | None) -> str:
    """Return a group's unique name, empty if there is none.

    Before torch 2.4 each rank counts groups for itself, and a mesh's names may repeat in all of its parts.
    """
    if group is None:
        return ""
    name, description = group["name"], group["told"] or ""
    if description in _WHOLE:
        return f"{name}({description})"
    mesh = description.startswith("mesh_") and name.isdecimal()
    return "" if mesh or "PG GUID" not in group[0] else f"{name}({description})" if description else name


def _compared(name: str, every: dict[int, _Rank], heard: set[int]) -> str:
    """Return the first difference between the ranks of one group; empty if there is none, or none can be told."""
    ranks = {rank: one for rank, one in every.items() if one.number is not None}
    # A collective that ended with an error was waited for: it is the one that failed.
    if not ranks or len(every) < 2 or any(one.failed for one in ranks.values()):
        return ""
    if any(one.operation in _COUNTED_APART or _before(one.enqueued, one.number) for one in ranks.values()):
        return ""  # the last enqueued one may have another sequence
    last = max(one.number or 0 for one in ranks.values())
    there = {rank: one for rank, one in sorted(ranks.items()) if one.number == last}
    whole = any(description in name for description in _WHOLE)
    group = "" if whole else f" of group {name}"
    return (
        _behind(every, ranks, there, f"number {last}", group, range(last - LEAD, last))
        or _called_otherwise(there, f"number {last}{group}")
        # A rank that wrote something has a log, though it did not name its group.
        or (_absent(there, len(every), {*range(max(every))} - every.keys() - heard, last) if whole else "")
    )


def _behind(
    every: dict[int, _Rank], ranks: dict[int, _Rank], there: dict[int, _Rank], number: str, group: str, earlier: range
) -> str:
    """Return the ranks that wait in an ``earlier`` collective, or that never called the one in which others wait."""
    behind = sorted(rank for rank, one in every.items() if one.enqueued in earlier)
    stuck = sorted(
        rank
        for rank, one in ranks.items()
        if rank in behind or (one.operation in _ALL_WAIT and (one.number or 0) in earlier)
    )
    if stuck:  # collectives that the others completed are unfinished there
        numbers = " or ".join(str(number) for number in sorted({ranks[rank].number or 0 for rank in stuck}))
        waits, has = "waits" if len(stuck) == 1 else "wait", "has" if len(there) == 1 else "have"
        past = f"which {rank_list([*there])}, in {number}, {has} behind"
        return f"watchdogs: {rank_list(stuck)} {waits} in number {numbers}{group}, {past}"
    if behind:
        called = f"never called {_operation(there)} {number}{group}"
        return f"watchdogs: {rank_list(behind)} {called}, in which {rank_list([*there])} wait"
    return ""


def _called_otherwise(there: dict[int, _Rank], place: str) -> str:
    """Return the ranks whose call differs from that of most in the collective in which all of them wait."""
    calls = {rank: (one.operation, one.size) for rank, one in there.items()}
    kinds = [kind for kind, _ in Counter(calls.values()).most_common()]
    if len(kinds) < 2 or not all(operation for operation, _ in kinds) or not _must_be_alike(kinds):
        return ""
    odd = [rank for rank, kind in calls.items() if kind == kinds[-1]]
    return f"watchdogs: {place}: {rank_list(odd)} called {_call(kinds[-1])}, the others {_call(kinds[0])}"


def _absent(there: dict[int, _Rank], known: int, absent: set[int], last: int) -> str:
    """Return the ranks of which nothing is here, if all ``known`` ones wait in one collective."""
    if len(there) != known or not 0 < len(absent) < known:
        return ""
    waiting = f"{rank_list([*there])} wait in {_operation(there)} number {last}"
    return f"watchdogs: {waiting}; of {rank_list(sorted(absent))} {_NOTHING}"


def _operation(there: dict[int, _Rank]) -> str:
    return next(iter(there.values())).operation or "the collective"


def _before(enqueued: int | None, number: int | None) -> bool:
    return enqueued is not None and number is not None and enqueued < number


def _must_be_alike(kinds: list[tuple[str, str]]) -> bool:
    operations = {operation for operation, _ in kinds}
    return len(operations) > 1 or operations <= {*_SAME_SIZE}


def _call(kind: tuple[str, str]) -> str:
    return f"{kind[0]} of {kind[1]}" if kind[1] else kind[0]

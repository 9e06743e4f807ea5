"""What the NCCL watchdogs of all ranks say together: who is behind, who called something else, who says nothing.

Each tells the number of the work that timed out, of the last one that was enqueued and of the last that was completed
(torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp); whoever hears that another rank timed out tells the latter two, too.
Numbers and ranks are those of one process group, so only what names its group is compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from distdoctor.logs.rank_comparison import rank_list
from distdoctor.model.facts.logs import Who

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
"""Collectives in which every rank gives as much; an ALLGATHER of tensors that differ is made of broadcasts."""
_ALL_WAIT = ("ALLREDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "ALLTOALL_BASE")
"""Collectives that are over nowhere before every rank is in them."""
_COUNTED_APART = ("SEND", "RECV", "COALESCED")
"""What a group gives numbers of another row to; the last one that was enqueued may be one of these."""
_WHOLE = ("default_pg", "mesh_default")
"""How the groups of all ranks are told."""
LEAD = 8
"""So many collectives ranks may be ahead of one that they wait for: of a broadcast not all of them wait for all. Where
the numbers are further apart, those of the others are another row's."""


@dataclass
class _Rank:
    number: int | None = None
    """Of the work that timed out."""
    operation: str = ""
    size: str = ""
    enqueued: int | None = None
    failed: bool = False
    """What it says is no timeout."""


class Watchdogs:
    """What they said, by group and rank."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, _Rank]] = {}
        self._places: dict[str, dict[int, set[int]]] = {}
        """Of each group, which ranks said that they are this one in it."""
        self._caught: dict[tuple[int, int], _Rank] = {}
        """What a rank said of the work with a number, before it said of which group that is."""

    def take(self, who: Who, text: str) -> None:
        """A line, where it is one of theirs; the first of a rank counts, before others abort what it does."""
        group, work, at, counts = _GROUP.search(text), _WORK.search(text), _AT.search(text), _ENQUEUED.search(text)
        rank = who.rank if who.rank is not None else int(group["rank"]) if group is not None else None
        if rank is None:
            return
        if work is not None:
            said = _Rank(int(work["number"]), work["operation"], work["size"] or "", None, _TIMEOUT not in text)
            self._caught.setdefault((rank, int(work["number"])), said)
        name = _named(group)
        if group is None or not name:
            return
        self._places.setdefault(name, {}).setdefault(int(group["rank"]), set()).add(rank)
        one = self._groups.setdefault(name, {}).setdefault(rank, _Rank())
        number = int(at["number"]) if at is not None else int(work["number"]) if work is not None else None
        if number is not None and one.number is None:
            told = self._caught.get((rank, number), _Rank())
            one.number, one.operation, one.size, one.failed = number, told.operation, told.size, told.failed
        if counts is not None and one.enqueued is None:
            one.enqueued = int(counts["enqueued"])

    def compared(self) -> list[str]:
        """Return who is behind, who called something else, or of whom nothing is here while all others wait."""
        # Two ranks with one place: the name is that of several groups.
        alone = [name for name, places in self._places.items() if all(len(ranks) == 1 for ranks in places.values())]
        heard = {rank for rank, _ in self._caught}
        told = [line for name in alone for line in [_compared(name, self._groups[name], heard)] if line]
        return sorted(told, key=lambda line: line.endswith(_NOTHING))[:1]


_NOTHING = "nothing is here"


def _named(group: re.Match[str] | None) -> str:
    """A name of a group that no other has, empty where there is none: one of torch before 2.4 is counted by each rank
    for itself, and what a mesh counts may be the same in all of its parts."""
    if group is None:
        return ""
    name, told = group["name"], group["told"] or ""
    if told in _WHOLE:
        return f"{name}({told})"
    mesh = told.startswith("mesh_") and name.isdecimal()
    return "" if mesh or "PG GUID" not in group[0] else f"{name}({told})" if told else name


def _compared(name: str, every: dict[int, _Rank], heard: set[int]) -> str:
    ranks = {rank: one for rank, one in every.items() if one.number is not None}
    # What ended with an error was not waited for in vain: it is what the others wait for that has failed.
    if not ranks or len(every) < 2 or any(one.failed for one in ranks.values()):
        return ""
    if any(one.operation in _COUNTED_APART or _before(one.enqueued, one.number) for one in ranks.values()):
        return ""  # what was enqueued last may be of another row
    last = max(one.number or 0 for one in ranks.values())
    there = sorted(rank for rank, one in ranks.items() if one.number == last)
    behind = sorted(
        rank for rank, one in every.items() if one.enqueued is not None and last - LEAD <= one.enqueued < last
    )
    whole = any(told in name for told in _WHOLE)
    operation, group = ranks[there[0]].operation or "the collective", "" if whole else f" of group {name}"
    stuck = sorted(
        rank
        for rank, one in ranks.items()
        if rank in behind or (one.operation in _ALL_WAIT and last - LEAD <= (one.number or 0) < last)
    )
    if stuck:  # what the others have behind them is not over there
        numbers = " or ".join(str(number) for number in sorted({ranks[rank].number or 0 for rank in stuck}))
        waits, has = "waits" if len(stuck) == 1 else "wait", "has" if len(there) == 1 else "have"
        past = f"which {rank_list(there)}, in number {last}, {has} behind"
        return f"watchdogs: {rank_list(stuck)} {waits} in number {numbers}{group}, {past}"
    if behind:
        called = f"never called {operation} number {last}{group}"
        return f"watchdogs: {rank_list(behind)} {called}, in which {rank_list(there)} wait"
    kinds = Counter((ranks[rank].operation, ranks[rank].size) for rank in there).most_common()
    if len(kinds) > 1 and all(kind for (kind, _), _ in kinds) and _must_be_alike([kind for kind, _ in kinds]):
        usual, rare = kinds[0][0], kinds[-1][0]
        those = [rank for rank in there if (ranks[rank].operation, ranks[rank].size) == rare]
        return f"watchdogs: number {last}{group}: {rank_list(those)} called {_call(rare)}, the others {_call(usual)}"
    # Of a rank that was heard something is here, though it did not say of which group it is.
    absent = sorted({*range(max(every))} - every.keys() - heard) if whole else []
    if len(there) == len(every) and 0 < len(absent) < len(there):
        return f"watchdogs: {rank_list(there)} wait in {operation} number {last}; of {rank_list(absent)} {_NOTHING}"
    return ""


def _before(enqueued: int | None, number: int | None) -> bool:
    return enqueued is not None and number is not None and enqueued < number


def _must_be_alike(kinds: list[tuple[str, str]]) -> bool:
    operations = {operation for operation, _ in kinds}
    return len(operations) > 1 or operations <= {*_SAME_SIZE}


def _call(kind: tuple[str, str]) -> str:
    return f"{kind[0]} of {kind[1]}" if kind[1] else kind[0]

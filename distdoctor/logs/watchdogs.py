"""What the NCCL watchdogs of all ranks say together: who is behind, who called something else, who says nothing.

Each tells the number of the work that timed out, of the last one that was enqueued and of the last that was completed
(torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp). Numbers and ranks are those of one process group, so only what names
the group of all ranks is compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from distdoctor.model.facts.logs import Who

LITERALS = ("last enqueued", "WorkNCCL(SeqNum=")
_GROUP = re.compile(r"\[PG (?:ID )?\d+ (?:PG GUID )?\w{0,20}\(default_pg\) Rank (?P<rank>\d{1,6})\]")
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(?P<number>\d{1,18}), OpType=(?P<operation>\w{1,40})(?:, NumelIn=(?P<size>\d{1,18}))?"
)
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18})")
_TIMEOUT = "collective operation timeout"
_SAME_SIZE = ("ALLREDUCE", "BROADCAST", "REDUCE")
"""Collectives in which every rank gives as much."""


@dataclass
class _Rank:
    number: int | None = None
    """Of the work that timed out."""
    operation: str = ""
    size: str = ""
    enqueued: int | None = None
    whole: bool = False
    """It named the group of all ranks."""
    failed: bool = False
    """What it says is no timeout."""


class Watchdogs:
    """What they said, by rank."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}

    def take(self, who: Who, text: str) -> None:
        """A line, where it is one of theirs; the first of a rank counts, before others abort what it does."""
        group = _GROUP.search(text)
        if group is None and not (_TIMEOUT in text and who.rank is not None):
            return
        rank = who.rank if group is None or who.rank is not None else int(group["rank"])
        assert rank is not None
        one = self._ranks.setdefault(rank, _Rank())
        one.whole |= group is not None
        work, counts = _WORK.search(text), _ENQUEUED.search(text)
        if work is not None and not one.operation and work["operation"] not in ("SEND", "RECV"):
            one.number, one.operation, one.size = int(work["number"]), work["operation"], work["size"] or ""
            one.failed |= _TIMEOUT not in text
        if counts is not None and one.enqueued is None and group is not None:
            one.enqueued = int(counts["enqueued"])

    def compared(self) -> list[str]:
        """Who is behind, who called something else, or of whom nothing is here while all others wait."""
        ranks = {rank: one for rank, one in self._ranks.items() if one.whole and one.number is not None}
        # What ended with an error was not waited for in vain: it is what the others wait for that has failed.
        if len(ranks) < 2 or any(one.failed for one in ranks.values()):
            return []
        last = max(one.number or 0 for one in ranks.values())
        there = sorted(rank for rank, one in ranks.items() if one.number == last)
        behind = sorted(rank for rank, one in ranks.items() if one.enqueued is not None and 0 <= one.enqueued < last)
        operation = ranks[there[0]].operation
        if behind:
            return [f"watchdogs: {_told(behind)} never called {operation} number {last}, in which {_told(there)} wait"]
        kinds = Counter((ranks[rank].operation, ranks[rank].size) for rank in there).most_common()
        if len(kinds) > 1 and _must_be_alike([kind for kind, _ in kinds]):
            usual, rare = kinds[0][0], kinds[-1][0]
            those = [rank for rank in there if (ranks[rank].operation, ranks[rank].size) == rare]
            return [f"watchdogs: number {last}: {_told(those)} called {_call(rare)}, the others {_call(usual)}"]
        absent = sorted({*range(max(ranks))} - {*self._ranks})
        if len(there) == len(ranks) and 0 < len(absent) < len(there):
            return [f"watchdogs: {_told(there)} wait in {operation} number {last}; of {_told(absent)} nothing is here"]
        return []


def _must_be_alike(kinds: list[tuple[str, str]]) -> bool:
    operations = {operation for operation, _ in kinds}
    return len(operations) > 1 or operations <= {*_SAME_SIZE}


def _call(kind: tuple[str, str]) -> str:
    return f"{kind[0]} of {kind[1]}" if kind[1] else kind[0]


def _told(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"

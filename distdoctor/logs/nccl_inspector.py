"""Files of NCCL's Inspector plugin: the last collective of each kind that each rank completed, per communicator.

It writes an object a line for each completed collective, at intervals and for each process (NCCL 2.28 and later,
ext-profiler/inspector). ``coll_sn`` counts the collectives of one kind in a communicator. A rank whose numbers end
earlier than those of its peers stopped first, or wrote later: what is behind is a place to look at, and no cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from distdoctor.logs.rank_comparison import rank_list

BEGINS = re.compile(rb'\s{0,20}\{ ?"header": ?\{ ?"id": ?"0x')
"""Beginning of such a file."""
_RECORD = re.compile(
    rb'"header": ?\{ ?"id": ?"(0x[0-9a-f]{1,16})", ?"rank": ?(\d{1,7}), ?"n_ranks": ?(\d{1,7}),'
    rb'.{0,600}?"coll": ?"(AllReduce|AllGather|ReduceScatter)", ?"coll_sn": ?(\d{1,18})'
)
"""Collective in which no rank completes before all have called it; a root of a broadcast may be ahead of the others."""
MOST = 100_000
"""Most communicators, kinds and ranks that are compared."""


@dataclass
class Progress:
    """Number of the last collective that each rank completed, by communicator, its size and kind."""

    last: dict[tuple[bytes, int, bytes], dict[int, int]] = field(default_factory=dict)
    room: int = MOST

    def take(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Take the records of a file, and yield its blocks on."""
        for block in blocks:
            for name, rank, size, kind, number in _RECORD.findall(block):
                ranks = self.last.setdefault((name, int(size), kind), {}) if self.room else {}
                self.room -= int(rank) not in ranks and self.room > 0
                ranks[int(rank)] = max(ranks.get(int(rank), 0), int(number))
            yield block

    def compared(self) -> list[str]:
        """Return a line for each communicator and kind of which all ranks are known and some stopped earlier."""
        largest = max((size for _, size, _ in self.last), default=0)
        return [
            f"inspector: {rank_list(behind)} completed {kind.decode()} number {min(ranks.values())} of communicator "
            f"{name.decode()} last, the others number {max(ranks.values())}"
            for (name, size, kind), ranks in self.last.items()
            if size == largest == len(ranks)
            if len(behind := sorted(rank for rank, number in ranks.items() if number < max(ranks.values()))) * 2 < size
            if behind
        ]

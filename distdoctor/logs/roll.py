"""How ranks announce themselves as they start: where one does twice and another never does, two claim one rank.

PyTorch Lightning, and NeMo with it, writes one line per process before it makes the process group (lightning/fabric/
utilities/distributed.py, _init_dist_connection).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from distdoctor.logs.rank_list import rank_list

LITERALS = ("GLOBAL_RANK: ",)
_ANNOUNCED = re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<world>\d{1,6})\b")
MOST = 65536
"""Ranks of one file that are counted."""


class Roll:
    """Who was announced how often, by file, as copies of one log may lie beside each other, and by world size."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)

    def take(self, name: str, text: str) -> None:
        """A line of the file ``name``, where it is one of them."""
        said = _ANNOUNCED.search(text)
        if said is None:
            return
        times, rank = self._times[name, int(said["world"])], int(said["rank"])
        if rank < int(said["world"]) and len(times) < MOST:
            times[rank] += 1

    def compared(self) -> list[str]:
        """Of each file in which ranks were announced twice while others were in none: which. Where all were, it was
        started again."""
        came: dict[int, set[int]] = defaultdict(set)
        for (_, world), times in self._times.items():
            came[world].update(times)
        found = []
        for (_, world), times in self._times.items():
            twice = sorted(rank for rank, number in times.items() if number > 1)
            never = [rank for rank in range(world) if rank not in came[world]] if twice else []
            if never:
                found.append(f"roll: {rank_list(twice)} of {world} started more than once, {rank_list(never)} never")
        return list(dict.fromkeys(found))

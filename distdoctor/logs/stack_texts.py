"""What ``py-spy dump`` wrote of the ranks of a job, a file each: which of them stand elsewhere than most."""

from __future__ import annotations

import re
from collections import Counter

MAX_BYTES = 1 << 20
HEAD = re.compile(rb"\s{0,80}Process \d{1,9}: [^\n]{0,8000}\nPython v\d")
"""How such a file begins (py-spy's dump.rs)."""
FEWEST = 3
"""Ranks of which most can stand at one place."""
_RANK = re.compile(r"rank[._-]?(\d{1,6})(?!\d)")
_THREAD = re.compile(r'Thread \S{1,40} \([\w+]{1,40}\)(?:: "(?P<name>[^"]{0,200})")?')
_FRAME = re.compile(r" {4}(?P<function>\S.{0,200}) \((?P<file>[^()]{1,400}):(?P<line>\d{1,7})\)\s*")


class Stacks:
    """Where the ranks were, each when it was looked at."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def take(self, name: str, data: bytes) -> None:
        """The file of this path; one that does not say by its name of which rank it is says nothing here."""
        rank = _RANK.search(name.rpartition("/")[2])
        place = _place(data.decode(errors="replace")) if rank is not None else ""
        if rank is not None and place:
            self._places[int(rank[1])] = place

    def compared(self) -> list[str]:
        """A line about those that are elsewhere than more than half of the ranks, where there are such."""
        counts = Counter(self._places.values())
        if len(self._places) < FEWEST or len(counts) < 2:
            return []
        (usual, count), *_ = counts.most_common()
        if count * 2 <= len(self._places):
            return []
        apart = {rank: place for rank, place in sorted(self._places.items()) if place != usual}
        where = " and in ".join(dict.fromkeys(apart.values()))
        ranks = ", ".join(map(str, apart))
        return [f"stacks: rank{'s' if len(apart) > 1 else ''} {ranks} in {where}, the {count} others in {usual}"]


def _place(text: str) -> str:
    """The innermost line of the main thread of the first process."""
    main = False
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            main = thread["name"] in (None, "MainThread")
        elif main and (frame := _FRAME.fullmatch(line)):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
    return ""

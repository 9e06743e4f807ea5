"""What ``py-spy dump`` wrote of the ranks of a job, a file each or one after the other: which of them stand elsewhere
than most."""

from __future__ import annotations

import re
from collections import Counter

MAX_BYTES = 1 << 20
HEAD = re.compile(rb"\s{0,80}Process \d{1,9}: [^\n]{0,8000}\nPython v\d")
"""How such a file begins (py-spy's dump.rs)."""
LOADER = "_worker_loop ("
"""A frame of a worker of a DataLoader, whose command line is that of its rank."""
_PROCESS = re.compile(r"^Process (?P<pid>\d{1,9}): (?P<command>.{0,8000})\nPython v\d", re.M)
_LOCAL_RANK = re.compile(r" --local[-_]rank[= ]\d{1,6}(?!\d)")
FEWEST = 3
"""Ranks of which most can stand at one place."""
_RANK = re.compile(r"rank[._-]?(\d{1,6})(?!\d)")
_THREAD = re.compile(r'Thread \S{1,40} \([\w+]{1,40}\)(?:: "(?P<name>[^"]{0,200})")?')
_FRAME = re.compile(r" {4}(?P<function>\S.{0,200}) \((?P<file>[^()]{1,400}):(?P<line>\d{1,7})\)\s*")


def begins(head: bytes, named: bool) -> bool:
    """Whether a file that begins with ``head`` is py-spy's; where it is ``named`` so, also behind a few words."""
    return (HEAD.search(head) if named else HEAD.match(head)) is not None


class Stacks:
    """Where the ranks were, each when it was looked at."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}
        self._commands: dict[str, dict[int, str]] = {}
        """The places of processes of which no rank is known, by pid, for each command line of a file."""

    def take(self, name: str, data: bytes) -> None:
        """The file of this path: of the rank that its name says, or of processes that were started alike."""
        rank, text = _RANK.search(name.rpartition("/")[2]), data.decode(errors="replace")
        if rank is not None:
            if place := _place(text):
                self._places[int(rank[1])] = place
            return
        heads = [*_PROCESS.finditer(text)]
        for head, end in zip(heads, [*(after.start() for after in heads[1:]), len(text)], strict=True):
            own = text[head.end() : end]
            if LOADER not in own and (place := _place(own)):
                command = f"{name}\n{_LOCAL_RANK.sub('', head['command'])}"
                self._commands.setdefault(command, {})[int(head["pid"])] = place

    def compared(self) -> list[str]:
        """Lines about those that are elsewhere than more than half of the ranks, where there are such."""
        alike = [("rank", "ranks", self._places), *(("process", "processes", one) for one in self._commands.values())]
        return [line for one, several, places in alike if (line := _apart(one, several, places))]


def _apart(one: str, several: str, places: dict[int, str]) -> str:
    counts = Counter(places.values())
    if len(places) < FEWEST or len(counts) < 2:
        return ""
    (usual, count), *_ = counts.most_common()
    if count * 2 <= len(places):
        return ""
    apart = {number: place for number, place in sorted(places.items()) if place != usual}
    where = " and in ".join(dict.fromkeys(apart.values()))
    numbers = ", ".join(map(str, apart))
    return f"stacks: {several if len(apart) > 1 else one} {numbers} in {where}, the {count} others in {usual}"


def _place(text: str) -> str:
    """The innermost line of the main thread of the first process."""
    main = False
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            main = thread["name"] in (None, "MainThread")
        elif main and (frame := _FRAME.fullmatch(line)):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
    return ""

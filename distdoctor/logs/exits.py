"""Who of the ranks ended first, by what their launcher says of all of them together.

When one has failed, torchrun sends SIGTERM to those that still run, and says to which; its table then has every rank
that did not end with status 0 (_poll() and _close() of torch/distributed/elastic/multiprocessing/api.py; in older torch
without those that it ended itself). So a rank that is neither in the table nor was sent a signal had left before, and a
single one that was sent none is the one after which the others were ended. Where srun or Open MPI's mpirun starts the
ranks, it tells which ended first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from distdoctor.logs.launcher_exits import TABLE_HOST, TABLE_RANK
from distdoctor.logs.rank_list import rank_list
from distdoctor.model.facts.logs import ProcessExit, Who

HOST = "host      : "
LITERALS = (
    "Failures:\n",
    "Failures:\r",
    "]:\n",
    "]:\r",
    HOST,
    " (local_rank: ",
    "nproc",
    "; will restart worker group",
    "Connection closed by peer",
    "Connection reset by peer",
    "collective operation timeout",
    "Timed out waiting",
)
_NUMBER = re.compile(r"\[(?P<number>\d{1,6})\]:$|Failures:$")
_HEAD = -1
_EACH = re.compile(r"nproc[-_]per[-_]node['\"]?[ =:]{1,6}['\"]?(?P<each>\d{1,3})\b")
LOST = re.compile(r"(?P<gone>Connection (?:closed|reset) by peer)|collective operation timeout|Timed out waiting \d")
"""What a rank says when another has left (``gone``), or does not come."""
MOST = 65536
"""Ranks of one file that are counted."""


@dataclass
class _Launch:
    """What one file says of the ranks of one or more nodes."""

    host: str = ""
    """Of the row of the table that is being read."""
    numbers: list[int] = field(default_factory=list)
    """Of the rows of its tables: behind that of a head 1, 2, and so on, and 0 for the last one, who failed first."""
    rank: tuple[int, int] | None = None
    """The rank and local rank of that row."""
    hosts: dict[int, str] = field(default_factory=dict)
    """By rank of local rank 0."""
    rows: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """By process number, of each row of a table: rank, local rank, exit code."""
    signalled: set[int] = field(default_factory=set)
    """The processes that torchrun sent a signal to."""
    each: int = 0
    """How many ranks a node has, as far as it is said."""

    @property
    def where(self) -> str:
        """Its host, where it is one."""
        hosts = {*self.hosts.values()} - {""}
        return f" on {hosts.pop()}" if len(hosts) == 1 else ""

    @property
    def whole(self) -> bool:
        """Whether no row is missing, and whom torchrun ended itself has one."""
        after = 0
        for number in self.numbers:
            if number not in ((_HEAD,) if not after else (0, max(after, 0) + 1)):
                return False
            after = number
        told = self.numbers[-1:] == [0] and len(self.rows) == sum(number != _HEAD for number in self.numbers)
        return told and self.signalled <= self.rows.keys()


class Exits:
    """How the ranks of each node ended, by the file of its launcher; what they said themselves may be in others."""

    def __init__(self) -> None:
        self._launches: dict[str, _Launch] = defaultdict(_Launch)
        self._lost: dict[int, bool] = {}
        """The ranks that say that they lost others, or (False) wait for them in vain."""
        self._locals: tuple[dict[int, bool], set[int]] = {}, set()
        """The same, and who raised something, of those of whom only the number on their node is known."""
        self._agents = False
        """Whether there are launchers of whole nodes: the tasks of srun and mpirun are these then."""
        self._raised: set[int] = set()
        """The ranks that raised something."""
        self._ended: dict[str, tuple[int, str, str] | None] = {}
        """By file who ended first by srun's or mpirun's account: rank, host, exit code; None where it does not tell."""

    def take(self, name: str, who: Who, text: str, ended: Sequence[ProcessExit]) -> None:
        """Take a line of the file ``name`` that may be of a table, or reports ends."""
        self._agents = self._agents or "elastic" in text or "torchrun" in text
        if number := _NUMBER.match(text):
            self._launches[name].numbers.append(int(number["number"] or _HEAD))
        elif HOST in text and (host := TABLE_HOST.search(text)):
            self._launches[name].host = host["host"]
        elif row := TABLE_RANK.search(text):
            launch, rank = self._launches[name], (int(row["rank"]), int(row["local"]))
            launch.rank = rank
            launch.hosts[rank[0] - rank[1]] = launch.host
        elif any(self._take_end(name, end) for end in ended):
            pass
        elif each := _EACH.search(text):
            self._launches[name].each = int(each["each"])
        elif "; will restart worker group" in text:
            self._launches[name] = _Launch(each=self._launches[name].each)
        else:
            self._hear(who, text)

    def _take_end(self, name: str, end: ProcessExit) -> bool:
        """Take an end that a launcher reports in the file ``name``; return whether it says anything of the order."""
        if end.pid is not None and end.reason == "sent by launcher":
            self._launches[name].signalled.add(end.pid)
        elif end.pid is not None and end.launcher == "torchrun":
            launch = self._launches[name]
            if launch.rank is not None and len(launch.rows) < MOST:
                launch.rows[end.pid] = (*launch.rank, str(end.code))
            launch.rank = None
        elif (end.launcher == "srun" and end.host) or (end.launcher == "mpirun" and end.rank is not None):
            self._ended.setdefault(name, _first(end))
        else:
            return False
        return True

    def _hear(self, who: Who, text: str) -> None:
        lost, raised = (self._lost, self._raised) if who.rank is not None else self._locals
        number = who.local_rank if who.rank is None else who.rank
        if number is not None and (said := LOST.search(text)):
            lost.setdefault(number, said["gone"] is not None)
        elif number is not None and "Traceback (most recent call last)" in text:
            raised.add(number)

    def _spoke(self) -> tuple[dict[int, bool], set[int]]:
        """Which ranks lost others and which raised something; where there is but one node, those of whom only the
        local rank is known are ranks, too."""
        (lost, raised), rows = self._locals, [row for launch in self._launches.values() for row in launch.rows.values()]
        if len({rank - local for rank, local, _ in rows}) != 1:
            return self._lost, self._raised
        first = rows[0][0] - rows[0][1]
        placed = {first + local: gone for local, gone in lost.items()}
        return {**placed, **self._lost}, self._raised | {first + local for local in raised}

    def ranks(self) -> dict[int, str]:
        """All that did not end with status 0, and the host of each (empty: not said), where torchrun tells so of all;
        else none."""
        launches = [launch for launch in self._launches.values() if launch.rows or launch.signalled]
        if any(_left(launch) or not launch.whole for launch in launches):
            return {}
        rows = [(launch, rank, local) for launch in launches for rank, local, _ in launch.rows.values()]
        return {rank: launch.hosts.get(rank - local, "") for launch, rank, local in rows}

    def compared(self) -> list[str]:
        """Of each node whose ranks say that they lost others: which had left without an error. Else, where ranks lost
        one, the only one that ended by itself and does not say why."""
        lost, raised = self._spoke()
        launches = [launch for launch in self._launches.values() if launch.whole]
        found = dict.fromkeys(line for launch in launches if (line := _left_by(launch, lost)))
        # Where they waited in vain, who did so for the shortest time ends first.
        if found or not lost or not all(lost.values()):
            return [*found]
        ended = [(rank, launch.where, code) for launch in launches for rank, code in _by_itself(launch)]
        if not self._agents and not any(launch.rows or launch.signalled for launch in self._launches.values()):
            ended = [*dict.fromkeys(first for first in self._ended.values() if first is not None)]
        silent = [one for one in ended if one[0] not in {*lost, *raised}]
        if len(silent) != 1:
            return []
        rank, where, code = silent[0]
        return [f"exits: rank {rank}{where} ended first, with code {code}; {rank_list(sorted(lost))} lost it"]


def _left_by(launch: _Launch, lost: Collection[int]) -> str:
    those, left = sorted({rank for rank, _, _ in launch.rows.values()} & {*lost}), _left(launch)
    if not those or not left:
        return ""
    before = f"before {rank_list(those)} lost {'it' if len(left) == 1 else 'them'}"
    return f"exits: {rank_list(left)}{launch.where} ended with status 0 {before}"


def _by_itself(launch: _Launch) -> list[tuple[int, str]]:
    """The one rank that was sent no signal, and its exit code; none where it is not one."""
    ended = [(rank, code) for pid, (rank, _, code) in launch.rows.items() if pid not in launch.signalled]
    return ended if len(ended) == 1 else []


def _first(end: ProcessExit) -> tuple[int, str, str] | None:
    """Return rank, host and exit code of the one process that a report is about; None where it is about several."""
    where = f" on {end.host}" if end.host else ""
    if end.rank is not None:
        return end.rank, where, "other than 0" if end.signal is None else f"-{end.signal}"
    code = -6 if end.code is None and end.signal == 6 else end.code
    return (int(end.tasks), where, str(code)) if code is not None and end.tasks.isdecimal() else None


def _left(launch: _Launch) -> list[int]:
    """The ranks that had ended well: those between and beside the ones that had not."""
    here: dict[int, set[int]] = defaultdict(set)
    for rank, local, _ in launch.rows.values():
        here[rank - local].add(local)
    started = {first: max(launch.each, *known) for first, known in here.items()}
    return sorted(first + local for first in here for local in range(started[first]) if local not in here[first])

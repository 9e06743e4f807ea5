"""Comparison of ranks by launcher reports, tracebacks and start-up lines: which rank ended first or made a different
call.

When one rank failed, torchrun sends SIGTERM to those that still run and lists them; its table then has every rank that
did not end with status 0 (_poll() and _close() of torch/distributed/elastic/multiprocessing/api.py; older torch leaves
out those that it ended itself). So a rank that is neither in the table nor was sent a signal had ended before, and a
single rank without a signal is the one after which the others were ended. srun and Open MPI's mpirun report which rank
ended first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distdoctor.logs.dialects.torchrun import TABLE_HOST, TABLE_RANK
from distdoctor.logs.matches import nodes_in
from distdoctor.logs.reading import budget
from distdoctor.model.facts.logs import LineOrigin, Match, ProcessExit

HOST = "host      : "
EXIT_LITERALS = (
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
"""Message of a rank that lost another (``gone``), or waits for it in vain."""
MAX_EXITS = 65536
"""Ranks of one file that are counted."""


@dataclass
class _LauncherReport:
    """Reports of one file about the ranks of one or more nodes."""

    host: str = ""
    """Host in the current row of the table."""
    numbers: list[int] = field(default_factory=list)
    """Numbers of the table's rows: 1, 2, ... below a head, and 0 for the last one, which failed first."""
    rank: tuple[int, int] | None = None
    """Rank and local rank of that row."""
    hosts: dict[int, str] = field(default_factory=dict)
    """Host by the rank with local rank 0."""
    rows: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """Rows of a table by process number: rank, local rank, exit code."""
    signalled: set[int] = field(default_factory=set)
    """Processes that torchrun sent a signal to."""
    each: int = 0
    """Ranks per node, 0 if unknown."""

    @property
    def host_text(self) -> str:
        """Return the host, if it is only one."""
        hosts = {*self.hosts.values()} - {""}
        return f" on {hosts.pop()}" if len(hosts) == 1 else ""

    @property
    def whole(self) -> bool:
        """Return whether no row is missing, including the ranks that torchrun ended itself."""
        after = 0
        for number in self.numbers:
            if number not in ((_HEAD,) if not after else (0, max(after, 0) + 1)):
                return False
            after = number
        all_rows = self.numbers[-1:] == [0] and len(self.rows) == sum(number != _HEAD for number in self.numbers)
        return all_rows and self.signalled <= self.rows.keys()


class Exits:
    """Ends of the ranks of each node, by the file of its launcher; the ranks' own messages may be in other files."""

    def __init__(self) -> None:
        self._launches: dict[str, _LauncherReport] = defaultdict(_LauncherReport)
        self._lost: dict[int, bool] = {}
        """Ranks that report others as lost (True), or wait for them in vain (False)."""
        self._locals: tuple[dict[int, bool], set[int]] = {}, set()
        """The same, and ranks with an exception, where only local ranks are known."""
        self._nodes: set[int] = set()
        """Numbers of nodes that launch lines give."""
        self._agents = False
        """True if launchers of whole nodes write: the tasks of srun and mpirun are then these."""
        self._raised: set[int] = set()
        """Ranks with an exception."""
        self._ended: dict[str, tuple[int, str, str] | None] = {}
        """First end by file, as srun or mpirun reports it: rank, host, exit code; None if unknown."""

    def take(self, name: str, who: LineOrigin, text: str, ended: Sequence[ProcessExit]) -> None:
        """Take a line of the file ``name`` that may be of a table, or reports ends."""
        self._agents = self._agents or "elastic" in text or "torchrun" in text
        self._nodes |= nodes_in(text)
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
            self._launches[name] = _LauncherReport(each=self._launches[name].each)
        else:
            self._hear(who, text)

    def _take_end(self, name: str, end: ProcessExit) -> bool:
        """Take an end that a launcher reports in the file ``name``; return whether it shows the order of ends."""
        if end.pid is not None and end.reason == "sent by launcher":
            self._launches[name].signalled.add(end.pid)
        elif end.pid is not None and end.launcher == "torchrun":
            launch = self._launches[name]
            if launch.rank is not None and len(launch.rows) < MAX_EXITS:
                launch.rows[end.pid] = (*launch.rank, str(end.code))
            launch.rank = None
        elif (end.launcher == "srun" and end.host) or (end.launcher == "mpirun" and end.rank is not None):
            self._ended.setdefault(name, _first(end))
        else:
            return False
        return True

    def _hear(self, who: LineOrigin, text: str) -> None:
        lost, raised = (self._lost, self._raised) if who.rank is not None else self._locals
        number = who.local_rank if who.rank is None else who.rank
        if number is not None and (loss := LOST.search(text)):
            lost.setdefault(number, loss["gone"] is not None)
        elif number is not None and "Traceback (most recent call last)" in text:
            raised.add(number)

    def _spoke(self) -> tuple[dict[int, bool], set[int]]:
        """Return the ranks that lost others and those with an exception; on a single node local ranks are ranks,
        too."""
        (lost, raised), rows = self._locals, [row for launch in self._launches.values() for row in launch.rows.values()]
        if len({rank - local for rank, local, _ in rows}) != 1:
            return self._lost, self._raised
        first = rows[0][0] - rows[0][1]
        placed = {first + local: gone for local, gone in lost.items()}
        return {**placed, **self._lost}, self._raised | {first + local for local in raised}

    def ranks(self) -> dict[int, str]:
        """Return all ranks that did not end with status 0, each with its host ('' if unknown), if torchrun reports all;
        else none."""
        launches = [launch for launch in self._launches.values() if launch.rows or launch.signalled]
        if any(_left(launch) or not launch.whole for launch in launches):
            return {}
        rows = [(launch, rank, local) for launch in launches for rank, local, _ in launch.rows.values()]
        return {rank: launch.hosts.get(rank - local, "") for launch, rank, local in rows}

    def compared(self) -> list[str]:
        """Return, for each node whose ranks lost others, the rank that had ended without an error.

        Otherwise, where ranks lost one, the only one that ended by itself without an error message.
        """
        lost, raised = self._spoke()
        launches = [launch for launch in self._launches.values() if launch.whole]
        found = dict.fromkeys(line for launch in launches if (line := _left_by(launch, lost)))
        # Among ranks that waited in vain, the one that waited for the shortest time ends first.
        if found or not lost or not all(lost.values()):
            return [*found]
        ended = [(rank, launch.host_text, code) for launch in launches for rank, code in _by_itself(launch)]
        if not self._agents and not any(launch.rows or launch.signalled for launch in self._launches.values()):
            ended = [*dict.fromkeys(first for first in self._ended.values() if first is not None)]
        silent = [one for one in ended if one[0] not in {*lost, *raised}]
        if len(silent) != 1:
            return []
        rank, where, code = silent[0]
        alone = "; the job has one node" if self._nodes == {1} else ""
        return [f"exits: rank {rank}{where} ended first, with code {code}; {rank_list(sorted(lost))} lost it{alone}"]


def _left_by(launch: _LauncherReport, lost: Collection[int]) -> str:
    lost_ranks, left = sorted({rank for rank, _, _ in launch.rows.values()} & {*lost}), _left(launch)
    if not lost_ranks or not left:
        return ""
    before = f"before {rank_list(lost_ranks)} lost {'it' if len(left) == 1 else 'them'}"
    return f"exits: {rank_list(left)}{launch.host_text} ended with status 0 {before}"


def _by_itself(launch: _LauncherReport) -> list[tuple[int, str]]:
    """Return the only rank that was sent no signal, with its exit code; nothing if there are several."""
    ended = [(rank, code) for pid, (rank, _, code) in launch.rows.items() if pid not in launch.signalled]
    return ended if len(ended) == 1 else []


def _first(end: ProcessExit) -> tuple[int, str, str] | None:
    """Return rank, host and exit code of the process in a report, None if it is about several."""
    where = f" on {end.host}" if end.host else ""
    if end.rank is not None:
        return end.rank, where, "other than 0" if end.signal is None else f"-{end.signal}"
    code = -6 if end.code is None and end.signal == 6 else end.code
    return (int(end.tasks), where, str(code)) if code is not None and end.tasks.isdecimal() else None


def _left(launch: _LauncherReport) -> list[int]:
    """Return the ranks that had ended well: those between and next to the ones that had not."""
    here: dict[int, set[int]] = defaultdict(set)
    for rank, local, _ in launch.rows.values():
        here[rank - local].add(local)
    started = {first: max(launch.each, *known) for first, known in here.items()}
    return sorted(first + local for first in here for local in range(started[first]) if local not in here[first])


# Collective in which each rank lost the others or waited in vain, by the tracebacks of all ranks.
#
# Ranks that call the same collectives in the same order do so in the same one, with two exceptions: the root of a
# broadcast, or a sender of a reduce, is ahead of those that still wait for another rank, and a late rank finds the
# others gone. So calls with a root count only where every rank waited in vain.


_IN = re.compile(
    r"/distributed_c10d\.py:\d{1,7} in (?P<call>\w{1,60})$"
    r"|/autograd/(?:graph|__init__)\.py:\d{1,7} in (?P<engine>_engine_run_backward|backward)$"
)
_FRAME = re.compile(r'File "(?P<folder>[^"\n]{0,400}?)(?P<file>[^/"\n]{1,100})", line (?P<line>\d{1,7}), in ')
_ALL = ("all_reduce", "barrier", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor")
"""Collectives that no rank leaves before all ranks have called them."""
_BACKWARD = "all_reduce in backward"
"""DistributedDataParallel's all_reduce of gradients."""
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def call_of(frame: str, frames: str) -> dict[str, str]:
    """Return the ``collective`` in which a traceback with the innermost frame ``frame`` ends, and the program's line
    (``called_at``); empty if none."""
    found = _IN.search(frame.replace("\\", "/"))
    call = "" if found is None else _BACKWARD if found["engine"] else found["call"]
    if call not in (*_ALL, *_ROOTED, _BACKWARD):
        return {}
    own = [match for match in _FRAME.finditer(frames.replace("\\", "/")) if "/torch/" not in match["folder"]]
    return {"collective": call, "called_at": f" ({own[-1]['file']}:{own[-1]['line']})" if own else ""}


def compare_calls(matches: Iterable[Match], ranks: Mapping[int, str]) -> list[str]:
    """Return the ranks that called something else than the others, if the call of all ``ranks`` (with hosts) is known.

    Otherwise the ranks without a known call while all others wait in one.
    """
    calls: dict[int, str] = {}
    call_by_rank: dict[str, str] = {}
    waited = set()
    for match in matches:
        rank, lost = match.who.rank, LOST.search(match.text)
        if rank is not None and lost is not None and "collective" in match.values:
            call = calls[rank] = match.values["collective"]  # of the last attempt
            call_by_rank[call] = f"{call}{match.values.get('called_at', '')}"
            waited |= set() if lost["gone"] else {rank}
    if not waited or not calls.keys() <= {*ranks}:
        return []
    (usual, most), *others = Counter(calls.values()).most_common()
    silent = sorted({*ranks} - calls.keys())
    if silent:
        waiting = f"calls: {rank_list(sorted(calls))} wait in {call_by_rank[usual]}"
        alike = not others and len(silent) < len(calls)
        return [f"{waiting}; of {rank_list(silent)}{_on(silent, ranks)} nothing is here"] if alike else []
    if len(others) != 1 or (waited != calls.keys() and not {*calls.values()} <= {*_ALL, _BACKWARD}):
        return []
    rare, few = others[0]
    apart, rest = (sorted(rank for rank, call in calls.items() if call == kind) for kind in (rare, usual))
    if few == most:
        which = f"{rank_list(apart)} called {call_by_rank[rare]}, {rank_list(rest)} {call_by_rank[usual]}"
        return [f"calls: {rank_list(sorted(calls))} differ: {which}"]
    return [
        f"calls: {rank_list(apart)}{_on(apart, ranks)} called {call_by_rank[rare]}, the others {call_by_rank[usual]}"
    ]


def _on(members: Iterable[int], ranks: Mapping[int, str]) -> str:
    """Return the host of these ranks, if it is only one."""
    hosts = {ranks[rank] for rank in members}
    return f" on {next(iter(hosts))}" if len(hosts) == 1 and "" not in hosts else ""


# Ranks announced at start-up: where one is announced twice and another never, two processes claim one rank. PyTorch
# Lightning, and NeMo with it, writes one line per process before it makes the process group (_init_dist_connection in
# lightning/fabric/utilities/distributed.py).


ROLL_LITERALS = ("GLOBAL_RANK: ",)
_ANNOUNCED = re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<world>\d{1,6})\b")
MAX_ROLL = 65536
"""Ranks of one file that are counted."""


class Roll:
    """Number of announcements per rank, by file (copies of one log may lie side by side) and world size."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)

    def take(self, name: str, text: str) -> None:
        """Take a line of the file ``name``, if it is an announcement."""
        announced = _ANNOUNCED.search(text)
        if announced is None:
            return
        times, rank = self._times[name, int(announced["world"])], int(announced["rank"])
        if rank < int(announced["world"]) and len(times) < MAX_ROLL:
            times[rank] += 1

    def compared(self) -> list[str]:
        """Return, per file, the ranks that were announced twice while others were missing; if all were, the job was
        restarted."""
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


# Wording of rank lists in these comparisons.


SHOWN = 8


def rank_list(ranks: Sequence[int]) -> str:
    """Return ``rank 3``, ``ranks 0, 1``, or the first ones and the number of the others."""
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:SHOWN]))}{more}"


# torchelastic's error files (TORCHELASTIC_ERROR_FILE): the exception of one rank, as JSON.


MAX_ERROR_FILE_BYTES = 16 << 20


def error_file_as_log(data: bytes) -> bytes:
    """Return the traceback in an error file as the rank's log would have it, or the file unchanged if it has none.

    ``{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1"}}}``, or
    a text in place of the inner object (torch/distributed/elastic/multiprocessing/errors/error_handler.py).
    """
    try:
        message: Any = budget.loads(data)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return data
    if isinstance(message, dict):
        info = message.get("extraInfo")
        stack = info.get("py_callstack") if isinstance(info, dict) else None
        message = stack if isinstance(stack, str) and stack.strip() else message.get("message")
    return str(message).rstrip().encode("utf-8", "replace") + b"\n"

"""Known lines of all files without repetitions, and the ranks and hosts that they belong to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from distdoctor.logs.dialects import OWN_PORTS
from distdoctor.logs.dialects.torchrun import TABLE_RANK
from distdoctor.model.facts.logs import LineOrigin, Match
from distdoctor.model.launch_settings import STANDALONE
from distdoctor.model.text import clean, encodable

MAX_MATCHES = 20_000
"""Most different lines kept."""
FIRST, LAST = 1000, 500
"""Most different lines kept of one file and kind: the first ones, and the last ones."""
SHOWN = 400
"""Characters kept of a line."""
_Room = tuple[str, bool]
"""File, and whether a match accounts for a cause or an end."""


@dataclass
class Known:
    """Match with the number of its lines and the last of them; two are equal if they are of the same lines."""

    who: Hashable
    what: Hashable
    """All that identifies the match but its speaker."""
    match: Match = field(compare=False)
    last: int = field(compare=False)
    kept: bool = field(default=False, compare=False)
    count: int = field(default=1, compare=False)
    again: bool = field(default=False, compare=False)

    def whole(self) -> Match:
        """Return the match with its repetitions."""
        if not self.again:
            return self.match
        return replace(self.match, count=self.match.count + self.count - 1, again_at=self.last)


class Matches:
    """Matches of all files; the same line from the same speaker in one file is one match."""

    def __init__(self, order: int = 0) -> None:
        self.order = order
        self._known: dict[Hashable, Known] = {}
        self._later: dict[_Room, deque[Known]] = {}
        """By file and kind, the matches behind its first ones."""
        self._numbers: dict[_Room, int] = {}

    def keep(self, match: Match) -> Known:
        """Keep ``match``; return the match that it repeats, or itself."""
        self.order += 1
        text = clean(encodable(match.text.strip()))[:SHOWN]
        who = match.who
        kind = re.sub(r"\d+|0x[0-9a-f]+", "0", text)[:160]
        what = (
            match.check,
            match.shows,
            match.exception,
            kind,
            match.ranks,
            match.source,
            match.attempt,
            match.starts,  # different text stands before and after one
            match.values.get("pid"),
            match.values.get("well"),
        )
        speaker = who.rank, who.local_rank, who.host, who.task
        known = self._known.get((speaker, what))
        if known is not None:
            # One line may show the same in two ways.
            known.count += known.last != match.line
            known.last, known.again = match.line, True
            return known
        values = {name: clean(encodable(value))[:SHOWN] for name, value in match.values.items()}
        known = Known(speaker, what, replace(match, text=text, values=values, order=self.order), match.line)
        if len(self._known) < MAX_MATCHES:
            self._make_room(known)
            self._known[speaker, what], known.kept = known, True
        return known

    def repeat(self, found: Iterable[Known], line: int) -> bool:
        """Count the line as a repetition of these matches; return False if one of them is not kept."""
        for known in found:
            if not known.kept:
                return False
            known.count += known.last != line
            known.last, known.again = line, True
            self.order += 1
        return True

    def _make_room(self, match: Known) -> None:
        """Make room for one more match of its file: the first ones stay, and the last of the others.

        Accounts of causes and ends have a room of their own: what all ranks write behind them displaces none.
        """
        account = match.match.shows in ("cause", "end") or bool(match.match.exception)
        room = match.match.source, account
        self._numbers[room] = number = self._numbers.get(room, 0) + 1
        if number > FIRST:
            later = self._later.setdefault(room, deque())
            if len(later) == LAST:
                oldest = later.popleft()
                del self._known[oldest.who, oldest.what]
                oldest.kept = False
            later.append(match)

    def all(self, places: Mapping[str, Places]) -> tuple[Match, ...]:
        """Return all matches, each with the rank and host that the rest of its file gives.

        In a file labelled by tasks these are ranks, unless one of its lines gives another rank.
        """
        every = [known.whole() for known in self._known.values()]
        labelled = [match for match in every if match.who.task is not None]
        launchers = {match.source for match in labelled if match.who.rank not in (None, match.who.task)}
        launchers |= {source for source, place in places.items() if place.agents}
        matches = (_task_as_rank(match, launchers) for match in every)
        return tuple(places[match.source].of(match) if match.source in places else match for match in matches)


def _task_as_rank(match: Match, launchers: Container[str]) -> Match:
    who = match.who
    if who.task is None or match.source in launchers or who.rank is not None or who.local_rank is not None:
        return match
    return replace(match, who=replace(who, rank=who.task))


# Ranks and hosts of the processes of one log, from its own lines: the rank of a local rank, the host of the file.
# Nothing is guessed: without the number of nodes or the ranks of a node, a local rank stays local; with several hosts,
# a line without a host gets none.


PLACE_LITERALS = (
    "torchrun ",
    "torch.distributed.launch ",
    "torch.distributed.run ",
    STANDALONE.flag,
    "nnodes",
    "min_nodes",
    "--num_machines",
    "global_ranks=[",
    " (local_rank: ",
    "NCCL INFO ",
    "NCCL WARN ",
    "torch/distributed/elastic/",
    "torch.distributed.elastic",
    "# python",
    "$ python",
    "# bash ",
    "$ bash ",
    "$ accelerate ",
    "# accelerate ",
    "$ deepspeed ",
    "# deepspeed ",
)
_NODES = re.compile(
    r"\bnnodes?['\"]?[ =:]{1,3}['\"]?(?P<first>\d{1,5})(?!:\d)\b|--num_machines[ =](?P<second>\d{1,5})\b"
    r"|\bnNodes (?P<third>\d{1,5})\b|\bmin_nodes +: (?P<fourth>[2-9]\d{0,4}|1\d{1,4})$"
)
"""Number of nodes in a launch line, in messages of DeepSpeed's launcher and of NCCL about a communicator, and in
torchrun's settings (where one node is enough, more may join)."""
_LAUNCH = re.compile(r"\b(?:torchrun|torch\.distributed\.(?:launch|run))\s(?=.*--?nproc[-_]per[-_]node)")
_ANOTHER_COUNT = re.compile(r"nnodes|rdzv|\\\s*$|\$|node[-_]rank")
_DEEPSPEED = re.compile(r"\bnnodes=\d{1,5}, num_local_procs=(?P<each>\d{1,4}), node_rank=(?P<node>\d{1,5})\b")
_ELASTIC = re.compile(r"\bglobal_ranks=\[(?P<first>\d{1,6})[\],]")
_PROMPT = re.compile(r"^(?:\([\w.-]{1,60}\) ?){0,3}\[?[\w.-]{1,32}@(?P<host>[\w.-]{1,64})[: ][^#$]{0,200}[#$] ")
_ADDRESS = re.compile(r"[\d.]+|[\da-fA-F]*:[\da-fA-F:.]+")
_FAR = re.compile(r"\b(?:ssh|srun|mpirun|pdsh|kubectl|docker|sbatch)\b")
_TASKS = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
ENGINE_PORT = "network/engine-port-in-use"
"""Check of a port that the log shows an engine to pick, whatever the line that reports it says."""
MAX_PLACES = 4096
"""Ranks of one line that are distinguished, and hosts of one log."""


def nodes_in(text: str) -> set[int]:
    """Return the numbers of nodes that a line gives, which are one in a launch line without a number."""
    if "ode" not in text and "nproc" not in text and "achines" not in text and STANDALONE.flag not in text:
        return set()
    found = {int(next(filter(None, nodes.groups()))) for nodes in _NODES.finditer(text)}
    by_default = _LAUNCH.search(text) and not _ANOTHER_COUNT.search(text.replace("$ ", " "))
    return found | {1} if STANDALONE.flag in text or by_default else found


class Places:
    """Ranks and hosts of one log's processes."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()
        self._first: dict[str | None, set[int]] = {}
        """By host (None: unknown), the ranks with local rank 0."""
        self._nodes: set[int] = set()
        """Numbers of nodes that the log gives."""
        self._own_ports: dict[str, str] = {}
        """Ports that an engine picked itself, each with the remedy if it was taken."""
        self.agents = False
        """True if launchers of whole nodes write into it."""

    def hear(self, who: LineOrigin, text: str) -> None:
        """Take one line."""
        if who.host and who.pid is not None and len(self._hosts) < MAX_PLACES:
            self._hosts.add(who.host)  # the prefix of a line without a process may be any word
        for pattern, fix in OWN_PORTS if "distributed_init_method" in text else ():
            if (port := re.search(pattern, text)) is not None:
                self._own_ports[port["port"]] = fix
        row = TABLE_RANK.search(text)
        if row is not None:
            self._first.setdefault(None, set()).add(int(row["rank"]) - int(row["local"]))
        self.agents |= "elastic" in text or "torchrun" in text
        if "nproc" not in text and "ode" not in text and "global_ranks" not in text and "achines" not in text:
            self._hear_prompt(text)
            return
        node = _DEEPSPEED.search(text)
        if node is not None:
            self._first.setdefault(who.host, set()).add(int(node["each"]) * int(node["node"]))
        elastic = _ELASTIC.search(text)
        if elastic is not None:
            self._first.setdefault(who.host, set()).add(int(elastic["first"]))
        self._nodes |= nodes_in(text)
        self._hear_prompt(text)

    def _hear_prompt(self, text: str) -> None:
        prompt = _PROMPT.match(text)
        if prompt is not None and not _FAR.search(text, prompt.end()):
            self._hosts.add(prompt["host"])

    def of(self, match: Match) -> Match:
        """Return ``match`` with the rank and host that the whole log gives."""
        who = match.who
        if (fix := self._own_ports.get(match.values.get("port", ""))) is not None:
            told = f"Another program took port {match.values['port']}, which the engine had picked, before it was bound"
            match = replace(match, check=ENGINE_PORT, values={**match.values, "told": told, "fix": fix})
        if who.host is None and len(self._hosts) == 1 and not any(nodes > 1 for nodes in self._nodes):
            host = next(iter(self._hosts))
            # Ray prints the address only for processes on other hosts.
            who = who if who.pid is not None and _ADDRESS.fullmatch(host) else replace(who, host=host)
        if who.rank is None and who.local_rank is not None and not match.ranks:
            first = self._first_rank(who.host)
            who = who if first is None else replace(who, rank=first + who.local_rank)
        tasks = match.values.get("tasks")
        numbers = _numbers(tasks) if tasks and who.rank is None and not self.agents else ()
        if len(numbers) == 1:
            who = replace(who, rank=numbers[0])
        elif numbers:
            match = replace(match, ranks=numbers)
        if match.has("several") and any(nodes > 1 for nodes in self._nodes):
            match = replace(match, shows="cause", why="")
        return replace(match, who=who)

    def _first_rank(self, host: str | None) -> int | None:
        if self._nodes == {1}:
            return 0
        ranks = self._first.get(host) or self._first.get(None) or set()
        if not ranks and len(self._first) == 1:
            ranks = next(iter(self._first.values()))
        return next(iter(ranks)) if len(ranks) == 1 else None


def _numbers(tasks: str) -> tuple[int, ...]:
    """Return the numbers in ``1-3,7``."""
    found: list[int] = []
    for first, last in _TASKS.findall(tasks):
        found += range(int(first), min(int(last or first), int(first) + MAX_PLACES) + 1)
    return tuple(found[:MAX_PLACES])

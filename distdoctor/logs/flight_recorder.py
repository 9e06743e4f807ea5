"""Flight-recorder dumps of torch 2.2 to 2.13: reader, and comparison of the collectives that ranks recorded.

Nothing in a dump is executed: a pickle is read only if it holds plain data, without any class or function.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from distdoctor.logs.plain_pickle import BadPickle, load_plain
from distdoctor.logs.rank_comparison import rank_list
from distdoctor.logs.reading import budget

MAX_BYTES = 64 << 20
"""Largest dump in bytes; twenty thousand calls, each with its own stack, take about forty million."""
MAX_ENTRIES = 100_000
MOST_VALUES, MOST_OPERATIONS = 4_000_000, 6_000_000
"""Most values and pickle operations; ten thousand calls take about two million. A one-byte empty list becomes fifty
bytes of memory."""
MOST_PARTS = 256
"""Parts of one value that are printed, however they are nested."""
DEFAULT = "0"
"""Name of the default group."""
MESSAGES = "only messages between two ranks are recorded, and no collective"
OLD = "torch before 2.4 wrote it, which counts messages and collectives together: not compared"
_MESSAGE = re.compile(r"nccl:(?:send|recv|coalesced)\b")
_RANK = re.compile(r"rank[._-]?(\d{1,6})")
_LAST_NUMBER = re.compile(r"(\d{1,6})(?:\.(?:json|pickle|pkl|txt|gz|zst|xz|bz2))*$")


class BadDump(ValueError):
    """Dump that cannot be read; the text gives the reason."""


DEEPEST, WIDEST = 4, 64
"""Depth and number of parts to which a value is followed: a dump can hold the same list many times over."""
MOST = 1 << 62
"""Upper bound of every number in a dump."""
MOST_RANKS = 200_000
MOST_MEMBERS = 4_000_000
"""Most characters or numbers that the member lists of all groups may take."""


@dataclass(frozen=True)
class Step:
    """One collective of one group, as one rank recorded it."""

    operation: str
    sizes: str
    elements: str
    """Number and type of the elements in and out: these must agree between ranks, the shapes need not."""
    done: bool
    frame: str = ""
    created: int = 0
    """Time of the call in nanoseconds since the epoch, by that host's clock."""


@dataclass(frozen=True)
class Dump:
    """Dump of one rank: group -> sequence number -> recorded collective."""

    name: str
    rank: int | None
    groups: dict[str, dict[int, Step]] = field(default_factory=dict)
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    enqueued: dict[str, int] | None = None
    """Last collective called in each group; None if the dump does not record it."""
    whole: bool = True
    """True if finished collectives are included; a dump can leave them out."""
    passed_over: str = ""
    """Recorded operations that are not compared."""

    @property
    def latest(self) -> int:
        """Return the time of the last call, 0 if there is none."""
        return max((step.created for steps in self.groups.values() for step in steps.values()), default=0)


def load(name: str, data: bytes) -> Dump:
    """Read a dump from ``data``. Raises BadDump."""
    content = _content(data)
    recorded = _Recorded.of(content.get("entries"))
    return Dump(
        name,
        _rank(name, content),
        recorded.groups,
        _members(content.get("pg_config")),
        _enqueued(content.get("pg_status"), recorded.numbers),
        any(step.done for steps in recorded.groups.values() for step in steps.values()),
        recorded.passed_over,
    )


def _content(data: bytes) -> dict[Any, Any]:
    """Return the dictionary of a dump, which torch 2.2 writes as a list of its entries alone."""
    if len(data) > MAX_BYTES:
        raise BadDump(f"more than {MAX_BYTES >> 20} MiB, the rest was not read")
    content = _json(data) if data.lstrip()[:1] == b"{" else _pickle(data)
    if isinstance(content, list) and content and all(isinstance(one, dict) and "seq_id" in one for one in content):
        content = {"entries": content}
    if not isinstance(content, dict):
        raise BadDump("not a flight-recorder dump")
    return content


def _rank(name: str, content: dict[Any, Any]) -> int | None:
    """Return the rank that wrote a dump: by itself, else by the name of its file."""
    match = _RANK.search(name.rpartition("/")[2]) or _LAST_NUMBER.search(name)
    own = _as_number(content.get("rank"))
    rank = int(match[1]) if own is None and match else own
    return rank if rank is not None and rank < MOST_RANKS else None


@dataclass
class _Recorded:
    """Collectives among the entries of a dump."""

    groups: dict[str, dict[int, Step]] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """Names of the groups by the number that the process gave them."""
    passed_over: str = ""

    @classmethod
    def of(cls, entries: Any) -> _Recorded:
        """Read these entries."""
        found = cls()
        kept = [one for one in entries[:MAX_ENTRIES] if isinstance(one, dict)] if isinstance(entries, list) else []
        comparable = _counts_no_messages(kept)
        for entry in kept:
            if entry.get("is_p2p"):
                found.passed_over = found.passed_over or MESSAGES
            elif "seq_id" not in entry:
                found.take(entry, _as_number(entry.get("collective_seq_id")))
            else:
                found.passed_over = OLD
                found.take(entry, _as_number(entry["seq_id"]) if comparable and _is_of_default(entry) else None)
        return found

    def take(self, entry: dict[str, Any], sequence: int | None) -> None:
        """Take the collective with this number of its group."""
        if sequence is not None:
            group = _group(entry.get("process_group"))
            self.groups.setdefault(group, {})[sequence] = _step(entry)
            self.numbers[str(_as_number(entry.get("pg_id")))] = group


def _json(data: bytes) -> Any:
    try:
        return budget.loads(data, MOST_VALUES)
    except ValueError as err:
        raise BadDump(f"not whole JSON: {str(err)[:200]}") from None


def _pickle(data: bytes) -> Any:
    try:
        return load_plain(data, MOST_OPERATIONS)
    except BadPickle as err:
        raise BadDump(f"no pickle of plain data: {err}") from None


def _group(value: Any) -> str:
    """Return the name of a group; the default group has one name, whatever the dump calls it (gloo leaves it out of
    pg_config)."""
    name = value[0] if isinstance(value, (list, tuple)) and value else value
    return _as_text(name) if name not in (None, "") else DEFAULT


def _is_of_default(entry: dict[str, Any]) -> bool:
    """Return whether torch before 2.4 recorded it for the default group: each process numbers the others by itself."""
    return _as_number(entry.get("pg_id")) == 0


def _counts_no_messages(entries: Sequence[dict[str, Any]]) -> bool:
    """Return whether the numbers of torch before 2.4 in the default group count collectives only: all from the first on
    are there, and none is of a message. Such a batch takes a number, too, without an entry."""
    own = [one for one in entries if "seq_id" in one and _is_of_default(one)]
    numbers = [_as_number(one["seq_id"]) for one in own]
    messages = any(_MESSAGE.match(_as_text(one.get("profiling_name"))) for one in own)
    return not messages and numbers == [*range(1, len(own) + 1)]


def _as_number(value: Any) -> int | None:
    """Return a number of a dump, which JSON may hold as a string."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and 0 <= value < MOST else None


def _as_text(value: Any, depth: int = DEEPEST, left: list[int] | None = None) -> str:
    """Return a value as text of bounded length."""
    left = [MOST_PARTS] if left is None else left
    left[0] -= 1
    if isinstance(value, (list, tuple)):
        if depth == 0:
            return "[...]"
        shown = list[str]()
        for one in value[:WIDEST]:
            if left[0] <= 0:
                break
            shown.append(_as_text(one, depth - 1, left))
        return f"[{', '.join(shown)}{', ...' if len(value) > len(shown) else ''}]"
    if isinstance(value, str):
        return value[:400]
    return str(value) if value is None or isinstance(value, (bool, float)) or _as_number(value) is not None else "?"


def _step(entry: dict[str, Any]) -> Step:
    frames = entry.get("frames")
    own = (one for one in frames[:WIDEST] if isinstance(one, dict)) if isinstance(frames, list) else iter(())
    frame = next((one for one in own if "torch/" not in _as_text(one.get("filename"))), None)
    place = (
        f"{_as_text(frame.get('filename'))}:{_as_text(frame.get('line'))} in {_as_text(frame.get('name'))}"
        if frame
        else ""
    )
    sides = [(entry.get(f"{side}_sizes"), entry.get(f"{side}_dtypes")) for side in ("input", "output")]
    return Step(
        operation=_as_text(entry.get("profiling_name", "?")).rpartition(":")[2],
        sizes=" -> ".join(_typed(_as_text(sizes), types) for sizes, types in sides),
        elements=" -> ".join(_typed(_elements(sizes), types) for sizes, types in sides),
        done=_is_done(entry),
        frame=place,
        created=_as_number(entry.get("time_created_ns")) or 1000 * (_as_number(entry.get("time_created_us")) or 0),
    )


def _typed(sizes: str, types: Any) -> str:
    """Return sizes with the types of their elements, which torch before 2.4 does not record."""
    return sizes if types is None else f"{sizes} {_as_text(types)}"


def _is_done(entry: dict[str, Any]) -> bool:
    """Return whether the collective completed.

    NCCL retires a collective that was given up after a timeout, too, without completing it (FlightRecorder.hpp), and so
    does HCCL; gloo records no other state.
    """
    retired = entry.get("retired") is True and _as_text(entry.get("profiling_name")).startswith("gloo:")
    return retired or entry.get("state") == "completed"


def _elements(sizes: Any) -> str:
    if not isinstance(sizes, (list, tuple)):
        return _as_text(sizes)
    counts = [
        math.prod(_as_number(size) or 0 for size in one[:WIDEST]) if isinstance(one, (list, tuple)) else 0
        for one in sizes[:WIDEST]
    ]
    return str([count if count < MOST else -1 for count in counts])


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group; gloo's groups have none, or those of another group under an empty name.

    torch 2.3 has a list of them per number of a group. Only that of the default group, 0, means the same on all ranks.
    """
    found, room = {}, MOST_MEMBERS
    for name, values in config.items() if isinstance(config, dict) else ():
        listed = values.get("ranks") if isinstance(values, dict) else values if name == 0 else None
        room -= len(listed) if isinstance(listed, (str, list)) else 1
        if room < 0:
            break
        numbers = re.findall(r"\d{1,9}", listed) if isinstance(listed, str) else listed
        if name not in (None, "") and isinstance(numbers, list):
            found[_as_text(name)] = tuple(rank for rank in map(_as_number, numbers) if rank is not None)
    return found


def _enqueued(status: Any, groups: dict[str, str]) -> dict[str, int] | None:
    """Return the last collective per group from pg_status; a group without recorded collectives is named by its
    number."""
    if not isinstance(status, dict):
        return None
    found = {}
    for number, values in status.items():
        last = _as_number(values.get("last_enqueued_collective")) if isinstance(values, dict) else None
        if last is not None:
            name = _as_text(number)
            found[groups.get(name, name)] = last
    return found


# Comparison of the dumps of several ranks: which rank missed a collective, or called a different one.


ALL = "all have called it"
NOTHING = (
    "no collective is recorded: torch before 2.8 records none of gloo's, and none is kept where "
    "TORCH_FR_BUFFER_SIZE (before 2.8 TORCH_NCCL_TRACE_BUFFER_SIZE) is 0, its default up to 2.10"
)
SAID = 3
"""Different calls of one collective that are printed."""


def dumps_by_rank(dumps: Sequence[Dump]) -> tuple[dict[int, Dump], list[str]]:
    """Return the latest dump of each rank, and notes about the others."""
    ranked: dict[int, Dump] = {}
    notes = []
    for dump in dumps:
        known = ranked.get(dump.rank) if dump.rank is not None else None
        if dump.rank is None:
            notes.append(f"{dump.name}: neither the dump nor its name says of which rank it is: not compared")
        elif known is None:
            ranked[dump.rank] = dump
        else:
            later, earlier = (dump, known) if dump.latest > known.latest else (known, dump)
            ranked[dump.rank] = later
            if earlier.groups != later.groups:
                notes.append(f"{earlier.name}: not compared: {later.name} is a later dump of rank {dump.rank}")
    if ranked and not any(dump.groups or dump.enqueued for dump in ranked.values()):
        why = next((dump.passed_over for dump in ranked.values() if dump.passed_over), NOTHING)
        notes.append(f"{next(iter(ranked.values())).name}: {why}")
    return ranked, notes


def compare_dumps(dumps: Sequence[Dump]) -> Iterator[str]:
    """Yield a line per group about the first collective at which its ranks differ, or in which all wait."""
    ranked, _ = dumps_by_rank(dumps)
    for group in dict.fromkeys(name for dump in ranked.values() for name in dump.groups):
        listed = [dump.members[group] for dump in ranked.values() if dump.members.get(group)]
        here = {rank for rank, dump in ranked.items() if group in dump.groups}
        known = listed[0] if listed else tuple(range(max(ranked) + 1)) if group == DEFAULT else ()
        members = {*known, *here}
        found = _parting(group, {rank: ranked[rank] for rank in sorted(members & ranked.keys())}, members)
        yield from (line if known else line.replace(ALL, "who else is in the group is not recorded") for line in found)


def _parting(group: str, dumps: dict[int, Dump], members: set[int]) -> Iterator[str]:
    """Yield the first collective that not all have called, or that they called differently, else the first in which all
    wait."""
    here = {rank: dump.groups.get(group, {}) for rank, dump in dumps.items()}
    unknown = sorted(members - here.keys())
    all_in = ""
    for number, at in _in_turn(here):
        waiting = [rank for rank, step in at.items() if not step.done]
        without = [rank for rank in here if rank not in at and _never_called(dumps[rank], group, number)]
        kinds = Counter(_kind(step) for step in at.values())
        if without and waiting:
            yield f"flight recorder: group {group}: {_absence(without, waiting, number, next(iter(at.values())))}"
            return
        if len(kinds) > 1 and not _may_differ(kinds):
            yield f"flight recorder: group {group}, number {number}: {_difference(at, kinds)}"
            return
        if waiting and not all_in and (unknown or len(waiting) == len(at)):
            of = f"no dump of {rank_list(unknown)}" if unknown else ALL
            operation = next(iter(at.values())).operation
            all_in = f"flight recorder: group {group}: {rank_list(waiting)} in {operation} number {number}; {of}"
    if all_in:
        yield all_in


def _in_turn(here: dict[int, dict[int, Step]]) -> Iterator[tuple[int, dict[int, Step]]]:
    """Yield each collective of a group by its number, with the ranks that recorded it.

    Where a rank's oldest kept entry is later, the earlier ones have been overwritten.
    """
    first = max((min(steps) for steps in here.values() if steps), default=0)
    for number in sorted({number for steps in here.values() for number in steps if number >= first}):
        yield number, {rank: steps[number] for rank, steps in here.items() if number in steps}


def _absence(without: Sequence[int], waiting: Sequence[int], number: int, step: Step) -> str:
    """Return who never called a collective in which others wait."""
    wait = "waits" if len(waiting) == 1 else "wait"
    place = f" ({step.frame})" if step.frame else ""
    return (
        f"{rank_list(without)} never called {step.operation} number {number}, in which {rank_list(waiting)} "
        f"{wait}{place}"
    )


def _never_called(dump: Dump, group: str, number: int) -> bool:
    """Return whether the rank never called it, rather than left it out of the dump as finished."""
    if dump.whole or any(not step.done for step in dump.groups.get(group, {}).values()):
        return True  # nothing is left out, or an earlier one is unfinished
    if not dump.enqueued:
        return dump.enqueued is not None  # it has called nothing in any group
    last = dump.enqueued.get(group)
    return last is not None and last < number


def _kind(step: Step) -> tuple[str, str]:
    return step.operation, step.elements


def _difference(at: dict[int, Step], kinds: Counter[tuple[str, str]]) -> str:
    """Return the ranks by the collective they called; if fewer than half differ, these come first."""
    ordered = sorted(kinds, key=lambda kind: kinds[kind])
    groups = [[rank for rank, step in at.items() if _kind(step) == kind] for kind in ordered]
    called = [f"{rank_list(ranks)} called {at[ranks[0]].operation} {at[ranks[0]].sizes}" for ranks in groups[:SAID]]
    if len(ordered) == 2 and kinds[ordered[0]] < kinds[ordered[1]]:
        usual = at[groups[1][0]]
        return f"{called[0]}, the others {usual.operation} {usual.sizes}"
    return f"{rank_list(sorted(at))} differ: {', '.join(called)}{', and others' if len(ordered) > SAID else ''}"


def _may_differ(kinds: Iterable[tuple[str, str]]) -> bool:
    """Return whether it is one gather or scatter whose sizes may differ from rank to rank."""
    operations = {operation.replace("_", "") for operation, _ in kinds}
    return len(operations) == 1 and not operations & {"allreduce", "broadcast", "reduce"}

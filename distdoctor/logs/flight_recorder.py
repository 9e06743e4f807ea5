"""Flight-recorder dumps of torch 2.5 to 2.13: which rank did not start, or differs at, which collective.

Nothing in a dump is run: a pickle is read only where it holds plain data, with no class or function in it.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

MAX_BYTES = 256 << 20
MAX_ENTRIES = 200_000
_ALLOWED = frozenset(
    [
        "PROTO",
        "FRAME",
        "STOP",
        "MARK",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "EMPTY_SET",
        "DICT",
        "LIST",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "SETITEM",
        "SETITEMS",
        "APPEND",
        "APPENDS",
        "ADDITEMS",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "PUT",
        "BINPUT",
        "GET",
        "BINGET",
        "LONG_BINGET",
        "MEMOIZE",
        "POP",
        "POP_MARK",
        "DUP",
        "LONG_BINPUT",
    ]
)


class BadDump(Exception):
    """A dump that cannot be read; the text says why."""


@dataclass(frozen=True)
class Step:
    """One collective of one group, as one rank recorded it."""

    operation: str
    sizes: str
    state: str
    done: bool
    frame: str = ""


@dataclass(frozen=True)
class Dump:
    """One rank's dump: group -> sequence number -> what was recorded."""

    name: str
    rank: int | None
    groups: dict[str, dict[int, Step]] = field(default_factory=dict)
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise BadDump(f"it names {module}.{name}, which plain data does not")

    def persistent_load(self, pid: object) -> NoReturn:
        raise BadDump("it refers to something outside")


def load(name: str, data: bytes) -> Dump:
    """The dump in ``data``. Raises BadDump."""
    content = _json(data) if data.lstrip()[:1] == b"{" else _pickle(data)
    if not isinstance(content, dict):
        raise BadDump("not a flight-recorder dump")
    match = re.search(r"(\d{1,6})(?:\.(?:json|pickle|pkl|gz|zst))*$", name)
    rank = content.get("rank")
    number = rank if isinstance(rank, int) else int(match[1]) if match else None
    groups: dict[str, dict[int, Step]] = {}
    entries = content.get("entries")
    for entry in entries[:MAX_ENTRIES] if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        group, sequence = _group(entry.get("process_group")), entry.get("collective_seq_id")
        if isinstance(sequence, int):
            groups.setdefault(group, {})[sequence] = _step(entry)
    return Dump(name, number, groups, _members(content.get("pg_config")))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise BadDump(f"not whole JSON: {err}") from None


def _pickle(data: bytes) -> Any:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name not in _ALLOWED or (opcode.name == "LONG_BINPUT" and (argument or 0) > len(data)):
                raise BadDump(f"a pickle with {opcode.name} in it, which is not read")
        return _Plain(io.BytesIO(data)).load()
    except BadDump:
        raise
    except Exception as err:
        raise BadDump(f"not a whole pickle: {type(err).__name__}") from None


def _group(value: Any) -> str:
    """The name of a group; of the default one, whatever it is called (gloo leaves it out of pg_config)."""
    name = value[0] if isinstance(value, (list, tuple)) and value else value
    return str(name) if name not in (None, "") else "0"


def _step(entry: dict[str, Any]) -> Step:
    frames = entry.get("frames")
    frame = (
        next((f for f in frames if isinstance(f, dict) and "torch/" not in str(f.get("filename"))), None)
        if isinstance(frames, list)
        else None
    )
    told = f"{frame.get('filename')}:{frame.get('line')} in {frame.get('name')}" if frame else ""
    done = bool(entry.get("retired")) or entry.get("state") == "completed"
    sizes = f"{entry.get('input_sizes')} -> {entry.get('output_sizes')}"
    return Step(str(entry.get("profiling_name", "?")).rpartition(":")[2], sizes, str(entry.get("state")), done, told)


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, values in config.items() if isinstance(config, dict) else ():
        listed = values.get("ranks") if isinstance(values, dict) else None
        numbers = re.findall(r"\d+", listed) if isinstance(listed, str) else listed if isinstance(listed, list) else []
        found[str(name) or "0"] = tuple(int(number) for number in numbers if str(number).isdecimal())
    return found


def compare(dumps: Sequence[Dump]) -> Iterator[str]:
    """For each group, a line about the first collective at which its ranks part."""
    ranked = {dump.rank: dump for dump in dumps if dump.rank is not None}
    for group in dict.fromkeys(name for dump in ranked.values() for name in dump.groups):
        here = {rank: dump.groups[group] for rank, dump in ranked.items() if group in dump.groups}
        known = (dump.members[group] for dump in ranked.values() if dump.members.get(group))
        members = next(known, tuple(sorted(here)))
        absent = [rank for rank in members if rank in ranked and rank not in here]
        yield from _parting(group, {**here, **{rank: {} for rank in absent}})


def _parting(group: str, here: dict[int, dict[int, Step]]) -> Iterator[str]:
    if len(here) < 2:
        return
    first = max((min(steps) for steps in here.values() if steps), default=0)
    for number in sorted({number for steps in here.values() for number in steps if number >= first}):
        at = {rank: steps[number] for rank, steps in here.items() if number in steps}
        without = sorted(set(here) - set(at))
        if without:
            step = next(iter(at.values()))
            yield (
                f"flight recorder: group {group}: {_ranks(without)} never called {step.operation} number {number}, in "
                f"which {_ranks(sorted(at))} wait{'s' if len(at) == 1 else ''}"
                f"{f' ({step.frame})' if step.frame else ''}"
            )
            return
        kinds = Counter((step.operation, step.sizes) for step in at.values())
        if len(kinds) > 1 and not _may_differ(kinds):
            rare, usual = min(kinds, key=lambda kind: kinds[kind]), max(kinds, key=lambda kind: kinds[kind])
            those = sorted(rank for rank, step in at.items() if (step.operation, step.sizes) == rare)
            yield (
                f"flight recorder: group {group}, number {number}: {_ranks(those)} called {rare[0]} {rare[1]}, "
                f"the others {usual[0]} {usual[1]}"
            )
            return


def _may_differ(kinds: Iterable[tuple[str, str]]) -> bool:
    """Whether it is one collective whose sizes may differ from rank to rank: what is gathered or scattered."""
    operations = {operation.replace("_", "") for operation, _ in kinds}
    return len(operations) == 1 and not operations & {"allreduce", "broadcast", "reduce"}


def _ranks(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"

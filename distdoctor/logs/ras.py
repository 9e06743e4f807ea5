"""Per-rank facts in the text of NCCL's RAS: collectives called, lost ranks, and ranks that noticed.

It has a block per communicator, and under its warnings one per kind of collective (NCCL 2.24 to 2.30,
src/ras/client_support.cc). Ranks with the same counts are grouped, and named one by one if they are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distdoctor.model.facts import RasCount, RasRank
from distdoctor.model.text import fit

_COMMUNICATOR = re.compile(r"#\d{1,6}-\d{1,6} \(([0-9a-f]{1,16})\) (\w{1,16})")
_KIND = re.compile(r"Communicator ranks have different (\w{1,24}) operation counts")
_TOGETHER = re.compile(r"(\d{1,7}) ranks have (?:launched up to operation (\d{1,18})|not launched any operations)")
_RANK = re.compile(
    r"Rank (\d{1,7})(?P<own> has (?:launched up to operation (\d{1,18})|not launched any operations))? -- "
    r".{0,80}?managed by process (\d{1,10}) on node (\S{1,64})"
)
_PROCESS = re.compile(r"^(Rank \d{1,7})\b.{0,120}? managed by process (\d{1,10}) on node (\S{1,64})")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=All)(?=to[A-Z])|(?<=to)(?=All)")
_MAX_RAS_ENTRIES = 64
"""Kinds of collectives, and ranks, that are kept."""
_HEAD = re.compile(r"^#(\d{1,6})-\d{1,6} \([0-9a-f]{1,16}\) \w", re.MULTILINE)
_SIZE = re.compile(r"^ *(\d{1,6}) +\d+ +\d+ +\S+ +(\d{1,7}) ", re.MULTILINE)
"""Row of the table of communicators: the number of the group of these, and the number of ranks of each."""
_REPORTED = re.compile(r"reported Remote process error\b")


def counts_in(text: str) -> tuple[RasCount, ...]:
    """Return the counts in the text under ``Warnings``. Never raises."""
    return tuple(one for _, one in zip(range(_MAX_RAS_ENTRIES), _counts(text[:400_000]), strict=False))


def missing_from(errors: str, table: str, world: int | None) -> tuple[tuple[RasRank, ...], tuple[int, ...]]:
    """Return the ranks that did not answer, and the processes that lost another of their communicator.

    Ranks count if their communicator has ``world`` ranks and so numbers them as the job does. Never raises.
    """
    sizes = {int(row[1]): int(row[2]) for row in _SIZE.finditer(table[:100_000])}
    missing, noticed = dict[int, RasRank](), dict[int, None]()
    whole, kind, remote = False, "", False
    for line in map(str.strip, errors[:400_000].splitlines()):
        if (found := _COMMUNICATOR.match(line)) is not None:
            whole = sizes.get(int(line[1:].partition("-")[0]), 0) == world
            kind, remote = found[2], False
        elif "reported" in line:
            remote = _REPORTED.search(line) is not None
        if (rank := _PROCESS.search(line)) is None:
            continue
        if kind == "ERROR" and remote:
            noticed.setdefault(int(rank[2]))
        elif kind == "INCOMPLETE" and whole and line.startswith("Rank "):
            number = int(line.split()[1])
            missing.setdefault(number, RasRank(number, int(rank[2]), fit(rank[3])))
    return tuple(missing.values())[:_MAX_RAS_ENTRIES], tuple(noticed)[:_MAX_RAS_ENTRIES]


def _counts(text: str) -> Iterator[RasCount]:
    communicator, block = "", list[str]()
    kind = ""
    for line in [*map(str.strip, text.splitlines()), ""]:
        if (found := _COMMUNICATOR.match(line)) is not None:
            communicator = found[1] if found[2] == "MISMATCH" else ""
        if (found := _KIND.match(line)) is not None:
            kind, block = found[1], []
        elif line:
            block.append(line)
        elif kind:
            if communicator:
                yield _count(communicator, kind, block)
            kind = ""


def _count(communicator: str, kind: str, lines: list[str]) -> RasCount:
    named, groups = list[RasRank](), list[list[int]]()  # a group: the number of unnamed ranks, and their counts
    for line in lines:
        if (group := _TOGETHER.match(line)) is not None:
            groups.append([int(group[1]), int(group[2] or 0)])
        elif (rank := _RANK.match(line)) is not None:
            if not rank["own"] and groups:
                groups[-1][0] -= 1
            launched = int(rank[3] or 0) if rank["own"] or not groups else groups[-1][1]
            named.append(RasRank(int(rank[1]), int(rank[4]), fit(rank[5]), launched))
    rest = [(count, launched) for count, launched in groups if count > 0]
    return RasCount(
        communicator,
        "_".join(_WORDS.split(kind)).lower(),
        tuple(named[:_MAX_RAS_ENTRIES]),
        sum(count for count, _ in rest),
        rest[0][1] if len(rest) == 1 else None,
    )


_PARAGRAPH = 64 << 10
"""Bytes around a line that are searched for the table of communicators, and for the ranks below the line."""


def named_below(context: bytes, at: int) -> tuple[RasRank, ...]:
    """Return the ranks that the paragraph at ``at`` shows to be behind or missing, if their communicator is the largest
    one, which numbers them as the job does."""
    before, paragraph = (
        part.decode("utf-8", "replace")
        for part in (context[max(at - _PARAGRAPH, 0) : at], context[at : at + _PARAGRAPH].partition(b"\n\n")[0])
    )
    sizes = {int(row[1]): int(row[2]) for row in _SIZE.finditer(before)}
    heads = [*_HEAD.finditer(before)]
    if not heads or sizes.get(int(heads[-1][1]), 0) < max(sizes.values(), default=1):
        return ()
    first, *lines = map(str.strip, paragraph.splitlines())
    if (kind := _KIND.match(first)) is None:
        ranks = filter(None, map(_PROCESS.match, lines))
        return tuple(RasRank(int(one[1].split()[1]), int(one[2]), fit(one[3])) for one in ranks)
    count = _count("", kind[1], lines)
    return tuple(rank for rank in count.ranks if rank.launched == count.behind)

"""Lists of nodes and of numbers as launchers write them."""

from __future__ import annotations

import re

MAX_NODES = 100_000
MAX_LENGTH = 1 << 20


def expand(text: str) -> tuple[str, ...]:
    """The names in ``gpu[01-16],extra7``; empty where it is no such list."""
    if not text or len(text) > MAX_LENGTH or not re.fullmatch(r"[\w.,\[\]-]+", text):
        return ()
    if "[" not in text:
        return tuple(text.split(","))
    # Here: start-up is light. No resolver: ClusterShell would look "@group" up by running site commands.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # One after the other: in SLURM's order, where a set would be sorted.
        parts = [NodeSet(part, resolver=RESOLVER_NOGROUP) for part in re.split(r",(?![^\[]*\])", text)]
        names = [name for part in parts for name in (part if len(part) <= MAX_NODES else ())]
    except (NodeSetException, ValueError):
        return ()
    return tuple(dict.fromkeys(names)) if len(names) <= MAX_NODES else ()


def repeated(text: str) -> tuple[int, ...]:
    """The numbers in ``2(x3),1``; empty where it is no such list."""
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if match is None or len(numbers) > MAX_NODES:
            return ()
        numbers += [int(match[1])] * min(int(match[2] or 1), MAX_NODES)
    return tuple(numbers)


def number_of(text: str | None) -> int | None:
    """The number that ``text`` is; None where it is none."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,10}", text.strip()) else None


def whole_number(text: str) -> int | None:
    """The number that Python's int() makes of ``text``, as torch does with its variables: blanks around it, a sign and
    ``29_500`` will do. None where it is none, or one of more than 18 digits."""
    return int(text) if re.fullmatch(r"\s*[+-]?\d(?:_?\d){0,17}\s*", text) else None

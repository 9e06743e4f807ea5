"""Evidence of many nodes, gathered: equal lines once, the minority set against the majority."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from distdoctor.model.sanitize import clean
from distdoctor.render.words import fold, ranks

OWN = "\0"
"""Stands for the node's own name in a text that is compared with those of other nodes."""
_COMMAND = re.compile(r"`[^`]*`")


def gathered(lines: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """``host0: text`` and ``host0 rank 1: text`` lines that say the same as one line of several nodes and ranks.

    Where some nodes say the same and others something else, the fewest come first: they are the odd ones. Lines
    that name no node at their start stay in front.
    """
    known = set(nodes)
    common: list[str] = []
    groups: dict[str, list[tuple[str, int | None]]] = {}
    for line in dict.fromkeys(lines):
        source, colon, text = line.partition(": ")
        node, rank = _source(source)
        if colon and node in known:
            groups.setdefault(without_own_name(text, node), []).append((node, rank))
        else:
            common.append(line)
    entries = list(groups.items())
    if any(len(_names(members)) > 1 for _, members in entries):
        entries.sort(key=lambda entry: len(_names(entry[1])))
    return common + [_line(text, members, len(nodes)) for text, members in entries]


def without_own_name(text: str, node: str) -> str:
    """``text`` with :data:`OWN` in place of the node's name, so that it can be compared with those of other nodes."""
    return re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|\.\w)", OWN, text)


def with_names(text: str, nodes: Iterable[str]) -> str:
    """The text again, for all of ``nodes`` at once; a command in it is that of the first, so that it can be pasted."""
    names = list(nodes)
    if len(names) > 1:
        first = clean(names[0])
        text = _COMMAND.sub(
            lambda it: f"{it[0].replace(OWN, first)} (the others alike)" if OWN in it[0] else it[0], text
        )
    return text.replace(OWN, fold(names))


def _source(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(.+) rank (\d{1,9})", text)
    return (match[1], int(match[2])) if match else (text, None)


def _names(members: Sequence[tuple[str, int | None]]) -> list[str]:
    return list(dict.fromkeys(node for node, _ in members))


def _line(text: str, members: Sequence[tuple[str, int | None]], of_all: int) -> str:
    names = _names(members)
    numbers = [rank for _, rank in members if rank is not None]
    share = f" ({len(names)} of {of_all} nodes)" if of_all > 2 and len(names) < of_all else ""
    return f"{fold(names)}{' ' + ranks(numbers) if numbers else ''}{share}: {with_names(text, names)}"

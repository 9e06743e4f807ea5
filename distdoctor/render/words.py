"""Small pieces of text that every renderer needs: safe data, folded node names, spans of time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from distdoctor.model.text import clean

_FOLDABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#+-]*")


FOLDED = 20_000
"""Largest number of names to fold; more are a mistyped number of nodes, and take seconds."""
SHORT = 60
"""Most characters of names in a line of progress, so that it stays one line of a screen."""


def fold(names: Iterable[str]) -> str:
    """Node names as one word where they allow it: ``gpu[01-08]``; else separated by commas."""
    unique = list(dict.fromkeys(names))
    if len(unique) < 2:
        return clean("".join(unique))
    if len(unique) > FOLDED:
        return _first(unique)
    folded = _folded(tuple(unique)) if all(_FOLDABLE.fullmatch(name) for name in unique) else None
    return folded or ", ".join(clean(name) for name in unique)


def fold_short(names: Iterable[str]) -> str:
    """Return the names folded, or the first ones and a count if that takes more than SHORT characters."""
    unique = list(dict.fromkeys(names))
    folded = fold(unique)
    return folded if len(folded) <= SHORT or len(unique) < 5 else _first(unique)


def _first(names: Sequence[str]) -> str:
    return f"{', '.join(map(clean, names[:3]))} and {len(names) - 3:,} more"


def link_target(url: str) -> str:
    """Return ``url`` where a page may link to it, else nothing: a saved report can hold anything."""
    return url if re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+", url) else ""


def ranks(numbers: Iterable[int]) -> str:
    """``rank 3`` or ``ranks 0-3,6``."""
    ordered = sorted(set(numbers))
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"rank {text}" if len(ordered) == 1 else f"ranks {text}"


def inside(title: str) -> str:
    """Return a page's title as it is written inside a sentence: ``a rank's process crashed``."""
    first = title.partition(" ")[0]
    return title[:1].lower() + title[1:] if first.istitle() and first != "Python" else title


def count(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@lru_cache(64)
def _folded(names: tuple[str, ...]) -> str | None:
    # ClusterShell looks "@group" up by running site commands: no resolver, and only names without its operators.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        nodes = NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP)
        if set(nodes) != set(names):
            return None
        text = re.sub(r",(?![^\[]*\])", ", ", str(nodes))
        return text if len(text) <= len(", ".join(names)) else None
    except (NodeSetException, ValueError):
        return None

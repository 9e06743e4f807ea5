"""The marks that a packet filter puts on what this host sends from or to a port: policy routing may go by them. Pure.

A mark counts only where it is known of every rule on the way whether it is about that packet: a rule for some user or
for some peer leaves it unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from distdoctor.knowledge.ruleset import Direction
from distdoctor.model.facts import PacketMark

ALL = 0xFFFFFFFF
_SIDES: tuple[Direction, ...] = ("dport", "sport")


@dataclass(frozen=True)
class Way:
    """A packet to or from the port, and the marks that it and its connection have so far."""

    port: int
    side: Direction
    """Which of its ports that is, as it passes the chain. The other one was picked by a kernel: it is in some range,
    but no port that a rule names by itself."""
    new: bool
    """It begins the connection."""
    interface: str | None
    """By which it comes or goes; None: not known."""
    mark: int = 0
    connection: int | None = 0
    """None: not known."""
    rule: str = ""


@dataclass(frozen=True)
class Change:
    """Bits that are replaced: of the packet's mark, or of the connection's."""

    of: Literal["packet", "connection"]
    kept: int
    """The bits that stay."""
    value: int | Literal["packet", "connection"]
    """What is put in; or whose mark."""
    taken: int = ALL
    """The bits of that other mark that are put in."""


@dataclass(frozen=True)
class Step:
    """One rule, for one packet."""

    matches: bool | None
    """None: not known."""
    changes: tuple[Change, ...] = ()
    verdict: str = ""
    """accept, return, drop, jump, goto; ``unknown`` where what it does is; empty: the next rule is asked."""
    target: str = ""
    text: str = ""


Chains = Mapping[str, Sequence[Step]]
Bases = Callable[[Way], Sequence[tuple[Chains, str]]]
"""The base chains that a packet passes, in their order: all chains of each one's table, and its name."""


def both_ways(
    into: Bases, out: Bases, port: int, interface: str | None, version: int, where: str
) -> Iterator[PacketMark]:
    """The marks of what goes to the port, and of the answers that come from it."""
    for side in _SIDES:
        connection: int | None = 0
        if side == "sport":
            came = _through(into, Way(port, "dport", True, interface))
            connection = came.connection if came is not None else None
        sent = _through(out, Way(port, side, side == "dport", interface, connection=connection))
        if sent is not None and sent.mark:
            yield PacketMark(port, side, version, sent.mark, f"{where}: {sent.rule}")


def _through(bases: Bases, way: Way) -> Way | None:
    """The packet after these base chains; None where that is not known."""
    for chains, base in bases(way):
        done = _walk(base, chains, way, ())
        if done is None:
            return None
        way = done[0]
    return way


def _walk(chain: str, chains: Chains, way: Way, above: tuple[str, ...]) -> tuple[Way, bool] | None:
    """(the packet after the chain, whether it is through with the whole base chain); None where that is not known."""
    if chain in above or len(above) > 16:
        return None
    for step in chains.get(chain, ()):
        if step.matches is False or not (step.changes or step.verdict):
            continue
        if step.matches is None or step.verdict == "unknown":
            return None
        for change in step.changes:
            changed = _changed(way, change)
            if changed is None:
                return None
            way = replace(changed, rule=step.text)
        if step.verdict in ("accept", "drop"):
            return way, True
        if step.verdict == "return":
            return way, False
        if step.verdict in ("jump", "goto"):
            inner = _walk(step.target, chains, way, (*above, chain))
            if inner is None or inner[1] or step.verdict == "goto":
                return inner
            way = inner[0]
    return way, False


def _changed(way: Way, change: Change) -> Way | None:
    marks = {"packet": way.mark, "connection": way.connection}
    own, other = marks[change.of], change.value if isinstance(change.value, int) else marks[change.value]
    if other is None or (own is None and change.kept):
        return None
    result = ((own or 0) & change.kept) ^ (other if isinstance(change.value, int) else other & change.taken)
    return replace(way, mark=result) if change.of == "packet" else replace(way, connection=result)


def by_interface(values: Sequence[str], way: Way) -> bool | None:
    """Whether the packet comes or goes by one of these."""
    if values == ["lo"]:
        return False
    if way.interface is None or any(re.search(r"[*+]$", one) for one in values):
        return None
    return way.interface in values


def all_of(several: Iterable[bool | None]) -> bool | None:
    """Whether all hold; None where that is not known."""
    held = tuple(several)
    return False if False in held else None if None in held else True

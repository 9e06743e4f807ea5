"""The NCCL groups of one process's own ranks: each alone, and where all pass, pairs of them, side by side."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from distdoctor.session.group_search import round_robin

Places = tuple[int, ...]
"""Of the ranks in a group, by their places in this process."""
ROUND_SECONDS = 10.0
LEAST_SECONDS = 2.0
"""With less left no further round is begun."""

Try = Callable[[Sequence[Places], int, float], Awaitable[dict[Places, str]]]
"""Makes the groups of a round (its number, its seconds), and says of each why it failed; empty where it did not."""


async def search(ranks: int, seconds: float, attempt: Try) -> dict[Places, str]:
    """The groups that were tried within ``seconds``, and why each failed."""
    end = time.monotonic() + seconds
    found: dict[Places, str] = {}
    for number, groups in enumerate(rounds(ranks)):
        left = end - time.monotonic()
        if left < LEAST_SECONDS or settled(found):
            break
        found.update(await attempt(groups, number, min(ROUND_SECONDS, left)))
    return found


def rounds(ranks: int) -> Iterator[list[Places]]:
    """Each alone; then pairs, each rank in one of a round. Two are no pair: their group is the one that failed."""
    yield [(place,) for place in range(ranks)]
    if ranks > 2:
        yield from (list[Places](pairs) for pairs in round_robin(range(ranks)))


def settled(found: dict[Places, str]) -> bool:
    """Whether a further round would say nothing new: a rank fails alone, or one fails in two pairs, is in all that
    fail, and passes in none."""
    failed = [group for group, error in found.items() if error]
    if any(len(group) == 1 for group in failed):
        return True
    common = set.intersection(*map(set, failed)) if len(failed) > 1 else set()
    passed = {place for group, error in found.items() if not error and len(group) == 2 for place in group}
    return len(common - passed) == 1


def across(first: Sequence[int], second: Sequence[int], shift: int) -> list[tuple[int, int]]:
    """Each rank of two nodes with one of the other, as many as both have: that of its place, or so many further."""
    count = min(len(first), len(second))
    return [(first[place], second[(place + shift) % count]) for place in range(count)]

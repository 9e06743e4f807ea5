"""Two values of one thing, yesterday's and today's: whether they are the same, and the line where they are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST = 120
NEAR = 0.05
LARGE = 10_000
"""From here on numbers are the same where they differ by less than NEAR: the kernel and systemd reckon limits from the
size of the memory, which differs a little from one kernel, and one start of a virtual machine, to the next."""
UNLIMITED = -1


def changed(what: str, *values: object, unset: str = "") -> Iterator[str]:
    """The line where both values, before and now, are known and differ; with ``unset``, what is not there is known."""
    before, now = values
    if _same(before, now) or (not unset and (_nothing(before) or _nothing(now))):
        return
    yield f"{what}: {_said(before, unset)}, now {_said(now, unset)}"


def changed_set(what: str, before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """The line of what came and what went; what stayed is not told."""
    old, new = same_set(before), same_set(now)
    gone, come = (tuple(one for one in ours if one not in theirs) for ours, theirs in ((old, new), (new, old)))
    parts = [f"{_said(ones, '')} {verb}" for ones, verb in ((gone, "is gone"), (come, "is new")) if ones]
    if parts:
        yield f"{what}: {', '.join(parts)}"


def same_set(values: Iterable[str]) -> tuple[str, ...]:
    """The values in an order that does not depend on theirs, each once."""
    return tuple(sorted(set(values)))


def _same(before: object, now: object) -> bool:
    one, other = _numbers(before), _numbers(now)
    if not one or len(one) != len(other):
        return before == now
    return all(
        a == b or (min(a, b) >= LARGE and abs(a - b) < NEAR * max(a, b)) for a, b in zip(one, other, strict=True)
    )


def _numbers(value: object) -> list[int]:
    """The value as whole numbers (``4096 131072 6291456``); none where it is something else."""
    words = value.split() if isinstance(value, str) else [str(value)] if isinstance(value, int) else []
    return [int(word) for word in words] if all(word.isascii() and word.isdecimal() for word in words) else []


def _nothing(value: object) -> bool:
    return value in (None, "", ())


def _said(value: object, unset: str) -> str:
    if _nothing(value):
        return unset
    if value == UNLIMITED:
        return "unlimited"
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

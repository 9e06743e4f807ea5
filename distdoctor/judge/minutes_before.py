"""What a kernel told minutes before the root of the logs, and is the cause of it. Pure."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.judge.first_failure import Reading
from distdoctor.judge.long_ago import told_at
from distdoctor.model.facts.logs import LogFacts, Match

MINUTES = 600
"""Seconds: an adapter gives a peer up within these (NCCL_IB_TIMEOUT up to 22, NCCL_IB_RETRY_CNT 7: 17 s for each of 8
tries), and two clocks differ by less."""


def with_cause(reading: Reading, logs: LogFacts) -> Reading:
    """``reading``, where a kernel told of the cause of its root shortly before it: with that as the root."""
    root = reading.root
    at = told_at(root) if root is not None else None
    if root is None or at is None:
        return reading
    past = {match.order for match in reading.noise}
    before = [one for one in logs.matches if one.values.get("ahead_of") == root.check and one.order not in past]
    cause = max((one for one in before if _lies_before(one, at)), key=lambda one: told_at(one) or 0.0, default=None)
    if cause is None:
        return reading
    symptoms = tuple(match for match in reading.symptoms if match is not cause)
    return replace(
        reading, root=replace(cause, shows="cause", why=""), others=(root, *reading.others), symptoms=symptoms
    )


def _lies_before(match: Match, at: float) -> bool:
    time = told_at(match)
    return time is not None and 0 <= at - time <= MINUTES

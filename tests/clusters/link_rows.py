"""Clusters with the figures of all their links, as their nodes measure them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from distdoctor.mesh.link import Tried
from distdoctor.mesh.listener import LinkTarget
from distdoctor.mesh.measurement import ALL_PAIRS_UP_TO, row
from distdoctor.model.facts import Link, LinkRate, MeshFacts, NodeFacts
from tests.facts_builder import met, node

Measured = tuple[float, float, int] | None
"""Seconds of a round trip, bytes per second, segments of 100 that were sent again; None: the link does not work."""


def usual(seed: int = 1) -> Callable[[int, int], tuple[float, float, int]]:
    """Links of a healthy network, all a bit different."""
    dice = random.Random(seed)
    return lambda source, to: (1e-4 * (1 + 0.3 * dice.random()), 1.1e9 * (1 - 0.2 * dice.random()), 0)


def with_rows(of: int, link: Callable[[int, int], Measured], name: str = "host{}") -> tuple[NodeFacts, ...]:
    """``of`` nodes; ``link`` gives what one measures of its link to another. Throughput as so many nodes measure it."""
    places = [f"10.80.{n // 250}.{n % 250 + 1}" for n in range(of)]
    nodes = met(*(node(name.format(n), n, of=of, ip=place, master=places[0]) for n, place in enumerate(places)))
    targets = [LinkTarget(n + 1, one.key, places[n], 40000, ("gloo",)) for n, one in enumerate(nodes)]
    found = []
    for source, one in enumerate(nodes):
        tried = [
            _tried(target, link(source, to), of <= ALL_PAIRS_UP_TO or abs(source - to) in (1, of - 1))
            for to, target in enumerate(targets)
            if to != source
        ]
        bad = tuple(Link(t.target.key, t.target.address, 40000, ("gloo",), t.outcome) for t in tried if not t.rate)
        found.append(replace(one, mesh=MeshFacts(of - 1 - len(bad), bad, row=row(source + 1, targets, tried))))
    return tuple(found)


def _tried(target: LinkTarget, told: Measured, throughput: bool) -> Tried:
    if told is None:
        return Tried(target, "no-answer")
    seconds, rate, again = told
    known = LinkRate(target.key, rate if throughput else None, retransmitted=again, segments=100, rtt=seconds)
    return Tried(target, "open", seconds=seconds, rate=known)

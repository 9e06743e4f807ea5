"""Clusters whose links between nodes are cut, slow or lossy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from distdoctor.model.facts import Link, LinkRate, MeshFacts
from tests.checks.row import Facts
from tests.facts_builder import blocking, failing, healthy, with_network

FAST = 9e8

OPEN = ("gloo", "primary")

Pairs = Iterable[tuple[int, int]]


def cut(
    pairs: Pairs, of: int, *, ruled: tuple[int, ...] = (), failed: bool = True, outcome: str = "no-answer"
) -> Facts:
    """These directions blocked; the nodes of ``ruled`` have a filter that drops all but MASTER_PORT."""
    facts = list(healthy(of))
    chosen = set(pairs)
    for number, one in enumerate(facts):
        targets = [to for source, to in sorted(chosen) if source == number]
        bad = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, OPEN, outcome)  # type: ignore[arg-type]
            for to in targets
        )
        one = replace(one, mesh=MeshFacts(good=of - 1 - len(bad), bad=bad))
        if number in ruled:
            one = with_network(one, firewall=blocking("meta l4proto tcp drop"))
        facts[number] = failing(one, "gloo", "ended after 20 s: it did not return", killed=True) if failed else one
    return tuple(facts)


def across(*groups: tuple[int, ...]) -> set[tuple[int, int]]:
    """All pairs between the groups, in both directions."""
    return {(a, b) for one in groups for other in groups if one != other for a in one for b in other}


def into(target: int, of: int) -> set[tuple[int, int]]:
    return {(source, target) for source in range(of) if source != target}


def out_of(source: int, of: int) -> set[tuple[int, int]]:
    return {(b, a) for a, b in into(source, of)}


def measured(of: int, slow: Pairs = (), lossy: Pairs = (), *, busy: float = 0.2, speed: float = 6e5) -> Facts:
    """Links with their rates: ``slow`` at ``speed``, ``lossy`` with a tenth of the small segments sent again."""
    facts = healthy(of)
    slow, lossy = set(slow), set(lossy)
    found = []
    for number, one in enumerate(facts):
        rates = tuple(
            LinkRate(
                facts[to].key,
                speed if (number, to) in slow else FAST,
                delivery_rate=1.2 * (speed if (number, to) in slow else FAST),
                retransmitted=9 if (number, to) in lossy else 0,
                segments=90,
                rtt=0.0001,
            )
            for to in range(of)
            if to != number
        )
        speeds = sorted(rate.bytes_per_second or 0.0 for rate in rates)
        middle = len(speeds) // 2
        median = speeds[middle] if len(speeds) % 2 else (speeds[middle] + speeds[middle - 1]) / 2
        mesh = MeshFacts(good=of - 1, rates=rates, rate_median=median, busy=busy)
        found.append(replace(one, mesh=mesh))
    return tuple(found)

"""A thousand nodes: judged exactly from facts in memory, and as fast as other work on so many names.

The facts are those that nodes with generated links would give: what failed is listed, what worked is counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from distdoctor.judge.engine import Judgement, judge
from distdoctor.model.cluster import build
from distdoctor.model.facts import Link, LinkRate, MeshFacts, NodeFacts, Work
from tests.facts_builder import CHECKS, blocking, failing, met, node, with_network
from tests.helpers.pace import yardsticks

COUNT = 1024
RACK = range(512, 544)
"""The nodes of one rack."""
MOST_YARDSTICKS = 12
"""Processor time for all checks together: two seconds on a quiet machine. One commit took from 4.5 to 9.5 of them.

A rule that compares each link with each takes hundreds.
"""
USE = ("gloo", "primary")
Blocked = Callable[[int, int], bool]


def address(number: int) -> str:
    return f"10.80.{number // 250}.{number % 250 + 1}"


def nodes() -> list[NodeFacts]:
    """Healthy nodes, as they are after the whole ladder."""
    master = address(0)
    return [node(f"gpu{n:04}", n, of=COUNT, ip=address(n), master=master) for n in range(COUNT)]


def measured(facts: list[NodeFacts], blocked: Blocked | None = None, outcome: str = "no-answer") -> list[NodeFacts]:
    """The facts with what each node's links gave; neighbours' throughput as above 32 nodes."""
    keys = tuple(one.key for one in facts)
    targets = [(key, address(number), 40000 + number) for number, key in enumerate(keys)]
    found = []
    for number, one in enumerate(facts):
        bad: tuple[Link, ...] = ()
        if blocked is not None:
            bad = tuple(
                Link(key, at, port, USE, outcome)  # type: ignore[arg-type]
                for to, (key, at, port) in enumerate(targets)
                if to != number and blocked(number, to)
            )
        near = [keys[(number + step) % COUNT] for step in (1, -1)]
        rates = tuple(LinkRate(key, 9e8, 9e8, segments=200, rtt=1e-4) for key in near)
        mesh = MeshFacts(COUNT - 1 - len(bad), bad, 1e-4, 1e-3, rates, 9e8, busy=0.2)
        found.append(replace(one, mesh=mesh))
    return found


def gloo_failed(facts: list[NodeFacts]) -> list[NodeFacts]:
    """The facts after gloo did not come through, as with any of these faults."""
    return [failing(one, "gloo", "ended after 3 s: another rank failed", killed=True) for one in facts]


def judged(facts: list[NodeFacts]) -> Judgement:
    result = judge(build(met(*facts)), CHECKS)
    assert not result.broken, result.broken
    return result


def only_root(facts: list[NodeFacts], check: str) -> tuple[str, ...]:
    """The nodes that the only root blames for sure."""
    result = judged(facts)
    assert [(f.id, f.severity, f.blame) for f in result.roots] == [(check, "fail", "all")]
    return result.roots[0].nodes


def names(numbers: range | tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"gpu{n:04}" for n in numbers)


@pytest.fixture(scope="module")
def healthy() -> list[NodeFacts]:
    return nodes()


def halves(source: int, to: int) -> bool:
    """Half a million failing links."""
    return (source < 512) != (to < 512)


def rack_from_others(source: int, to: int) -> bool:
    return (source in RACK) != (to in RACK)


@pytest.mark.perf
@pytest.mark.parametrize("blocked", [None, halves, rack_from_others], ids=["healthy", "two halves", "a rack cut off"])
def test_it_is_judged_fast(healthy: list[NodeFacts], blocked: Blocked | None) -> None:
    together = met(*(gloo_failed(measured(healthy, blocked)) if blocked else measured(healthy)))
    # Other work on the machine only adds time: one of two measurements is enough.
    assert any(yardsticks(lambda: judge(build(together), CHECKS)) < MOST_YARDSTICKS for _ in range(2))


def test_healthy(healthy: list[NodeFacts]) -> None:
    assert judged(measured(healthy)).findings == ()


def test_one_node_accepts_nothing(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, lambda source, to: to == 700)
    facts[700] = with_network(facts[700], firewall=blocking("meta l4proto tcp drop", policy="drop"))
    assert only_root(gloo_failed(facts), "mesh/peer-ports-blocked") == names((700,))


def test_one_node_reaches_nobody(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, lambda source, to: source == 700)
    assert only_root(gloo_failed(facts), "mesh/one-way") == names((700,))


def test_one_node_is_isolated(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, lambda source, to: 700 in (source, to))
    assert only_root(gloo_failed(facts), "mesh/node-isolated") == names((700,))


def test_a_rack_whose_nodes_accept_nothing(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, lambda source, to: to in RACK)
    assert only_root(gloo_failed(facts), "mesh/peer-ports-blocked") == names(RACK)


def test_a_rack_that_is_cut_off(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, rack_from_others)
    assert only_root(gloo_failed(facts), "mesh/partition") == names(RACK)


def test_two_halves(healthy: list[NodeFacts]) -> None:
    """There is no telling which half is at fault."""
    result = judged(gloo_failed(measured(healthy, halves)))
    assert [(f.id, f.blame, len(f.nodes)) for f in result.roots] == [("mesh/partition", "one-of", COUNT)]


def test_one_link_in_a_hundred(healthy: list[NodeFacts]) -> None:
    """No node and no group is common to them: one finding that lists some of the links and counts the others."""
    dice = random.Random(1)
    chosen = {(a, b) for a in range(COUNT) for b in range(COUNT) if a != b and dice.random() < 0.01}
    result = judged(gloo_failed(measured(healthy, lambda source, to: (source, to) in chosen)))
    assert [f.id for f in result.roots] == ["mesh/peer-ports-blocked"]
    root = result.roots[0]
    assert root.blame == "one-of"
    assert f"{len(chosen)} of {COUNT * (COUNT - 1)} connections" in root.summary
    assert 0 < len(root.links) <= 100 and set(root.links) <= {(f"gpu{a:04}", f"gpu{b:04}") for a, b in chosen}
    assert len(root.evidence) <= 40 and len(root.fixes) <= 40


def test_a_rack_whose_path_swallows_large_packets(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy, rack_from_others, outcome="stalled")
    facts = [failing(one, "collective", "Timed out waiting 15000ms for recv operation") for one in facts]
    assert only_root(facts, "mesh/mtu-blackhole") == names(RACK)


def test_a_bad_node_and_a_bad_pair_are_two_findings(healthy: list[NodeFacts]) -> None:
    pair = {(10, 20), (20, 10)}
    facts = measured(healthy, lambda source, to: to == 700 or (source, to) in pair)
    result = judged(gloo_failed(facts))
    assert [(f.id, f.nodes, f.blame) for f in result.roots] == [
        ("mesh/peer-ports-blocked", names((700,)), "all"),
        ("mesh/peer-ports-blocked#2", names((10, 20)), "one-of"),
    ]


def test_one_slow_node(healthy: list[NodeFacts]) -> None:
    facts = measured(healthy)
    keys = [one.key for one in facts]
    for number in (699, 700, 701):
        mesh = facts[number].mesh
        assert mesh is not None
        rates = tuple(
            replace(r, bytes_per_second=1.1e7, delivery_rate=1.1e7) if number == 700 or r.to == keys[700] else r
            for r in mesh.rates
        )
        facts[number] = replace(facts[number], mesh=replace(mesh, rates=rates))
    result = judged(facts)
    assert [(f.id, f.nodes, f.severity, f.blame) for f in result.roots] == [
        ("mesh/slow-link", names((700,)), "warn", "all")
    ]


def test_one_straggling_node(healthy: list[NodeFacts]) -> None:
    """Eight ranks a node, no two at quite the same speed."""
    facts = []
    for number, one in enumerate(healthy):
        rate = 300.0 if number == 700 else 9000.0 + number
        ranks = (
            replace(one.ranks[0], rank=8 * number + local, local_rank=local, work=Work(rate + local, 0.9, 64, 64))
            for local in range(8)
        )
        facts.append(replace(one, plan=replace(one.plan, nproc_per_node=8, world_size=8 * COUNT), ranks=tuple(ranks)))
    result = judged(measured(facts))
    assert [(f.id, f.nodes, f.severity) for f in result.roots] == [("collective/slow-rank", names((700,)), "warn")]
    assert result.roots[0].ranks == tuple(range(5600, 5608))

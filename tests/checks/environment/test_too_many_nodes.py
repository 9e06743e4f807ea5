"""environment/too-many-nodes: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.odd import on_one_host
from tests.facts_builder import healthy, met, outside, with_meeting, with_plan

CHECK = "environment/too-many-nodes"


def three_of_two(*declared: int) -> Facts:
    facts = list(healthy(3))
    for number, one in enumerate(facts):
        rank = number if number in declared else None
        plan = replace(one.plan, nnodes=2, world_size=4, node_rank=rank)
        facts[number] = replace(one, plan=plan)
    return met(*facts, expected=2)


def twice_on_one_host() -> Facts:
    """4 of 3 nodes: the last one is on the host of the third."""
    facts = [replace(one, plan=replace(one.plan, nnodes=3, world_size=6)) for one in healthy(4)]
    facts[3] = replace(facts[3], identity=replace(facts[2].identity, pid=77))
    return met(*facts, expected=3)


def late_third() -> Facts:
    a, b, c = three_of_two()
    a, b = met(a, b, expected=2)
    return a, b, with_meeting(outside(c, "open"), late=2)


def elastic(least: int) -> Facts:
    """--nnodes MIN:2, and three came."""
    plan = {"rdzv_backend": "c10d", "min_nodes": least}
    return tuple(with_plan(one, **plan) for one in three_of_two())


ROWS = [
    Row("spares of 1:2", lambda: elastic(1), ("host1", "host2"), "info", blame="one-of", together=True),
    Row("3 of 2:2 nodes", lambda: elastic(2), ("host1", "host2"), blame="one-of", together=True),
    Row("3 of 2 nodes", three_of_two, ("host1", "host2"), blame="one-of", together=True),
    Row("3 of 2 nodes, one of them declared", lambda: three_of_two(0, 1), ("host2",), together=True),
    Row("twice on one host", twice_on_one_host, ("host2#2", "host2#3"), blame="one-of", together=True),
    Row("one too late", late_third, ("host2",), together=True),
]

LOOK_ALIKES = [LookAlike("several nodes on one host", lambda: on_one_host(3))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)

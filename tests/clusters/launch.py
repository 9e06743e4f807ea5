"""Nodes that were launched with something wrong, one process per rank."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts
from distdoctor.model.plan import PlanProblem
from tests.checks.row import Facts
from tests.facts_builder import met, rank_node, with_plan


def problem(variable: str, value: str | None, why: str, suggestion: str | None = None) -> tuple[PlanProblem, ...]:
    return (PlanProblem(variable, value, why, suggestion),)


def per_rank(count: int = 2, *changes: tuple[int, dict[str, object]]) -> list[NodeFacts]:
    ones = [rank_node(f"host{r}", r, world=count) for r in range(count)]
    for number, change in changes:
        ones[number] = with_plan(ones[number], **change)
    return ones


def no_rank() -> Facts:
    a, b = per_rank(2, (1, {"rank": None, "problems": problem("RANK", None, "not set")}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=None),)))


def url_master() -> Facts:
    a, b = per_rank(2, (1, {"problems": problem("MASTER_ADDR", "tcp://host0:29500", "is a URL", "host0")}))
    return met(a, b)


def near(facts: NodeFacts, *names: str) -> NodeFacts:
    return replace(facts, near_misses=names)

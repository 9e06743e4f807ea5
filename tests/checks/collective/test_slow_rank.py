"""collective/slow-rank: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Work
from tests.checks.row import Facts, LookAlike, Row, fixes, found, left_alone
from tests.facts_builder import healthy, met, node

CHECK = "collective/slow-rank"


def straggling(*rates: float, cpu: float = 0.04) -> Facts:
    """One rank per node that gets so many pieces of work done a second; below 1000 it had this share of a processor."""
    return tuple(
        replace(one, ranks=tuple(replace(r, work=Work(rate, cpu if rate < 1000 else 1.0, 8, 8)) for r in one.ranks))
        for one, rate in zip(healthy(len(rates)), rates, strict=True)
    )


def one_rank_straggles() -> Facts:
    """The second rank of host1, by whatever else runs there."""
    facts = [node(f"host{n}", n, nproc=2) for n in range(2)]
    works = iter(
        (Work(9000, 1.0, 8, 8), Work(8800, 0.98, 8, 8), Work(9100, 1.0, 8, 8), Work(700, 0.08, 8, 8, load=9.0))
    )
    return met(*(replace(one, ranks=tuple(replace(r, work=next(works)) for r in one.ranks)) for one in facts))


def of_one_machine(*works: Work) -> Facts:
    """A node of one rank for each of these, on one machine: its processors are theirs together."""
    nodes = (replace(one, identity=replace(one.identity, boot_id="one")) for one in healthy(len(works)))
    return tuple(
        replace(one, ranks=tuple(replace(r, work=work) for r in one.ranks))
        for one, work in zip(nodes, works, strict=True)
    )


FAST, WAITED = Work(9000, 1.0, 2, 2, load=40.0), Work(300, 0.03, 2, 2, load=40.0)

ROWS = [
    Row(
        "bound, two nodes of one machine",
        lambda: of_one_machine(FAST, replace(WAITED, processors=1)),
        ("host1",),
        "warn",
        together=True,
    ),
    Row(
        "a quota, two nodes of one machine",
        lambda: of_one_machine(FAST, replace(WAITED, quota=0.1)),
        ("host1",),
        "warn",
        together=True,
    ),
    Row(
        "slow on its processor, on one machine",
        lambda: of_one_machine(FAST, replace(WAITED, cpu=1.0)),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("a node of 2", lambda: straggling(9000, 300), ("host1",), "warn", together=True),
    Row("a slow processor of 3", lambda: straggling(9000, 300, 9100, cpu=1.0), ("host1",), "warn", together=True),
    Row("two nodes of 5", lambda: straggling(9000, 300, 9100, 280, 8700), ("host1", "host3"), "warn", together=True),
    Row("one rank of 4", one_rank_straggles, ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("kept waiting on a machine that the nodes share", lambda: of_one_machine(FAST, WAITED, FAST)),
    LookAlike("busy machine, ranks with unlike shares", lambda: straggling(9000, 2500, 4000, 8000)),
    LookAlike("one rank got all, the others a third", lambda: straggling(9000, 3000, 3000)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (Work(300, 0.9, 8, 8), "frequency"),
        (Work(300, 0.05, 8, 8, quota=0.1), "more than 0.1 processors for its 2 ranks"),
        (Work(300, 0.05, 1, 8), "binding of 2 ranks to 1 of 8 processors"),
        (Work(300, 0.05, 8, 8, load=40.0), "the other load on the processors of rank 2 and 3"),
    ],
)
def test_a_straggler_is_helped_by_what_holds_it_back(work: Work, says: str) -> None:
    first, second = healthy(2)
    fast = replace(first, ranks=tuple(replace(r, work=Work(9000, 1.0, 8, 8)) for r in first.ranks))
    slow = replace(second, ranks=tuple(replace(r, work=work) for r in second.ranks))
    (fix,) = fixes(fast, slow)
    assert fix.nodes == ("host1",) and says in fix.text

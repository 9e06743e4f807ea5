"""environment/duplicate-rank: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.launch import per_rank
from tests.clusters.odd import once_per_rank
from tests.facts_builder import judged, met, rank_node

CHECK = "environment/duplicate-rank"


def two_rank_0() -> Facts:
    a, b = per_rank(2, (1, {"rank": 0}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=0),)))


def two_rank_1() -> Facts:
    a, b, c = per_rank(3, (2, {"rank": 1}))
    return met(a, b, replace(c, ranks=(replace(c.ranks[0], rank=1),)))


def local_ranks(hosts: int = 2) -> Facts:
    """Two processes on each host: RANK is the local rank."""
    facts = once_per_rank(2 * hosts, 2)
    return met(*(replace(one, plan=replace(one.plan, rank=(one.plan.rank or 0) % 2)) for one in facts))


ROWS = [
    Row("RANK is the local rank", local_ranks, ("host1",), together=True),
    Row("RANK is the local rank on three", lambda: local_ranks(3), ("host1", "host2"), together=True),
    Row("two rank 0", two_rank_0, ("host1",), together=True),
    Row("two rank 1", two_rank_1, ("host1", "host2"), blame="one-of", together=True),
]

LOOK_ALIKES = [LookAlike("two ranks on each of two hosts", lambda: once_per_rank(4, 2))]

CURES = [Cure("two rank 0", two_rank_0, {"host1": {"env": {"RANK": "1"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_rank_that_was_started_twice_is_to_be_started_once() -> None:
    a, b = (rank_node(f"host{n}", n) for n in range(2))
    twin = replace(b, identity=replace(b.identity, pid=b.identity.pid + 500))
    (root,) = (f for f in judged(*met(a, b, twin)).roots if f.check == CHECK)
    fix, other = root.fixes
    assert "2 processes of this rank on host1 (pids 2001 and 2501)" in fix.text and not fix.env
    assert "two jobs" in other.text and (other.option, other.env) == (2, {"MASTER_PORT": "29501"})

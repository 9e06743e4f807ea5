"""environment/world-size-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.launch import per_rank
from tests.clusters.odd import uneven
from tests.facts_builder import met, node, with_plan

CHECK = "environment/world-size-mismatch"


def nnodes(*values: int) -> Facts:
    return met(*(with_plan(node(f"host{n}", n, of=v), nnodes=v) for n, v in enumerate(values)))


def world_sizes() -> Facts:
    return met(*per_rank(2, (1, {"world_size": 3})))


def elastic(*most: int, least: tuple[int, ...] = (2, 2), backend: str = "c10d") -> Facts:
    """--nnodes MIN:MAX, and two came."""
    pairs = zip(most, least, strict=True)
    ones = [with_plan(node(f"host{n}", n, of=high), nnodes=high, min_nodes=low) for n, (high, low) in enumerate(pairs)]
    return met(*(with_plan(one, rdzv_backend=backend) for one in ones), expected=2)


ROWS = [
    Row("2:3 and 2:4, of which two came", lambda: elastic(3, 4), BOTH, "warn", "one-of", together=True),
    Row("1:3 and 2:4", lambda: elastic(3, 4, least=(1, 2)), BOTH, blame="one-of", together=True),
    Row("2:3 and 2:4, static", lambda: elastic(3, 4, backend="static"), BOTH, blame="one-of", together=True),
    Row("nnodes 2 and 3", lambda: nnodes(2, 3), BOTH, blame="one-of", together=True),
    Row("nnodes 3 and 2", lambda: nnodes(3, 2), BOTH, blame="one-of", together=True),
    Row("nnodes 3, 2 and 3", lambda: nnodes(3, 2, 3), ("host1",), together=True),
    Row("WORLD_SIZE 2 and 3", world_sizes, BOTH, blame="one-of", together=True),
]

LOOK_ALIKES = [LookAlike("uneven ranks", uneven)]

CURES = [Cure("WORLD_SIZE", world_sizes, {"host1": {"env": {"WORLD_SIZE": "2"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_the_number_of_nodes_that_came_is_the_first_option() -> None:
    assert [(f.nodes, f.flags, f.option) for f in fixes(*nnodes(3, 2))] == [
        (("host0",), {"--nnodes": "2"}, 1),
        (("host1",), {"--nnodes": "3"}, 2),
    ]


def test_no_option_is_less_than_the_nodes_that_came() -> None:
    assert [(f.nodes, f.flags, f.option) for f in fixes(*nnodes(3, 1, 3))] == [(("host1",), {"--nnodes": "3"}, 1)]

"""nccl/init-failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts, SharedMemory, SmallerGroup
from tests.checks.row import BOTH, THREE, LookAlike, Row, found, left_alone, root
from tests.clusters.limits import limited
from tests.facts_builder import failing, healthy, judged, with_gpus, with_plan

CHECK = "nccl/init-failed"


def searched(*groups: tuple[str, bool], error: str = "NCCL error") -> tuple[NodeFacts, ...]:
    """Three nodes whose group failed, and the smaller ones that were tried: numbers of nodes, and whether it passed."""
    nodes = [failing(with_gpus(one, 2), "nccl", error) for one in healthy(3)]
    tried = [
        SmallerGroup(tuple(nodes[int(n)].key for n in names), good, "" if good else error) for names, good in groups
    ]
    return replace(nodes[0], groups=tuple(tried)), *nodes[1:]


def of_one_node(*tried: tuple[tuple[int, ...], bool]) -> tuple[NodeFacts, ...]:
    """Two nodes of four ranks, of which the second fails even alone, and then these groups of its ranks were tried."""
    nodes = [failing(with_gpus(with_plan(one, backend="nccl"), 4), "nccl", "NCCL error") for one in healthy(2, nproc=4)]
    first, second = nodes
    own = [SmallerGroup((second.key,), good, "" if good else "NCCL error", ranks) for ranks, good in tried]
    whole = [SmallerGroup((first.key,), True), SmallerGroup((second.key,), False, "NCCL error")]
    return replace(first, groups=tuple(whole)), replace(second, groups=tuple(own))


def across(*tried: tuple[tuple[int, int], bool], nproc: int = 4) -> tuple[NodeFacts, ...]:
    """Two nodes, each of which passes alone, and groups of two ranks across them: each tells of those it was in."""
    nodes = [
        failing(with_gpus(with_plan(one, backend="nccl"), nproc), "nccl", "NCCL error")
        for one in healthy(2, nproc=nproc)
    ]
    alone = tuple(SmallerGroup((one.key,), True) for one in nodes) if nproc > 1 else ()
    first, second = (
        tuple(SmallerGroup((one.key,), good, "" if good else "NCCL error", pair) for pair, good in tried)
        for one in nodes
    )
    return replace(nodes[0], groups=(*alone, *first)), replace(nodes[1], groups=second)


RAIL = (((0, 4), True), ((1, 5), True), ((2, 6), True), ((3, 7), False), ((2, 7), True), ((3, 4), True))
ADAPTER = (((0, 4), True), ((1, 5), True), ((2, 6), True), ((3, 7), False), ((2, 7), False), ((3, 4), True))
ONE_BY_ONE = tuple(((rank,), True) for rank in (4, 5, 6, 7))
BAD_GPU = (((4, 5), True), ((6, 7), False), ((4, 6), True), ((5, 7), False))
BAD_PAIR = (((4, 5), True), ((6, 7), False), ((4, 6), True), ((5, 7), True))
GOOD_ALONE = (("0", True), ("1", True), ("2", True))
ROWS = [
    Row("one fails alone", lambda: searched(("0", True), ("1", False), ("2", True)), ("host1",), together=True),
    Row(
        "one fails with all others",
        lambda: searched(*GOOD_ALONE, ("01", False), ("02", True), ("12", False)),
        ("host1",),
        together=True,
    ),
    Row(
        "two fail together",
        lambda: searched(*GOOD_ALONE, ("01", True), ("02", False), ("12", True)),
        ("host0", "host2"),
        together=True,
    ),
    Row(
        "every pair passes",
        lambda: searched(*GOOD_ALONE, ("01", True), ("02", True), ("12", True)),
        THREE,
        together=True,
    ),
    Row(
        "every pair fails",
        lambda: searched(*GOOD_ALONE, ("01", False), ("02", False), ("12", False)),
        THREE,
        together=True,
    ),
    Row("a GPU alone", lambda: of_one_node(*ONE_BY_ONE[:-1], ((7,), False)), ("host1",), together=True),
    Row("a GPU with any other", lambda: of_one_node(*ONE_BY_ONE, *BAD_GPU), ("host1",), together=True),
    Row("two GPUs together", lambda: of_one_node(*ONE_BY_ONE, *BAD_PAIR), ("host1",), together=True),
    Row("two GPUs across two nodes", lambda: across(*RAIL), BOTH, together=True),
    Row("one of two nodes' GPUs", lambda: across(*ADAPTER), ("host1",), together=True),
    Row("all pairs across fail", lambda: across(((0, 4), False), ((1, 5), False)), BOTH, together=True),
    Row("no pair across fails", lambda: across(((0, 4), True), ((1, 5), True)), BOTH, together=True),
    Row("no GPU can be named", lambda: of_one_node(*ONE_BY_ONE), ("host1",), together=True),
    Row(
        "nccl, planned",
        lambda: tuple(failing(with_gpus(one, 2), "nccl", "NCCL error") for one in healthy(2)),
        BOTH,
        together=True,
    ),
    Row(
        "nccl, not planned",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "nccl", "NCCL error") for one in healthy(2)
        ),
        BOTH,
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike(
        "gloo failed",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "gloo", "some error") for one in healthy(2)
        ),
        "gloo/init-failed",
    )
]


def test_the_gpu_is_named() -> None:
    for tried, ranks, words in (
        ((*ONE_BY_ONE[:-1], ((7,), False)), (7,), "NCCL fails on device 3 (rank 7) of host1 alone"),
        ((*ONE_BY_ONE, *BAD_GPU), (7,), "NCCL forms no group with device 3 (rank 7) of host1; groups without it work."),
        (
            (*ONE_BY_ONE, *BAD_PAIR),
            (6, 7),
            "device 2 (rank 6) and device 3 (rank 7) of host1 form no NCCL group together",
        ),
        (tuple(((rank,), False) for rank in (4, 5, 6, 7)), (4, 5, 6, 7), "NCCL fails on host1 even with each GPU"),
    ):
        one = root(*of_one_node(*tried))
        assert one.ranks == ranks
        assert words in one.summary
        assert any("failed" in line for line in one.evidence)


def test_what_passed_is_told_beside_what_failed() -> None:
    """A failure by itself accuses nobody."""
    every = tuple(((rank,), False) for rank in (4, 5, 6, 7))
    for nodes in (of_one_node(*every), of_one_node(*every, *(((4, 5), False),) * 8), across(*RAIL)):
        lines = root(*nodes).evidence
        assert len(lines) <= 8
        assert any(": failed" in line for line in lines) and any(": passed" in line for line in lines)


def test_the_gpus_of_two_nodes_are_named() -> None:
    one = root(*across(*RAIL))
    assert (one.ranks, one.fixes[0].nodes) == ((3, 7), BOTH)
    assert "device 3 (rank 3) of host0 and device 3 (rank 7) of host1 form no NCCL group together" in one.summary
    assert one.evidence[0] == "rank 3 of host0 and rank 7 of host1 together: failed: NCCL error"
    other = root(*across(*ADAPTER))
    assert (other.ranks, "with device 3 (rank 7) of host1; groups with their other" in other.summary) == ((7,), True)


def test_of_two_nodes_it_is_said_that_it_cannot_be_told_which() -> None:
    assert any("a third, working node" in line for line in root(*across(nproc=1)).evidence)
    assert any("a third, working node" in line for line in root(*across(((0, 4), False), ((1, 5), False))).evidence)


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_what_another_node_lacks_is_not_why_a_node_fails_alone() -> None:
    facts = list(searched(("0", True), ("1", False), ("2", True)))
    facts[2] = limited(facts[2], shared_memory=SharedMemory(1 << 16, 1 << 16))
    assert {(one.check, one.nodes) for one in judged(*facts).roots} == {
        (CHECK, ("host1",)),
        ("host/shared-memory-small", ("host2",)),
    }

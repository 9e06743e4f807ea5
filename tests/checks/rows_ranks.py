"""Rows about the links between all nodes, who is there, and the ranks' stages."""

# ruff: noqa: E501 - a row is a line, however long

from dataclasses import replace

from distdoctor.model.facts import Link, MeshFacts, Work
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    blocking,
    failing,
    healthy,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_gpus,
    with_meeting,
    with_network,
    with_plan,
)

NODES_MISSING = "store/nodes-missing"
BOTH = ("host0", "host1")


def cut(*pairs: tuple[int, int], of: int = 2, rules: tuple[int, ...] = (), outcome: str = "no-answer") -> Facts:
    """Ephemeral ports blocked from one host to another, for each pair; the hosts in ``rules`` say so."""
    facts = list(healthy(of))
    for number in rules:
        facts[number] = with_network(facts[number], firewall=blocking(policy="drop"))
    for number, one in enumerate(facts):
        bad = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, ("gloo", "primary"), outcome)  # type: ignore[arg-type]
            for source, to in pairs
            if source == number
        )
        facts[number] = replace(one, mesh=MeshFacts(good=of - 1 - len(bad), bad=bad))
    return tuple(facts)


def cut_and_failed() -> Facts:
    return tuple(
        failing(one, "gloo", "ended after 20 s: it did not return", killed=True) for one in cut((1, 0), rules=(0,))
    )


def cut_nccl() -> Facts:
    return tuple(with_gpus(one, 2) for one in cut((0, 1), rules=(1,)))


def missing(number: int, of: int = 2) -> Facts:
    facts = [node(f"host{n}", n, of=of) for n in range(of)]
    del facts[number]
    if number:
        return met(*facts, expected=of)
    return tuple(with_network(outside(one), master_name="host0") for one in facts)


def missing_rank() -> Facts:
    return met(rank_node("host0", 0, world=3, per_node=None), rank_node("host1", 1, world=3, per_node=None), expected=3)


def late() -> Facts:
    """Node 0 came when the other had given up."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=5000.0), replace(outside(b), started_at=1000.0)
    return a, b


def lost() -> Facts:
    a, b = healthy(2)
    return with_meeting(failing(a, "gloo", "Connection closed by peer"), lost=(b.key,)), b


def host_lost() -> Facts:
    _, b = healthy(2)
    return (with_network(with_meeting(b, host_lost=True, ended=True), master_name="host0"),)


def barrier() -> Facts:
    a, b = healthy(2)
    text = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 8000 ms"
    return failing(a, "barrier", text), failing(b, "barrier", "ended", killed=True)


def shared() -> Facts:
    """Two ranks of two that see two devices, started once per rank, both with the mask 1."""
    ones = [rank_node("host0", r, local=r, per_node=2) for r in range(2)]
    second = with_gpus(ones[0], 2).ranks[0].gpu
    assert second is not None
    first, mine = (
        replace(second, cuda_visible_devices="0,1"),
        replace(second, visible=second.visible[1:], cuda_visible_devices="1"),
    )
    mine2 = replace(mine, cuda_visible_devices="1")
    third = rank_node("host0", 2, local=2, per_node=3)
    ones = [rank_node("host0", r, world=3, local=r, per_node=3) for r in range(2)] + [third]
    gpus = (replace(first, visible=(*first.visible, replace(first.visible[0], index=2, uuid="GPU-2"))), mine, mine2)
    return met(*(
        replace(with_plan(one, world_size=3, nproc_per_node=3), ranks=(replace(one.ranks[0], gpu=gpu),))
        for one, gpu in zip(ones, gpus, strict=True)
    ))  # fmt: skip


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


ROWS = [
    Row("lower address blocked", lambda: cut((1, 0), rules=(0,)), "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("higher address blocked", lambda: cut((0, 1), rules=(1,)), "mesh/peer-ports-blocked", ("host1",), "warn", together=True),
    Row("blocked, gloo failed", cut_and_failed, "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("blocked for nccl", cut_nccl, "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("both blocked", lambda: cut((0, 1), (1, 0), rules=(0, 1)), "mesh/peer-ports-blocked", BOTH, together=True),
    Row("blocked, no rules", lambda: cut((1, 0)), "mesh/peer-ports-blocked", BOTH, blame="one-of", together=True),
    Row("reset", lambda: cut((1, 0), rules=(0,), outcome="reset"), "mesh/peer-ports-blocked", ("host0",), together=True),
    Row("one pair of 3", lambda: cut((1, 2), (2, 1), of=3, rules=(1,)), "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("one of 3, no rules", lambda: cut((0, 1), (2, 1), of=3), "mesh/peer-ports-blocked", ("host1",), together=True),
    Row("node 1 missing", lambda: missing(1), NODES_MISSING, ("node1",)),
    Row("node 2 of 3 missing", lambda: missing(2, 3), NODES_MISSING, ("node2",), together=True),
    Row("node 0 missing", lambda: missing(0), NODES_MISSING, ("host0",)),
    Row("rank 2 missing", missing_rank, NODES_MISSING, ("node2",), together=True),
    Row("node 0 late", late, NODES_MISSING, ("host1",)),
    Row("node lost", lost, "store/node-lost", ("host1",), together=True),
    Row("store lost", host_lost, "store/node-lost", ("host0",)),
    Row("barrier", barrier, "barrier/rank-missing", ("host1",), together=True),
    Row("gloo", lambda: (failing(healthy(2)[0], "gloo", "some error"), healthy(2)[1]), "gloo/init-failed", ("host0",),
        together=True),
    Row("store", lambda: (failing(healthy(2)[0], "store", "some error"), healthy(2)[1]), "store/failed", ("host0",),
        together=True),
    Row("wrong result", lambda: (failing(healthy(2)[0], "collective", "wrong results: all_reduce", wrong=["all_reduce"]),
        healthy(2)[1]), "collective/wrong-result", ("host0",), together=True),
    Row("collective", lambda: (failing(healthy(2)[0], "collective", "Read error"), healthy(2)[1]), "collective/failed",
        ("host0",), together=True),
    Row("nccl, planned", lambda: tuple(failing(with_gpus(one, 2), "nccl", "NCCL error") for one in healthy(2)),
        "nccl/init-failed", BOTH, together=True),
    Row("nccl, not planned", lambda: tuple(failing(with_plan(with_gpus(one, 2), backend="gloo"), "nccl", "NCCL error")
        for one in healthy(2)), "nccl/init-failed", BOTH, "warn", together=True),
    Row("fewer GPUs", lambda: met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))),
        "gpu/fewer-than-ranks", ("host1",), together=True),
    Row("no GPU for nccl", lambda: tuple(with_plan(one, backend="nccl") for one in healthy(2)), "gpu/fewer-than-ranks",
        BOTH, together=True),
    Row("shared", shared, "gpu/shared-device", ("host0",), together=True),
    Row("a node of 2", lambda: straggling(9000, 300), "collective/slow-rank", ("host1",), "warn", together=True),
    Row("a slow processor of 3", lambda: straggling(9000, 300, 9100, cpu=1.0), "collective/slow-rank", ("host1",), "warn",
        together=True),
    Row("two nodes of 5", lambda: straggling(9000, 300, 9100, 280, 8700), "collective/slow-rank", ("host1", "host3"),
        "warn", together=True),
    Row("one rank of 4", one_rank_straggles, "collective/slow-rank", ("host1",), "warn", together=True),
]  # fmt: skip

HEALTHY: dict[str, Facts] = {
    "busy machine, ranks with unlike shares": straggling(9000, 2500, 4000, 8000),
    "one rank got all, the others a third": straggling(9000, 3000, 3000),
}

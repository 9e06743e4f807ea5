"""environment/duplicate-node-rank: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Bind, NodeFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.odd import duplicate_hostnames
from tests.facts_builder import PORT, judged, met, node, outside, waited_in_vain, with_network, with_plan

CHECK = "environment/duplicate-node-rank"


def two_node_0() -> Facts:
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = with_network(with_plan(b, node_rank=0), bind=Bind(True, PORT))
    return met(a, b)


def two_node_0_apart() -> Facts:
    """The second node 0 came first, hosted a store that nobody looks for, and left again before the first one came."""
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = replace(outside(with_plan(b, node_rank=0)), started_at=1.0)
    return waited_in_vain(a), with_network(b, bind=Bind(True, PORT))


def two_node_1() -> Facts:
    a, b, c = (node(f"host{n}", n, of=3, declared=True) for n in range(3))
    return met(a, b, with_plan(c, node_rank=1))


def all_node_1() -> Facts:
    """The second node's line on both: nobody is node 0, which MASTER_ADDR says that host0 is."""
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    return outside(with_plan(a, node_rank=1)), outside(b)


def below_srun() -> Facts:
    """srun ... --node-rank $SLURM_NODEID in a batch script, whose shell made 0 of it for all."""
    a, b = two_node_0()
    return tuple(with_plan(one, task=number, launcher="SLURM") for number, one in enumerate((a, b)))


def twin(one: NodeFacts) -> NodeFacts:
    return replace(one, identity=replace(one.identity, pid=one.identity.pid + 500))


ROWS = [
    Row("two node 0", two_node_0, ("host1",), together=True),
    Row("two node 0 that never met", two_node_0_apart, ("host1",), together=True),
    Row("two node 1", two_node_1, ("host1", "host2"), blame="one-of", together=True),
]

LOOK_ALIKES = [LookAlike("one host name twice", duplicate_hostnames)]

CURES = [
    Cure("two node 0", two_node_0, {"host1": {"flags": {"--node-rank": "1"}}}),
    Cure("one line for all", below_srun, {name: {"flags": {"--node-rank": None}} for name in ("host0", "host1")}),
    Cure("all node 1", all_node_1, {"host0": {"flags": {"--node-rank": "0"}}}),
    Cure("two node 1", two_node_1, {"host2": {"flags": {"--node-rank": "2"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_node_that_was_started_twice_is_to_be_started_once() -> None:
    a, b = (node(f"host{n}", n, declared=True) for n in range(2))
    roots = [f for f in judged(*met(a, b, twin(b))).roots if f.check == CHECK]
    (root,) = roots
    assert [(fix.option, fix.flags) for fix in root.fixes] == [(1, {}), (2, {"--master-port": "29501"})]
    assert "two jobs" in root.fixes[1].text
    assert "two launchers" in root.fixes[0].text and "own node rank" not in root.fixes[0].text
    assert "pid 1001" in " ".join(root.evidence) and "pid 1501" in " ".join(root.evidence)


def test_where_a_rank_is_free_two_nodes_on_one_host_may_be_meant() -> None:
    a, b = (node(f"host{n}", n, of=3, declared=True) for n in range(2))
    (root,) = (f for f in judged(*met(a, b, twin(b))).roots if f.check == CHECK)
    assert [(fix.option, fix.flags) for fix in root.fixes] == [(1, {}), (2, {"--node-rank": "2"})]


def test_the_same_rank_on_two_hosts_is_as_it_was() -> None:
    (root,) = judged(*two_node_1()).roots
    assert [fix.flags for fix in root.fixes] == [{"--node-rank": "2"}]


def test_a_launcher_s_number_counts_as_much_as_a_flag() -> None:
    """Two prologs, or two doctors of one task, have the same number."""
    a, b = (node(f"host{n}", n, declared=True) for n in range(2))
    for source, same_number in (("SLURM_PROCID", True), ("assigned at the meeting", False)):
        same = [with_plan(one, node_rank=1, sources={"node_rank": source}) for one in (a, b)]
        assert (CHECK in [one.check for one in judged(*same).findings]) is same_number

"""store/nodes-missing: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Answer, Bind, NodeFacts, RendezvousFacts
from distdoctor.model.findings import Fix
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.master import held
from tests.clusters.odd import waiting
from tests.facts_builder import (
    PORT,
    blocking,
    healthy,
    judged,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_master,
    with_meeting,
    with_network,
    with_plan,
    with_variables,
)

CHECK = "store/nodes-missing"


def missing(number: int, of: int = 2) -> Facts:
    facts = [node(f"host{n}", n, of=of) for n in range(of)]
    del facts[number]
    if number:
        return met(*facts, expected=of)
    return tuple(with_network(outside(one), master_name="host0") for one in facts)


def missing_rank() -> Facts:
    return met(rank_node("host0", 0, world=3, per_node=None), rank_node("host1", 1, world=3, per_node=None), expected=3)


def elastic(least: int, backend: str = "c10d") -> Facts:
    """--nnodes MIN:3, and two came."""
    facts = [with_plan(node(f"host{n}", n, of=3), min_nodes=least, rdzv_backend=backend) for n in range(2)]
    return met(*facts, expected=3)


def tasks(*came: int, roster: tuple[str, ...] = ("host0", "sn1", "sn2"), each: tuple[int, ...] = (4, 1, 1)) -> Facts:
    """Tasks of srun, 4 + 1 + 1 of them; those of these numbers came."""
    places = [number for number, count in enumerate(each) for _ in range(count)]
    facts = []
    for rank in came:
        place = places[rank]
        one = rank_node(f"host{place}", rank, world=len(places), local=rank - places.index(place), per_node=each[0])
        facts.append(with_plan(one, node_rank=place, nproc_per_node=each[place], roster=roster, tasks=each))
    return met(*facts, expected=len(places))


def batch(*came: str) -> Facts:
    """A batch script's host0, where nobody gave the ranks of the nodes, and who of the others came."""
    plan = {"node_rank": None, "roster": ("host0", "sn1", "sn2"), "everywhere": "srun --ntasks-per-node=1"}
    others = (with_plan(node(name, rank, of=3), node_rank=None) for rank, name in enumerate(came, 1))
    return met(with_plan(node("host0", 0, of=3), **plan), *others, expected=3)


def late() -> Facts:
    """Node 0 came when the other had given up."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=5000.0), replace(outside(b), started_at=1000.0)
    return a, b


def slow_import() -> Facts:
    """Node 0's store was there only when the other had given up, because importing torch took so long."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=1000.0), replace(outside(b), started_at=1000.0)
    return with_network(a, bind=Bind(True, PORT, after=70.0)), b


def counted_from_one() -> Facts:
    """Nodes 1 and 2 of three, of which the one that was to be node 0 has MASTER_ADDR; the third refused its number."""
    a, b = (with_plan(one, node_rank=n + 1, nnodes=3) for n, one in enumerate(healthy(2, declared=True)))
    a = with_master(outside(a, "refused"), "host0", own=True, resolved=["10.77.0.10"])
    return with_network(a, bind=None), with_network(outside(b, "refused"), master_name="host0")


def unresolved(one: NodeFacts) -> NodeFacts:
    return outside(with_master(one, "host0", own=None, resolved=[]), None)


def four(*others: NodeFacts) -> Facts:
    """Node 0 of four waited for these, and met none of them."""
    zero = waited_in_vain(with_master(node("host0", 0, of=4), "host0", own=True, resolved=["10.77.0.10"]), 4)
    return (zero, *others)


def absent(*facts: NodeFacts) -> dict[tuple[str, ...], str | None]:
    return {f.nodes: f.because_of for f in judged(*facts).findings if f.check == CHECK}


def missing_text(*facts: NodeFacts) -> str:
    (found,) = [f for f in judged(*facts).findings if f.check == CHECK]
    return " ".join((found.title, found.summary, *(fix.text for fix in found.fixes)))


def uncounted() -> Facts:
    """Node 0 ended its check, for a reason that it knows, after this one had reached its store and before it counted
    it: its torch was still being imported."""
    own = with_network(outside(node("host1", 1), "open"), master_name="host0", answer=Answer("distdoctor"))
    return (with_meeting(own, ours=True, host_lost=True),)


ROWS = [
    Row("one of 2:3, which start without it", lambda: elastic(2), ("node2",), severity="info", together=True),
    Row("one of 3:3", lambda: elastic(3), ("node2",), together=True),
    Row("one of 2:3, static", lambda: elastic(2, "static"), ("node2",), together=True),
    Row("node 1 missing", lambda: missing(1), ("node1",)),
    Row("node 2 of 3 missing", lambda: missing(2, 3), ("node2",), together=True),
    Row("node 0 missing", lambda: missing(0), ("host0",)),
    Row("rank 2 missing", missing_rank, ("node2",), together=True),
    Row("a task of the last node missing", lambda: tasks(0, 1, 2, 3, 4), ("sn2",), together=True),
    Row("both other nodes of srun missing", lambda: tasks(0, 1, 2, 3), ("sn1", "sn2"), together=True),
    Row("one of four tasks missing where others came", lambda: tasks(0, 2, 3, each=(2, 2)), ("host0",), together=True),
    Row("what a batch script starts on no other node", batch, ("sn1", "sn2"), together=True),
    Row("in a batch script, one of those that somebody starts", lambda: batch("sn2"), ("sn1",), together=True),
    Row("in a batch script, one under another name", lambda: batch("other"), ("node2",), together=True),
    Row("nobody is node 0: counted from 1", counted_from_one, ("node0",), together=True),
    Row("node 0's check ended before it was counted", uncounted, ("host0",)),
    Row("node 0 late", late, ("host1",)),
    Row("node 0 slow to host", slow_import, ("host1",)),
]

LOOK_ALIKES = [LookAlike("still waiting", waiting)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_missing_nodes_are_named_by_their_own_facts_where_they_are_here() -> None:
    a, b, c = healthy(3)
    facts = met(a, b, outside(c, "refused"), expected=3)
    root = judged(*facts).roots[0]
    assert (root.id, root.nodes) == ("network/port-refused", ("host2", "host0"))
    missing = next(f for f in judged(*facts).findings if f.id == CHECK)
    assert missing.nodes == ("host2",)


def test_who_has_the_master_s_address_and_is_another_node_is_not_node_0() -> None:
    report = judged(*counted_from_one())
    assert [(root.check, root.nodes) for root in report.roots] == [(CHECK, ("node0",))]
    assert "host0, which was started as node 1. If the node ranks were counted from 1" in report.roots[0].fixes[0].text


def test_nodes_that_met_apart_have_not_all_met_whatever_the_reason() -> None:
    a, b, c = healthy(3)
    stores = [with_meeting(one, hosted=True, ended=True, expected=3, waited=8.0) for one in (a, b)]
    apart = with_meeting(stores[0], arrived=(a.key, c.key)), with_meeting(stores[1], arrived=(b.key,)), c
    assert absent(*apart) == {("host1",): None}


def test_a_node_that_knows_no_master_does_not_say_that_it_waited_for_none() -> None:
    facts = replace(node("host1", 1), meeting=RendezvousFacts(ended=True), network=None)
    text = str(judged(with_plan(facts, master_addr=None)).findings)
    assert "None:" not in text
    assert "no setting here names node 0" in text


def test_who_was_no_longer_waited_for_is_no_cause() -> None:
    """Where processors are busy a node comes late, and what two that came are set to had ended the roll meanwhile."""
    zero, one, _ = (
        with_variables(one, TORCH_DISTRIBUTED_DEBUG="DETAIL" if n else "") for n, one in enumerate(healthy(3))
    )
    facts = met(zero, one, expected=3)
    facts = (with_meeting(facts[0], cut_short=True, waited=4.0, wait_limit=60.0), *facts[1:])
    assert absent(*facts) == {("node2",): "environment/setting-mismatch"}
    assert "node2 had not joined within 4 s; node 0 stopped waiting" in missing_text(*facts)
    assert "Fix the other findings first" in missing_text(*facts)


def test_a_node_that_was_not_started_does_not_follow_from_another_ones_name() -> None:
    """host1 cannot resolve the master; nothing is known of nodes 2 and 3."""
    found = absent(*four(unresolved(node("host1", 1, of=4))))
    assert found == {("host1",): "network/master-unresolvable", ("node2", "node3"): None}


def test_a_node_that_was_not_started_does_not_follow_from_another_ones_port() -> None:
    """host1 looks on another port than node 0 hosts; nothing is known of nodes 2 and 3, nor is host1 there."""
    facts = four(outside(with_plan(node("host1", 1, of=4), master_port=PORT + 1), "refused"))
    assert absent(*facts) == {("host1",): "environment/master-mismatch", ("node2", "node3"): None}
    assert "(joined: host0)." in next(f for f in judged(*facts).findings if "node2" in f.nodes).summary


def test_each_reason_has_a_finding_of_its_own() -> None:
    """host1 cannot resolve the master, host2's own filter drops what it sends, node 3 was not started."""
    shut = outside(node("host2", 2, of=4), "no-answer", control="refused")
    shut = with_network(shut, firewall=blocking(f"tcp dport {PORT} drop", hook="output"))
    found = absent(*four(unresolved(node("host1", 1, of=4)), shut))
    assert found == {("host1",): "network/master-unresolvable", ("host2",): "network/port-filtered", ("node3",): None}


def test_nodes_that_saw_the_same_are_together() -> None:
    found = absent(*four(*(unresolved(node(f"host{n}", n, of=4)) for n in (1, 2, 3))))
    assert found == {("host1", "host2", "host3"): "network/master-unresolvable"}


def test_what_keeps_node_0_from_hosting_keeps_all_away() -> None:
    """The same reason on all, whatever each of them saw."""
    a, b = (with_plan(one, nnodes=3, world_size=6) for one in held(None))
    result = judged(a, b, outside(node("host2", 2, of=3, declared=True), "refused"))
    assert [f.check for f in result.roots] == ["network/port-in-use"]


def test_a_node_that_was_started_is_not_told_to_be_started() -> None:
    (one,) = (
        f
        for f in judged(*four(unresolved(node("host1", 1, of=4)))).findings
        if f.nodes == ("host1",) and f.check == CHECK
    )
    assert "distdoctor check" not in one.fixes[0].text and "Fix the other findings of host1" in one.fixes[0].text


def test_who_has_facts_here_came_and_is_told_why_it_did_not_meet() -> None:
    """host1's own file is here: that it never came is not so, and there is no command to start it with."""
    zero = waited_in_vain(node("host0", 0))
    text = missing_text(zero, outside(node("host1", 1)))
    assert "host1 did not reach host0: waited 60 s for 10.77.0.10:29500; finally 10.77.0.10:29500 refused" in text
    assert "never came" not in text and "Run `" not in text
    assert "node1 did not join within 60 s" in missing_text(zero)


def test_nodes_that_may_come_are_not_told_to_be_needed() -> None:
    """--nnodes 2:3: torchrun starts with two once its last call is over."""
    text = missing_text(*elastic(2))
    assert "node2 did not join within 1 s (joined: host0 and host1); the job (--nnodes 2:3) starts without them" in text
    assert "--nnodes 2:3 --rdzv-backend c10d --rdzv-endpoint 10.77.0.10:29500` on node2." in text
    assert "never came" not in text and "To start the job with node2: run `" in text
    assert judged(*elastic(2)).verdict == "pass" and judged(*elastic(3)).verdict == "incomplete"


def test_a_rank_that_did_not_come_is_not_its_node() -> None:
    """torchrun started it with the other one of host1, which came."""
    came = [rank_node(f"host{rank // 2}", rank, world=4, local=rank % 2, per_node=2) for rank in range(3)]
    text = missing_text(*met(*came, expected=4))
    assert "rank 3 (host1) did not join" in text and "(joined: ranks 0, 1 and 2)" in text
    assert "host1 did not reach" not in text and "Start rank 3" not in text and "a longer --wait" in text


def test_an_allocation_that_has_fewer_nodes_than_the_job_is_told() -> None:
    """Lightning#10098: #SBATCH says nothing of --nodes, so that it is 1."""

    def fixes_of(listed: str, *names: str, of: int) -> tuple[Fix, ...]:
        nodes = [with_variables(node(name, n, of=of), SLURM_JOB_NODELIST=listed) for n, name in enumerate(names)]
        (found,) = [f for f in judged(*met(*nodes, expected=of)).findings if f.check == CHECK]
        return found.fixes

    first, second = fixes_of("host0", "host0", of=2)
    assert "SLURM gave this job 1 node (SLURM_JOB_NODELIST=host0)" in first.text and "--nodes=2" in first.text
    assert (first.option, second.option) == (1, 2) and "--nnodes 1" in first.text
    first, _ = fixes_of("host[0-1]", "host0", "host1", of=3)
    assert "2 nodes (SLURM_JOB_NODELIST=host[0-1])" in first.text and "--nodes=3" in first.text
    assert len(fixes_of("host[0-1]", "host0", of=2)) == 1  # one of them is missing
    assert len(fixes_of("host[0-1]", "host0", of=3)) == 1
    assert not any("SLURM" in fix.text for fix in fixes_of("", "host0", of=2))


@pytest.mark.parametrize("both", [True, False])
def test_no_command_is_printed_for_ranks_whose_launcher_is_not_known(both: bool) -> None:
    """RANK and WORLD_SIZE are set by hand, and nothing says how many nodes that makes."""
    a, b = (rank_node(f"host{rank}", rank, per_node=None) for rank in range(2))
    for zero in (waited_in_vain(a), outside(with_network(a, master_is_own=False))):
        text = missing_text(zero, outside(b)) if both else missing_text(waited_in_vain(a))
        assert "None" not in text and "distdoctor check" not in text


def test_what_a_batch_script_starts_on_one_node_belongs_below_srun() -> None:
    assert "Put `srun --ntasks-per-node=1` before this command, and before torchrun" in missing_text(*batch())


def test_the_line_for_who_is_missing_has_the_ranks_that_node_0_was_given() -> None:
    """Its own default would be another number than this job has."""
    (facts,) = missing(1)
    given = with_plan(facts, sources={"nproc_per_node": "--nproc-per-node"})
    fix, *_ = judged(given).roots[0].fixes
    assert "`distdoctor check --nnodes 2 --nproc-per-node 2 --master-addr " in fix.text
    fix, *_ = judged(with_plan(facts, sources={"nproc_per_node": "default"})).roots[0].fixes
    assert "`distdoctor check --nnodes 2 --master-addr " in fix.text


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_by_hand_at_localhost_may_belong_on_other_hosts(rank: int) -> None:
    """Nothing that one of them sees tells whether the other is to be started on its host."""
    one = rank_node(f"host{rank}", rank, per_node=None)
    one = with_network(with_master(one, "localhost", own=True, resolved=["127.0.0.1"]), primary=None)
    (root,) = judged(waited_in_vain(one) if rank == 0 else outside(one)).roots
    assert root.check == CHECK
    assert [fix.option for fix in root.fixes] == [1, 2]
    assert "means each host itself" in root.fixes[1].text
    (root,) = judged(*missing(1)).roots
    assert not any("means each host itself" in fix.text for fix in root.fixes)


@pytest.mark.parametrize(
    ("sources", "announce", "texts"),
    [
        ({"master_addr": "--master-addr"}, False, 2),
        ({"master_addr": "first interface, eth0"}, True, 2),
        ({"master_addr": "MASTER_ADDR"}, False, 1),
        ({"master_addr": "--master-addr", "node_rank": "--node-rank"}, False, 1),
    ],
)
def test_a_node_that_is_node_0_by_its_address_alone_may_be_another_one(
    sources: dict[str, str], announce: bool, texts: int
) -> None:
    """The same line typed on both hosts makes each of them node 0 of a meeting of its own."""
    (zero,) = missing(1)
    rank = 0 if announce or "node_rank" in sources else None
    zero = replace(zero, plan=replace(zero.plan, node_rank=rank, announce=announce, sources=sources))
    (root,) = judged(zero).roots
    assert "no other check reached " in root.summary
    assert len(root.fixes) == texts
    assert texts == 1 or "--master-addr ADDRESS`" in root.fixes[1].text

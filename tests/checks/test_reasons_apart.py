"""Each node that is absent or gone has its own reason, and follows from no other node's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Limits, NodeFacts
from distdoctor.model.findings import Finding
from tests.checks.row import Facts
from tests.checks.rows_gloo import not_found
from tests.checks.rows_launch import agent_store, two_node_1
from tests.checks.rows_master import held
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
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

HIJACK = "environment/agent-store-hijack"
MISSING, LOST = "store/nodes-missing", "store/node-lost"
UNKNOWN, FILTERED = "network/master-unresolvable", "network/port-filtered"


def unresolved(one: NodeFacts) -> NodeFacts:
    return outside(with_master(one, "host0", own=None, resolved=[]), None)


def four(*others: NodeFacts) -> Facts:
    """Node 0 of four waited for these, and met none of them."""
    zero = waited_in_vain(with_master(node("host0", 0, of=4), "host0", own=True, resolved=["10.77.0.10"]), 4)
    return (zero, *others)


def absent(*facts: NodeFacts) -> dict[tuple[str, ...], str | None]:
    return {f.nodes: f.because_of for f in judged(*facts).findings if f.check == MISSING}


def test_a_node_that_was_not_started_does_not_follow_from_another_ones_name() -> None:
    """host1 cannot resolve the master; nothing is known of nodes 2 and 3."""
    found = absent(*four(unresolved(node("host1", 1, of=4))))
    assert found == {("host1",): UNKNOWN, ("node2", "node3"): None}


def test_each_reason_has_a_finding_of_its_own() -> None:
    """host1 cannot resolve the master, host2's own filter drops what it sends, node 3 was not started."""
    shut = outside(node("host2", 2, of=4), "no-answer", control="refused")
    shut = with_network(shut, firewall=blocking(f"tcp dport {PORT} drop", hook="output"))
    found = absent(*four(unresolved(node("host1", 1, of=4)), shut))
    assert found == {("host1",): UNKNOWN, ("host2",): FILTERED, ("node3",): None}


def test_nodes_that_saw_the_same_are_together() -> None:
    found = absent(*four(*(unresolved(node(f"host{n}", n, of=4)) for n in (1, 2, 3))))
    assert found == {("host1", "host2", "host3"): UNKNOWN}


def test_what_keeps_node_0_from_hosting_keeps_all_away() -> None:
    """The same reason on all, whatever each of them saw."""
    a, b = (with_plan(one, nnodes=3, world_size=6) for one in held(None))
    result = judged(a, b, outside(node("host2", 2, of=3, declared=True), "refused"))
    assert [f.check for f in result.roots] == ["network/port-in-use"]


def test_a_way_that_is_shut_for_one_is_no_reason_of_another_that_looks_elsewhere() -> None:
    """host1 has an old address of the master, which leads nowhere; host2 has the right one, and no answer."""
    stale = outside(with_master(node("host1", 1, of=3), "host0", resolved=["10.77.0.200"]), "unreachable", errno=113)
    shut = outside(with_master(node("host2", 2, of=3), "host0", resolved=["10.77.0.10"]), "unreachable", errno=113)
    zero = waited_in_vain(with_master(node("host0", 0, of=3), "host0", own=True, resolved=["10.77.0.10"]), 3)
    ways = [f for f in judged(zero, stale, shut).findings if f.check == "network/master-unreachable"]
    causes = {node_: f.because_of for f in ways for node_ in f.nodes if node_ in ("host1", "host2")}
    assert causes == {"host1": "network/master-resolves-differently", "host2": None}


def test_a_node_that_was_started_is_not_told_to_be_started() -> None:
    (one,) = (
        f
        for f in judged(*four(unresolved(node("host1", 1, of=4)))).findings
        if f.nodes == ("host1",) and f.check == MISSING
    )
    assert "distdoctor check" not in one.fixes[0].text and "did not get to host0" in one.fixes[0].text


# -- gone -------------------------------------------------------------------------------------------------------------


def lost(*facts: NodeFacts) -> list[Finding]:
    return [f for f in judged(*facts).findings if f.check == LOST]


def test_nodes_that_lost_sight_of_each_other_are_one_of_both() -> None:
    a, b, c = healthy(3)
    a = with_meeting(a, lost=(b.key,))
    b = with_meeting(b, host_lost=True, ended=True)
    (found,) = lost(a, b, c)
    assert (found.nodes, found.blame) == (("host0", "host1"), "one-of")
    assert "lost sight of each other" in found.summary


def test_one_that_went_away_and_one_that_lost_sight_are_two_findings() -> None:
    a, b, c = healthy(3)
    a = with_meeting(a, lost=(b.key, c.key))
    b = with_meeting(b, host_lost=True, ended=True)
    assert sorted((f.nodes, f.blame) for f in lost(a, b, c)) == [(("host0", "host1"), "one-of"), (("host2",), "all")]


def test_a_node_0_that_came_to_its_end_is_not_lost_but_what_it_found_is_why() -> None:
    """host1 missed node 0's report; node 0's own facts say what it was about."""
    a, b = not_found()
    a = with_meeting(a, ended=True)
    b = with_meeting(b, host_lost=True, ended=True)
    result = judged(a, b)
    assert [f.check for f in result.roots] == ["gloo/interface-not-found"]
    assert [f.because_of for f in lost(a, b)] == ["gloo/interface-not-found"]


def test_without_node_0s_own_word_it_is_the_root() -> None:
    _, b = healthy(2)
    b = with_network(with_meeting(b, host_lost=True, ended=True), master_name="host0")
    assert [(f.nodes, f.because_of) for f in lost(b)] == [(("host0",), None)]


def test_a_node_that_ran_into_a_limit_went_away_for_that() -> None:
    a, b = healthy(2)
    b = with_host(b, limits=Limits(open_files=8, open_files_hard=8))
    result = judged(with_meeting(a, lost=(b.key,)), b)
    assert [f.check for f in result.roots] == ["host/open-files-limit"]


# -- started twice ----------------------------------------------------------------------------------------------------


def twin(one: NodeFacts) -> NodeFacts:
    return replace(one, identity=replace(one.identity, pid=one.identity.pid + 500))


def test_a_node_that_was_started_twice_is_to_be_started_once() -> None:
    a, b = (node(f"host{n}", n, declared=True) for n in range(2))
    roots = [f for f in judged(*met(a, b, twin(b))).roots if f.check == "environment/duplicate-node-rank"]
    (root,) = roots
    assert [(fix.option, fix.flags) for fix in root.fixes] == [(1, {}), (2, {"--master-port": "29501"})]
    assert "two jobs" in root.fixes[1].text
    assert "started twice" in root.fixes[0].text and "own node rank" not in root.fixes[0].text
    assert "pid 1001" in " ".join(root.evidence) and "pid 1501" in " ".join(root.evidence)


def test_where_a_rank_is_free_two_nodes_on_one_host_may_be_meant() -> None:
    a, b = (node(f"host{n}", n, of=3, declared=True) for n in range(2))
    (root,) = (f for f in judged(*met(a, b, twin(b))).roots if f.check == "environment/duplicate-node-rank")
    assert [(fix.option, fix.flags) for fix in root.fixes] == [(1, {}), (2, {"--node-rank": "2"})]


def test_the_same_rank_on_two_hosts_is_as_it_was() -> None:
    (root,) = judged(*two_node_1()).roots
    assert [fix.flags for fix in root.fixes] == [{"--node-rank": "2"}]


def missing_text(*facts: NodeFacts) -> str:
    (found,) = [f for f in judged(*facts).findings if f.check == MISSING]
    return " ".join((found.title, found.summary, *(fix.text for fix in found.fixes)))


def test_who_has_facts_here_came_and_is_told_why_it_did_not_meet() -> None:
    """host1's own file is here: that it never came is not so, and there is no command to start it with."""
    zero = waited_in_vain(node("host0", 0))
    text = missing_text(zero, outside(node("host1", 1)))
    assert "host1 did not meet host0: waited 60 s for 10.77.0.10:29500; at last 10.77.0.10:29500 refused" in text
    assert "never came" not in text and "Run `" not in text
    assert "node1 never came within 60 s" in missing_text(zero)


@pytest.mark.parametrize("both", [True, False])
def test_no_command_is_printed_for_ranks_whose_launcher_is_not_known(both: bool) -> None:
    """RANK and WORLD_SIZE are set by hand, and nothing says how many nodes that makes."""
    a, b = (rank_node(f"host{rank}", rank, per_node=None) for rank in range(2))
    for zero in (waited_in_vain(a), outside(with_network(a, master_is_own=False))):
        text = missing_text(zero, outside(b)) if both else missing_text(waited_in_vain(a))
        assert "None" not in text and "distdoctor check" not in text


def test_ranks_of_an_agent_that_is_late_or_gone_are_no_left_over_setting() -> None:
    for facts in (agent_store(0, 1, TORCHELASTIC_RUN_ID="job"), agent_store(1)):
        assert HIJACK not in {f.check for f in judged(*facts).findings}
    # Something hosts the store after all, or rank 0's host is not the master's.
    zero, one = agent_store(0, 1)
    for facts in ((with_network(zero, master_is_own=False), one), (with_meeting(zero, joined=True), one), (one,)):
        assert HIJACK not in {f.check for f in judged(*facts).findings}


def test_ranks_of_one_host_wait_for_an_agent_that_is_not_there() -> None:
    zero, one = (rank_node("host0", rank, local=rank, per_node=2) for rank in range(2))
    (root,) = judged(*(with_plan(outside(rank), agent_store=True) for rank in (zero, one))).roots
    assert (root.check, root.nodes, root.ranks) == (HIJACK, ("host0",), (0, 1))


def test_the_agents_store_is_unset_where_it_is_set() -> None:
    found = judged(*agent_store(0, 1)).findings
    assert not any("by an address that" in fix.text for one in found for fix in one.fixes)
    (root,) = judged(*agent_store(0, 1)).roots
    assert [(fix.nodes, fix.env) for fix in root.fixes] == [
        (("host0", "host1"), {"TORCHELASTIC_USE_AGENT_STORE": None})
    ]

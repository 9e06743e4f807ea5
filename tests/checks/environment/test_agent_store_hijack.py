"""environment/agent-store-hijack: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.clusters.launch import per_rank
from tests.clusters.odd import hosted_by_torchrun
from tests.facts_builder import judged, outside, rank_node, with_meeting, with_network, with_plan

CHECK = "environment/agent-store-hijack"


def agent_store(*nodes: int, **variables: str) -> Facts:
    """TORCHELASTIC_USE_AGENT_STORE=True on these of two nodes, whose ranks no agent has started."""
    ones = [with_plan(one, agent_store=number in nodes) for number, one in enumerate(per_rank())]
    return tuple(outside(replace(one, variables={**one.variables, **variables})) for one in ones)


ROWS = [
    Row("an agent's store without an agent", lambda: agent_store(0, 1), BOTH),
    Row("an agent's store without an agent, rank 0", lambda: agent_store(0), BOTH[:1]),
]

LOOK_ALIKES = [LookAlike("torchrun's agent hosts the store", hosted_by_torchrun)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_ranks_of_an_agent_that_is_late_or_gone_are_no_left_over_setting() -> None:
    for facts in (agent_store(0, 1, TORCHELASTIC_RUN_ID="job"), agent_store(1)):
        assert CHECK not in {f.check for f in judged(*facts).findings}
    # Something hosts the store after all, or rank 0's host is not the master's.
    zero, one = agent_store(0, 1)
    for facts in ((with_network(zero, master_is_own=False), one), (with_meeting(zero, joined=True), one), (one,)):
        assert CHECK not in {f.check for f in judged(*facts).findings}


def test_ranks_of_one_host_wait_for_an_agent_that_is_not_there() -> None:
    zero, one = (rank_node("host0", rank, local=rank, per_node=2) for rank in range(2))
    (root,) = judged(*(with_plan(outside(rank), agent_store=True) for rank in (zero, one))).roots
    assert (root.check, root.nodes, root.ranks) == (CHECK, ("host0",), (0, 1))


def test_the_agents_store_is_unset_where_it_is_set() -> None:
    found = judged(*agent_store(0, 1)).findings
    assert not any("by an address that" in fix.text for one in found for fix in one.fixes)
    (root,) = judged(*agent_store(0, 1)).roots
    assert [(fix.nodes, fix.env) for fix in root.fixes] == [
        (("host0", "host1"), {"TORCHELASTIC_USE_AGENT_STORE": None})
    ]

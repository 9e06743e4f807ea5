"""environment/missing-variable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.plan import PlanProblem
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.launch import near, no_rank, per_rank, problem, url_master
from tests.facts_builder import alone, judged, outside, rank_node, waited_in_vain, with_meeting, with_network, with_plan

CHECK = "environment/missing-variable"


def no_master_addr() -> Facts:
    a, b = per_rank()
    b = with_plan(b, master_addr=None, problems=problem("MASTER_ADDR", None, "not set"))
    b = with_meeting(with_network(alone(b), master=None, contact=None), joined=False, ours=None, ended=True)
    return waited_in_vain(a), b


def misspelled_master() -> Facts:
    """MASTER_ADR in place of MASTER_ADDR: one root, that it is missing."""
    a, b = (rank_node(f"host{r}", r) for r in range(2))
    b = with_plan(b, master_addr=None, problems=(PlanProblem("MASTER_ADDR", None, "not set"),))
    b = with_meeting(with_network(alone(b), master=None, contact=None), joined=False, ours=None, ended=True)
    return waited_in_vain(a), near(b, "MASTER_ADR")


def no_rank_and_not_met(world: int = 2) -> Facts:
    """It gave up before the other was there to be met, which then waited for a rank."""
    a, b = no_rank()
    per_node = None if world > 2 else 1
    a, b = (with_plan(one, world_size=world, nproc_per_node=per_node) for one in (a, b))
    return waited_in_vain(a, world), outside(b)


ROWS = [
    Row("MASTER_ADDR not set", no_master_addr, ("host1",)),
    Row("RANK not set", no_rank, ("host1",), together=True),
    Row("RANK not set, and each came when the other had gone", no_rank_and_not_met, ("host1",), together=True),
    Row("MASTER_ADR for MASTER_ADDR", misspelled_master, ("host1",)),
]

LOOK_ALIKES = [LookAlike("set to a URL", url_master, "environment/invalid-variable")]

CURES = [
    Cure("MASTER_ADDR", no_master_addr, {"host1": {"env": {"MASTER_ADDR": "10.77.0.10"}}}),
    Cure("RANK missing", no_rank, {"host1": {"env": {"RANK": "1"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_rank_alone_without_rank_is_told_what_it_means() -> None:
    one = with_plan(rank_node("host1", 1), rank=None, problems=problem("RANK", None, "not set"))
    found = fixes(one)
    assert found[0].env == {} and "from 0 to WORLD_SIZE - 1" in found[0].text
    assert "torchrun" in found[-1].text and found[-1].option == 2


def test_a_stray_variable_can_be_unset_where_nobody_else_came() -> None:
    one = with_plan(rank_node("host1", 1), rank=None, problems=problem("RANK", None, "not set"))
    one = replace(one, variables={"MASTER_ADDR": "host0", "NCCL_DEBUG": "INFO"})
    assert [f.env for f in fixes(one) if f.option == 3] == [{"MASTER_ADDR": None}]
    assert [f for f in fixes(rank_node("host0", 0), one) if f.option == 3] == []


def test_whose_rank_is_not_known_is_one_of_those_that_did_not_come() -> None:
    found = judged(*no_rank_and_not_met(3)).findings
    reasons = {f.nodes: f.because_of for f in found if f.check == "store/nodes-missing"}
    assert reasons == {("host1",): CHECK, ("node2",): None}

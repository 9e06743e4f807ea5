"""environment/agents-apart: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import NodeFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone, root
from tests.facts_builder import met, node, rank_node, with_plan

CHECK = "environment/agents-apart"
BELOW_SRUN = "SLURM started it as one of several"
ONE_JOB = {"--nnodes": "2", "--node-rank": "1", "--master-addr": "host0"}


def apart(beside: str = BELOW_SRUN, launcher: str = "torchrun", **flags: str) -> NodeFacts:
    """A node whose torchrun, or what does the same, was started beside another one."""
    one = rank_node("host1", 0)
    return with_plan(one, nnodes=1, launcher=launcher, beside=beside, together=flags)


def by_hand() -> NodeFacts:
    """A rank that a launcher started beside others, with RANK=0 and WORLD_SIZE=1 from its shell."""
    return with_plan(rank_node("host1", 0, world=1), nnodes=1, launcher="env", beside=BELOW_SRUN)


def numbered_on_each_node() -> NodeFacts:
    """A rank of two that a task of srun has started, as the other node's task did."""
    return with_plan(rank_node("host1", 0, world=2), nnodes=1, launcher="env", beside=BELOW_SRUN)


def whole() -> Facts:
    return met(*(with_plan(node(f"host{n}", n, of=2), launcher="torchrun") for n in range(2)))


ROWS = [
    Row("below srun", lambda: (apart(**ONE_JOB),), ("host1",), "warn"),
    Row("in a batch script", lambda: (apart("this is the batch script of SLURM job 7"),), ("host1",), "warn"),
    Row("deepspeed below srun", lambda: (apart(launcher="DeepSpeed"),), ("host1",), "warn"),
    Row("horovodrun below srun", lambda: (apart(launcher="Horovod"),), ("host1",), "warn"),
    Row("ranks with the variables of one", lambda: (by_hand(),), ("host1",), "warn"),
    Row("ranks that are numbered on each node", lambda: (numbered_on_each_node(),), ("host1",), "warn"),
]

LOOK_ALIKES = [
    LookAlike("one job of all", whole),
    LookAlike("one torchrun", lambda: (apart(""),)),
    LookAlike("one deepspeed", lambda: (apart("", "DeepSpeed"),)),
]

CURES = [Cure("below srun", lambda: (apart(**ONE_JOB),), {"host1": {"flags": ONE_JOB}}, only=True)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_what_is_said_of_deepspeed_is_its_own() -> None:
    finding = root(apart(launcher="DeepSpeed"))
    assert finding.summary == "deepspeed on host1 starts a job of one node, and the job has more nodes."
    assert "WORLD_SIZE" not in str(finding.evidence) and "--hostfile" in finding.fixes[0].text


def test_what_is_said_of_ranks_has_their_own_world_size() -> None:
    assert "and WORLD_SIZE is 2" in root(numbered_on_each_node()).evidence[0]

"""environment/launcher-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.launch import per_rank
from tests.facts_builder import met, node, rank_node, with_plan

CHECK = "environment/launcher-mismatch"
UNSET = {"RANK": None, "WORLD_SIZE": None, "MASTER_ADDR": None, "MASTER_PORT": None}


def by_hand(number: int, world: int) -> NodeFacts:
    """A node that is one rank, with variables that a person has set."""
    variables = {"RANK": str(number), "WORLD_SIZE": str(world), "MASTER_ADDR": "10.77.0.10", "MASTER_PORT": "29500"}
    return replace(rank_node(f"host{number}", number, world=world), variables=variables)


def of_torchrun(number: int, of: int) -> NodeFacts:
    return node(f"host{number}", number, of=of, declared=True, nproc=1)


def one_and_one() -> Facts:
    return met(of_torchrun(0, 2), by_hand(1, 2))


def rank_among_agents() -> Facts:
    return met(of_torchrun(0, 3), by_hand(1, 3), of_torchrun(2, 3))


def rank0_among_agents() -> Facts:
    return met(by_hand(0, 3), of_torchrun(1, 3), of_torchrun(2, 3))


def agent_among_ranks() -> Facts:
    return met(by_hand(0, 3), of_torchrun(1, 3), by_hand(2, 3))


def c10d() -> Facts:
    agents = [with_plan(of_torchrun(n, 3), rdzv_backend="c10d", run_id="job7", node_rank=None) for n in (0, 2)]
    return met(agents[0], by_hand(1, 3), agents[1])


ROWS = [
    Row("torchrun and a rank by hand", one_and_one, BOTH, blame="one-of", together=True),
    Row("a rank by hand among agents", rank_among_agents, ("host1",), together=True),
    Row("rank 0 by hand among agents", rank0_among_agents, ("host0",), together=True),
    Row("an agent among ranks", agent_among_ranks, ("host1",), together=True),
    Row("a rank by hand among agents with c10d", c10d, ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("ranks by hand everywhere", lambda: met(*per_rank(3))),
    LookAlike("torchrun everywhere", lambda: met(*(of_torchrun(n, 3) for n in range(3)))),
]

STATIC = {"--rdzv-backend": None, "--rdzv-endpoint": None, "--rdzv-id": None, "--master-addr": "10.77.0.10"}
STATIC |= {"--master-port": "29500", "--nnodes": "3", "--nproc-per-node": "1"}
C10D = {"--rdzv-backend": "c10d", "--rdzv-endpoint": "10.77.0.10:29500", "--rdzv-id": "job7", "--node-rank": None}
C10D |= {"--master-addr": None, "--master-port": None, "--nnodes": "3", "--nproc-per-node": "1"}
CURES = [
    Cure(
        "a rank by hand among agents",
        rank_among_agents,
        {"host1": {"env": UNSET, "flags": {**STATIC, "--node-rank": "1"}}},
    ),
    Cure("with c10d", c10d, {"host1": {"env": UNSET, "flags": C10D}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

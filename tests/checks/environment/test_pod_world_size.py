"""environment/pod-world-size: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NodeFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import met, node, rank_node, with_gpus, with_plan, with_variables

CHECK = "environment/pod-world-size"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}


def pod(number: int = 1, **changed: str) -> NodeFacts:
    """One of two pods, in which the check was started as a job of one node."""
    one = with_plan(node(f"host{number}", of=1), sources={"nnodes": "default", "master_addr": "default"})
    return with_variables(one, **POD, **{"RANK": str(number), "WORLD_SIZE": "2", **changed})


def whole(number: int = 1) -> Facts:
    """The same, started as a node of the whole job."""
    nodes = met(*(node(f"host{n}", n, of=2) for n in range(2)))
    return tuple(with_variables(one, **POD, RANK=str(n), WORLD_SIZE="2") for n, one in enumerate(nodes))


def one_rank_each(gpus: int, **more: str) -> Facts:
    nodes = met(*(rank_node(f"host{n}", n, per_node=None) for n in range(2)))
    return tuple(
        with_gpus(with_variables(one, **POD, RANK=str(n), WORLD_SIZE="2", **more), gpus) for n, one in enumerate(nodes)
    )


ROWS = [
    Row("a pod starts a job of its own", lambda: (pod(),), ("host1",), "warn"),
    Row("the first pod, too", lambda: (pod(0),), ("host0",), "warn"),
    Row("one rank, 8 GPUs", lambda: one_rank_each(8), ("host0", "host1"), "info", together=True),
]

LOOK_ALIKES = [
    LookAlike("a node of the whole job", whole),
    LookAlike("one pod", lambda: (pod(0, WORLD_SIZE="1"),)),
    LookAlike("a shell outside Kubernetes", lambda: (replace(pod(), variables={"RANK": "1", "WORLD_SIZE": "2"}),)),
    LookAlike("ranks of a launcher in it", lambda: (pod(LOCAL_RANK="0"),)),
    LookAlike("one rank, one GPU", lambda: one_rank_each(1)),
]

CURES = [
    Cure(
        "a node of the whole job",
        lambda: (pod(),),
        {
            "host1": {
                "flags": {
                    "--nnodes": "2",
                    "--node-rank": "1",
                    "--master-addr": "job-master-0",
                    "--master-port": "23456",
                }
            }
        },
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

"""environment/backend-not-built: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each, root
from tests.clusters.gpu_nodes import one
from tests.clusters.gpus import gpus
from tests.facts_builder import healthy, with_gpus, with_identity, with_plan

CHECK = "environment/backend-not-built"


def cpu_builds(*which: int) -> Facts:
    """--backend nccl, and a CPU build on some nodes: no GPU is seen there, and no NCCL can be made."""
    facts = [with_plan(one, backend="nccl") for one in gpus()]
    for number in which:
        one = with_gpus(facts[number], 0)
        facts[number] = with_identity(one, torch="2.13.0+cpu", backends=("gloo",), cuda=None, nccl=None)
    return tuple(facts)


def beside(version: str) -> Facts:
    """A CPU build on host1, and this one on host0."""
    zero, one = cpu_builds(1)
    return with_identity(zero, torch=version), with_identity(one, executable="/opt/py/bin/python3")


def mpi() -> Facts:
    return tuple(with_plan(with_identity(one, backends=("gloo",)), backend="mpi") for one in healthy(2))


ROWS = [
    Row("no NCCL on one", lambda: cpu_builds(1), ("host1",), together=True),
    Row("no NCCL anywhere", lambda: cpu_builds(0, 1), BOTH, together=True),
    Row("no MPI", mpi, BOTH, together=True),
]

LOOK_ALIKES = [LookAlike("built everywhere", lambda: gpus(3))]

CURES = [
    Cure("gloo for all", lambda: cpu_builds(0, 1), on_each(BOTH, {"flags": {"--backend": "gloo"}})),
    Cure(
        "the other's build", lambda: cpu_builds(1), {"host1": {"commands": ("python3 -m pip install torch==2.13.0",)}}
    ),
    Cure(
        "the other's build, into the Python of the node",
        lambda: beside("2.13.0+cu126"),
        {
            "host1": {
                "commands": (
                    "/opt/py/bin/python3 -m pip install torch==2.13.0+cu126 --index-url "
                    "https://download.pytorch.org/whl/cu126",
                )
            }
        },
    ),
    Cure("the other's build is an image's", lambda: beside("2.7.0a0+ecf3bae40a.nv25.2"), {"host1": {}}),
]


def test_where_the_gpus_are_there_their_build_is_the_first_remedy() -> None:
    torch = {"visible": (), "reason": "this torch is a CPU build"}
    (facts,) = one(torch=torch, cuda=None)
    told = root(with_identity(facts, torch="2.13.0+cpu", backends=("gloo",), cuda=None, nccl=None))
    assert [("CUDA" in fix.text, fix.flags) for fix in told.fixes] == [(True, {}), (False, {"--backend": "gloo"})]


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)

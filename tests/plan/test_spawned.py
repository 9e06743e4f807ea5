"""Ranks that a task of srun, or a rank of mpirun, has started itself, and that inherit its variables."""

from __future__ import annotations

import pytest

from tests.plan.recorded import env_of, plan_in, values
from tests.plan.test_mpi import OPEN_MPI
from tests.plan.test_slurm import STEP

TASKS = STEP | env_of(
    "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_STEP_NODELIST=sn[0-1] SLURM_NODEID=1 SLURM_PROCID=1 "
    "SLURM_LOCALID=0"
)
MPI = OPEN_MPI | env_of(
    "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0"
)
FIELDS = ("launcher", "rank", "local_rank", "nproc_per_node", "world_size", "task", "beside")
WHOLE = env_of("WORLD_SIZE=4 MASTER_ADDR=sn0 MASTER_PORT=29500")


@pytest.mark.parametrize("around", [TASKS, MPI])
@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ("RANK=3 LOCAL_RANK=1", ("env", 3, 1, None, 4, 3, "")),
        ("RANK=2 LOCAL_RANK=0", ("env", 2, 0, None, 4, 2, "")),
        ("RANK=3 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", ("env", 3, 1, 2, 4, 3, "")),
    ],
)
def test_their_own_numbers_count(around: dict[str, str], env: str, wanted: tuple[object, ...]) -> None:
    """LOCAL_RANK 1 was told to be out of range, as srun started one task on the node: that job trains."""
    plan = plan_in(around | WHOLE | env_of(env))
    assert values(plan, *FIELDS) == wanted and not plan.problems


@pytest.mark.parametrize(("around", "launcher"), [(TASKS, "SLURM"), (MPI, "Open MPI")])
def test_numbered_from_0_on_each_node_they_are_several_jobs(around: dict[str, str], launcher: str) -> None:
    ranks = env_of("RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500")
    plan = plan_in(around | ranks)
    assert values(plan, *FIELDS) == ("env", 0, 0, 2, 2, 0, f"{launcher} started it as one of several")
    assert plan.nnodes == 1


@pytest.mark.parametrize(
    "env",
    [
        "RANK=1 WORLD_SIZE=2",
        "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0",
        "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1",  # the fault of LOCAL_RANK=$SLURM_PROCID
        "RANK=1 WORLD_SIZE=3",
    ],
)
def test_what_a_script_makes_of_the_tasks_own_numbers_is_no_such_rank(env: str) -> None:
    plan = plan_in(TASKS | env_of(env + " MASTER_ADDR=sn0 MASTER_PORT=29500"))
    assert (plan.launcher, plan.nnodes, plan.nproc_per_node) == ("SLURM", 2, 1)
    assert [one.variable for one in plan.problems] == (["LOCAL_RANK"] if "LOCAL_RANK=1" in env else [])

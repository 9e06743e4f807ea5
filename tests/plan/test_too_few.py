"""A job line that wants more nodes than can join, as each launcher's variables tell it; and look-alikes that run."""

from __future__ import annotations

import pytest

from distdoctor.plan.per_node import contradiction

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_JOB_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
}  # fmt: skip
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}
OMPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
THREE = ("--nnodes=3", "--nproc-per-node=1")


@pytest.mark.parametrize(
    ("flags", "before", "env", "words"),
    [
        (THREE, (), STEP, "SLURM started 2 nodes; --nnodes is 3: 1 node will never join. Fix: "),
        (("--nnodes=4",), (), ALLOCATION, "SLURM allocated 2 nodes; --nnodes is 4: 2 nodes will never join"),
        (THREE, ("srun", "-N2"), {}, "SLURM started 2 nodes; --nnodes is 3"),
        (THREE, ("srun", "--nodes", "1-2"), {}, "SLURM started 2 nodes; --nnodes is 3"),
        (THREE, (), OMPI, "mpirun started 2 processes; --nnodes is 3: 1 node will never join"),
        (("--nnodes=3:4",), (), STEP, "--nnodes is 3:4: 1 node will never join"),
        (("--nnodes=2",), (), {**STEP, "SLURM_STEP_NUM_TASKS": "8"}, "started 8 tasks on 2 nodes, each with"),
    ],
)  # fmt: skip
def test_the_nodes_that_will_never_join_are_counted(
    flags: tuple[str, ...], before: tuple[str, ...], env: dict[str, str], words: str
) -> None:
    assert words in contradiction(flags, before, env)


@pytest.mark.parametrize(
    ("flags", "before", "env"),
    [
        (("--nnodes=2",), (), STEP),
        (("--nnodes=1",), (), {**STEP, "SLURM_STEP_NUM_TASKS": "8"}),  # each trains alone
        (("--nnodes=1:4",), (), STEP),  # an elastic job starts with what is there
        (THREE, (), {**STEP, "SLURM_JOB_NUM_NODES": "3"}),  # another step of the job may start the third
        (THREE, (), {**STEP, "SLURM_STEP_NUM_TASKS": "3"}),  # three agents on two nodes
        (THREE, (), {**ALLOCATION, "SLURM_JOB_NUM_NODES": "1"}),  # jobs of one node each that meet
        (THREE, (), {**ALLOCATION, "SLURM_HET_SIZE": "2"}),
        (THREE, ("srun", "-N3"), {}),
        (THREE, ("srun", "-n", "3"), {}),
        (THREE, (), {}),
        ((), (), STEP),
    ],
)
def test_what_may_run_is_let_be(flags: tuple[str, ...], before: tuple[str, ...], env: dict[str, str]) -> None:
    assert contradiction(flags, before, env) == ""

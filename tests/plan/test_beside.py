"""torchruns that take themselves for the whole job, each, below what started several of them."""

from __future__ import annotations

import pytest

from tests.plan.recorded import env_of, plan_in, without
from tests.plan.test_frameworks import SKYPILOT
from tests.plan.test_mpi import OPEN_MPI
from tests.plan.test_slurm import STEP

OF_ONE_NODE = env_of(
    "RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 MASTER_ADDR=n1 "
    "MASTER_PORT=4000 ROLE_RANK=0 ROLE_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0"
)
ONE_EACH = env_of("SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_STEP_NODELIST=sn[0-1] SLURM_NODEID=1")
BATCH = env_of("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=sn[0-1]")


@pytest.mark.parametrize(
    ("env", "said", "together"),
    [
        (
            STEP | ONE_EACH,
            "SLURM started it as one of several",
            {"--nnodes": "2", "--node-rank": "1", "--master-addr": "sn0"},
        ),
        (BATCH, "this is the batch script of SLURM job 7, which has 2 nodes", {}),
        (env_of("LSB_JOBID=5") | {"LSB_MCPU_HOSTS": "n0 2 n1 2"}, "this LSF job has 2 nodes", {}),
        (env_of("PET_NNODES=2 PET_NODE_RANK=1"), "PET_NNODES is 2", {}),
        (env_of("NNODES=2 NODE_RANK=1"), "NNODES started it as one of several", {"--nnodes": "2"}),
    ],
)
def test_it_is_told(env: dict[str, str], said: str, together: dict[str, str]) -> None:
    plan = plan_in(env | OF_ONE_NODE)
    assert (plan.launcher, plan.nnodes, plan.beside) == ("torchrun", 1, said)
    assert plan.together == together


@pytest.mark.parametrize("env", [OPEN_MPI, SKYPILOT])
def test_of_other_launchers_too(env: dict[str, str]) -> None:
    assert "started it as one of several" in plan_in(env | OF_ONE_NODE).beside


@pytest.mark.parametrize(
    "env",
    [
        {},
        STEP | ONE_EACH | env_of("TORCHELASTIC_RUN_ID=6f1c-uuid"),  # --standalone
        STEP | ONE_EACH | env_of("GROUP_WORLD_SIZE=2 WORLD_SIZE=4"),
        STEP
        | env_of("SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NODELIST=sn0 SLURM_JOB_NUM_NODES=2"),
        env_of("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=sn0"),
        env_of("PET_NNODES=1:2"),
        STEP | ONE_EACH | env_of("TORCHFT_LIGHTHOUSE=http://sn0:29510 REPLICA_GROUP_ID=1"),  # each is a job of its own
    ],
)
def test_one_torchrun_and_one_job_of_all_are_left_alone(env: dict[str, str]) -> None:
    assert plan_in(OF_ONE_NODE | env).beside == ""


DEEPSPEED = env_of(
    "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_SIZE=2 CROSS_RANK=0 CROSS_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
)
HOROVOD = env_of("HOROVOD_RANK=0 HOROVOD_SIZE=2 HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=2 HOROVOD_CROSS_SIZE=1")


@pytest.mark.parametrize(("launcher", "env"), [("DeepSpeed", DEEPSPEED), ("Horovod", HOROVOD)])
def test_what_else_starts_the_ranks_of_a_node_is_nearer_than_srun(launcher: str, env: dict[str, str]) -> None:
    """As `srun deepspeed train.py`, which knows of one node alone."""
    plan = plan_in(STEP | ONE_EACH | env)
    assert (plan.launcher, plan.nnodes, plan.nproc_per_node, plan.world_size) == (launcher, 1, 2, 2)
    assert plan.beside == "SLURM started it as one of several" and plan.together == {}
    assert "which has 2 nodes" in plan_in(BATCH | env).beside
    assert plan_in(env).beside == ""


def test_deepspeed_on_each_node_of_a_step_is_one_job() -> None:
    """`srun deepspeed --hostfile FILE --no_ssh --node_rank ...`: its ranks are those of all nodes."""
    plan = plan_in(STEP | ONE_EACH | DEEPSPEED | env_of("RANK=2 WORLD_SIZE=4 CROSS_RANK=1 CROSS_SIZE=2 MASTER_ADDR=n1"))
    assert (plan.launcher, plan.nnodes, plan.node_rank, plan.rank, plan.task) == ("DeepSpeed", 2, 1, 2, 2)
    assert plan.beside == ""


def test_deepspeed_in_a_pod_whose_operator_tells_torchrun_of_the_nodes() -> None:
    """A PyTorchJob's pod has PET_*, which DeepSpeed does not read."""
    pod = env_of("KUBERNETES_SERVICE_HOST=10.96.0.1 PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=2")
    assert plan_in(pod | DEEPSPEED).beside == "PET_NNODES is 2"
    plan = plan_in(pod | DEEPSPEED | env_of("RANK=2 WORLD_SIZE=4 CROSS_RANK=1 CROSS_SIZE=2 MASTER_ADDR=n1"))
    assert (plan.launcher, plan.started, plan.nnodes, plan.rank, plan.beside) == ("DeepSpeed", "rank", 2, 2, "")


ALONE = env_of("RANK=0 WORLD_SIZE=1 MASTER_ADDR=n1 MASTER_PORT=4000")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (STEP | ONE_EACH, "SLURM_STEP_NUM_TASKS is 2"),
        (OPEN_MPI, "OMPI_COMM_WORLD_SIZE is 4"),
        (OPEN_MPI | env_of("OMPI_COMM_WORLD_SIZE=1"), ""),
        (BATCH, "this is the batch script of SLURM job 7, which has 2 nodes"),
        (env_of("NNODES=2 NODE_RANK=1"), "NNODES started it as one of several"),
        (env_of("NODE_RANK=1"), "NODE_RANK is 1"),
        ({}, ""),
        (env_of("NODE_RANK=0"), ""),
        (env_of("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=sn0"), ""),
        (STEP | ONE_EACH | env_of("WORLD_SIZE=2"), ""),
    ],
)
def test_a_rank_that_takes_itself_for_the_whole_job(env: dict[str, str], said: str) -> None:
    plan = plan_in(ALONE | env)
    assert (plan.started, plan.beside) == ("rank", said)


def test_ranks_by_hand_are_no_agent() -> None:
    assert plan_in(BATCH | without(OF_ONE_NODE, "TORCHELASTIC_RUN_ID")).beside == ""

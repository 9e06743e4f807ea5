"""SLURM: the plan of each task of a step, and what is refused. Environments of SLURM 22.05, but for what a plan never
reads."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from tests.plan.recorded import env_of, plan_in, values

STEP = env_of(
    "SLURMD_NODENAME=sn1 SLURM_GTIDS=1 SLURM_JOB_ID=1 SLURM_JOB_NODELIST=sn[0-1] SLURM_JOB_NUM_NODES=2 SLURM_LOCALID=0 "
    "SLURM_NNODES=2 SLURM_NODEID=1 SLURM_NODELIST=sn[0-1] SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEPID=0 SLURM_STEP_ID=0 "
    "SLURM_STEP_NODELIST=sn[0-1] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) "
    "SLURM_TASKS_PER_NODE=1(x2)"
)
UNEVEN = STEP | env_of(
    "SLURMD_NODENAME=sn0 SLURM_GTIDS=0,1,2,3 SLURM_JOB_NODELIST=sn[0-2] SLURM_JOB_NUM_NODES=3 SLURM_LOCALID=1 "
    "SLURM_NODEID=0 SLURM_PROCID=1 SLURM_STEP_NODELIST=sn[0-2] SLURM_STEP_NUM_NODES=3 SLURM_STEP_NUM_TASKS=6 "
    "SLURM_NTASKS=6 SLURM_STEP_TASKS_PER_NODE=4,1(x2)"
)
ARBITRARY = STEP | env_of(
    "SLURMD_NODENAME=sn0 SLURM_DISTRIBUTION=arbitrary SLURM_GTIDS=1 SLURM_HOSTFILE=/none SLURM_LOCALID=0 "
    "SLURM_NODEID=0 SLURM_PROCID=1 SLURM_STEP_NODELIST=sn[0,2] SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=1,2"
)
SUB_STEP = STEP | env_of(
    "SLURMD_NODENAME=sn1 SLURM_JOB_NODELIST=sn[0-2] SLURM_JOB_NUM_NODES=3 SLURM_STEP_NODELIST=sn[1-2] SLURM_NODEID=0 "
    "SLURM_PROCID=0 SLURM_GTIDS=0"
)
HETEROGENEOUS = STEP | env_of(
    "SLURMD_NODENAME=sn1 SLURM_DISTRIBUTION=block SLURM_GTIDS=1,2 SLURM_HET_SIZE=2 SLURM_LOCALID=1 SLURM_NODEID=1 "
    "SLURM_JOB_NODELIST_PACK_GROUP_0=sn0 SLURM_JOB_NODELIST_PACK_GROUP_1=sn1 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3 "
    "SLURM_STEP_TASKS_PER_NODE=1,2"
)
BATCH = env_of(
    "SLURMD_NODENAME=sn0 SLURM_GTIDS=0 SLURM_JOB_ID=12 SLURM_JOB_NODELIST=sn[0-1] SLURM_JOB_NUM_NODES=2 "
    "SLURM_LOCALID=0 SLURM_NNODES=2 SLURM_NODEID=0 SLURM_NODELIST=sn[0-1] SLURM_NTASKS=4 SLURM_PROCID=0 "
    "SLURM_TASKS_PER_NODE=3,1"
)
PARTS = BATCH | env_of(
    "SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST_HET_GROUP_0=sn0 SLURM_JOB_NODELIST_HET_GROUP_1=sn[1-2]"
)
SALLOC = env_of(
    "SLURM_JOB_ID=13 SLURM_JOB_NODELIST=sn[0-1] SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2 SLURM_NODELIST=sn[0-1] "
    "SLURM_TASKS_PER_NODE=1(x2)"
)
INTERACTIVE = BATCH | env_of(
    "SLURM_STEP_ID=4294967290 SLURM_STEP_NODELIST=sn0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 "
    "SLURM_STEP_TASKS_PER_NODE=1 SLURM_PTY_PORT=43681"
)
PROLOG = env_of("SLURMD_NODENAME=sn1 SLURM_JOB_ID=7 SLURM_NODELIST=sn[0-1] SLURM_JOB_NUM_NODES=2")
SHAPE = ("rank", "world_size", "local_rank", "nproc_per_node", "nnodes", "node_rank", "master_addr")


@pytest.mark.parametrize(
    ("env", "shape"),
    [
        (STEP, (1, 2, 0, 1, 2, 1, "sn0")),
        (UNEVEN, (1, 6, 1, 4, 3, 0, "sn0")),
        (UNEVEN | env_of("SLURM_NODEID=2 SLURM_PROCID=5 SLURM_LOCALID=0"), (5, 6, 0, 1, 3, 2, "sn0")),
        (SUB_STEP, (0, 2, 0, 1, 2, 0, "sn1")),
        (HETEROGENEOUS, (2, 3, 1, 2, 2, 1, "sn0")),
        (STEP | env_of("PMI_RANK=1 PMI_SIZE=2"), (1, 2, 0, 1, 2, 1, "sn0")),
        (STEP | {"MASTER_ADDR": "10.0.0.1"}, (1, 2, 0, 1, 2, 1, "10.0.0.1")),
        (STEP | env_of("MASTER_ADDR=sn0 MASTER_PORT=29511 RANK=1 WORLD_SIZE=2"), (1, 2, 0, 1, 2, 1, "sn0")),
        # task 0 is not on the first node of the list
        (ARBITRARY, (1, 3, 0, 1, 2, 0, "sn2")),
        (ARBITRARY | env_of("SLURMD_NODENAME=sn2 SLURM_NODEID=1 SLURM_GTIDS=0,2"), (1, 3, 0, 2, 2, 1, "sn2")),
    ],
)
def test_a_task_of_a_step(env: dict[str, str], shape: tuple[Any, ...]) -> None:
    plan = plan_in(env)
    assert (plan.started, plan.launcher, values(plan, *SHAPE), plan.problems) == ("rank", "SLURM", shape, ())


def test_the_port_is_the_job_s_and_a_given_one_stays() -> None:
    plan = plan_in(STEP | {"SLURM_JOB_ID": "1234567"})
    assert (plan.master_port, plan.sources["master_port"]) == (19567, "SLURM_JOB_ID")
    assert plan_in(STEP | {"MASTER_PORT": "29511"}).master_port == 29511


def test_a_step_beside_the_job_has_a_port_of_its_own() -> None:
    beside = STEP | {"SLURM_JOB_ID": "9998", "SLURM_STEP_ID": "3"}
    assert plan_in(beside).master_port == plan_in(beside | {"SLURM_PROCID": "0"}).master_port == 15001
    assert plan_in(beside | {"MASTER_PORT": "29511"}).master_port == 29511


def test_the_first_task_knows_all_nodes() -> None:
    plan = plan_in(UNEVEN | {"SLURM_PROCID": "0"})
    assert (plan.roster, plan.tasks, plan.task) == (("sn0", "sn1", "sn2"), (4, 1, 1), 0)
    assert plan_in(UNEVEN).roster == ()


def test_the_host_file_of_arbitrary_places(tmp_path: Any) -> None:
    path = tmp_path / "hosts"
    path.write_text("sn2\nsn0\nsn1\n")
    env = ARBITRARY | env_of("SLURM_STEP_NODELIST=sn[0-2] SLURM_STEP_TASKS_PER_NODE=1(x3)")
    assert plan_in(env | {"SLURM_HOSTFILE": str(path)}).master_addr == "sn2"
    with pytest.raises(UsageError, match="MASTER_ADDR=HOST srun -m arbitrary"):
        plan_in(env)


@pytest.mark.parametrize("flags", [{}, {"nproc_per_node": "8"}, {"nnodes": "2", "nproc_per_node": "8"}])
def test_one_task_of_a_node_starts_its_ranks_where_a_flag_says_so(flags: dict[str, Any]) -> None:
    plan = plan_in(STEP, **flags)
    assert (plan.started, plan.nnodes, plan.node_rank) == ("node" if flags else "rank", 2, 1)
    assert (plan.master_addr, plan.master_port, plan.task) == ("sn0", 15001, 1)


def test_c10d_gives_the_node_ranks_itself() -> None:
    plan = plan_in(STEP, nproc_per_node="8", rdzv_backend="c10d", rdzv_endpoint="sn0:29500")
    assert values(plan, "nnodes", "node_rank", "master_addr", "master_port") == (2, None, "sn0", 29500)


def test_a_prolog_is_one_process_of_a_node() -> None:
    plan = plan_in(PROLOG, gpus=8)
    assert values(plan, "started", "nnodes", "nproc_per_node", "node_rank") == ("node", 2, 8, 1)
    assert values(plan, "master_addr", "master_port") == ("sn0", 15007)


@pytest.mark.parametrize(
    ("env", "flags", "told"),
    [
        (UNEVEN, {"nproc_per_node": "4"}, "--ntasks-per-node=1"),
        (UNEVEN | env_of("SLURM_NODEID=2 SLURM_PROCID=5"), {"nproc_per_node": "4"}, "--ntasks-per-node=1"),
        (STEP, {"nnodes": "3"}, "SLURM started this on 2 nodes"),
        (BATCH, {}, "the batch script of SLURM job 12, .* `srun distdoctor check`"),
        (BATCH | {"MASTER_ADDR": "sn0", "MASTER_PORT": "29500", "WORLD_SIZE": "4"}, {}, "`srun distdoctor check`"),
        (PARTS, {}, "SLURM job 12, which has 3 nodes, .* `srun --het-group=0-1 distdoctor check`"),
        (SALLOC, {}, "a shell of SLURM job 13, .* `srun distdoctor check`"),
        (INTERACTIVE, {}, "`srun --overlap distdoctor check`"),
        (STEP | {"SLURM_PTY_PORT": "43681"}, {}, "srun --pty .* `srun --overlap distdoctor check`"),
    ],
)
def test_what_is_refused_says_what_to_type(env: dict[str, str], flags: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan_in(env, **flags)


@pytest.mark.parametrize(
    ("env", "flags"),
    [
        (STEP | env_of("SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=sn0"), {}),
        (STEP, {"standalone": True}),
        (BATCH, {"standalone": True}),
        (BATCH | {"SLURM_JOB_NUM_NODES": "1"}, {}),
        (INTERACTIVE | {"SLURM_JOB_NUM_NODES": "1"}, {}),
        ({"SLURMD_NODENAME": "sn0"}, {}),
        ({"SLURM_CONF": "/etc/slurm.conf"}, {}),
    ],
)
def test_what_is_one_machine(env: dict[str, str], flags: dict[str, Any]) -> None:
    plan = plan_in(env, **flags)
    assert values(plan, "started", "nnodes", "nproc_per_node", "launcher") == ("node", 1, 2, "")


@pytest.mark.parametrize(
    ("env", "flags", "roster"),
    [
        (BATCH, {"nnodes": "2"}, ("sn0", "sn1")),
        (BATCH, {"nnodes": "2", "node_rank": 0, "master_addr": "sn0"}, ("sn0", "sn1")),
        (BATCH, {"nnodes": "2", "node_rank": 1, "master_addr": "sn0"}, ()),
        (SALLOC, {"nnodes": "2"}, ()),
    ],
)
def test_a_node_s_flags_in_a_batch_script_start_nothing_on_the_others(
    env: dict[str, str], flags: dict[str, Any], roster: tuple[str, ...]
) -> None:
    plan = plan_in(env, **flags)
    assert values(plan, "started", "nnodes", "launcher", "task") == ("node", 2, "", None)
    assert (plan.everywhere, plan.roster) == ("srun --ntasks-per-node=1", roster)
    alone = plan_in(env, nproc_per_node="2", nnodes="1")
    assert (alone.everywhere, alone.roster) == ("", ())


def test_torchrun_on_the_nodes_is_nearer() -> None:
    agent = env_of(
        "TORCHELASTIC_RUN_ID=a RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 MASTER_ADDR=sn0 "
        "MASTER_PORT=29500"
    )
    plan = plan_in(STEP | agent)
    assert values(plan, "launcher", "rank", "world_size", "nnodes") == ("torchrun", 3, 4, 2)


def test_several_torchruns_on_a_node_are_refused_where_the_job_has_fewer() -> None:
    agent = env_of("TORCHELASTIC_RUN_ID=a RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=1") | env_of(
        "GROUP_WORLD_SIZE=2 MASTER_ADDR=sn0 MASTER_PORT=29500"
    )
    twice = STEP | env_of("SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2)") | agent
    with pytest.raises(UsageError, match=r"torchrun 4 times, .* the job has 2 nodes: give srun --ntasks-per-node=1"):
        plan_in(twice)
    # one for each GPU; and an elastic job to which not all have come
    assert plan_in(twice | env_of("GROUP_WORLD_SIZE=4 WORLD_SIZE=4")).world_size == 4
    assert plan_in(twice | env_of("SLURM_STEP_TASKS_PER_NODE=1(x4)")).world_size == 2

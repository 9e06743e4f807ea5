"""DeepSpeed, accelerate, Ray Train and the operators of Kubernetes, with the variables that their sources set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.plan.launchers import platforms
from distdoctor.session.options import Options
from distdoctor.session.rendezvous.progress import with_master
from tests.plan.recorded import env_of, plan_in, values, without
from tests.plan.test_slurm import STEP

RANKED = env_of("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=n0 MASTER_PORT=29500")
DEEPSPEED = RANKED | env_of("LOCAL_SIZE=2 CROSS_RANK=1 CROSS_SIZE=2")
RAY = RANKED | env_of("LOCAL_WORLD_SIZE=2 NODE_RANK=1 RAY_JOB_ID=01000000")
POD = env_of("RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0.job MASTER_PORT=23456")
VOLCANO = POD | env_of("VC_TASK_INDEX=0 VK_TASK_INDEX=0")
PYTORCH_JOB = POD | env_of(
    "KUBERNETES_SERVICE_HOST=10.96.0.1 PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456"
)
TRAIN_JOB = env_of(
    "PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_NODE_RANK=1 PET_MASTER_ADDR=j-node-0-0.j PET_MASTER_PORT=29500"
)
ACCELERATE = env_of("ACCELERATE_USE_CPU=True ACCELERATE_MIXED_PRECISION=no MASTER_ADDR=127.0.0.1 MASTER_PORT=29500")
LIGHTNING = env_of("MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 NODE_RANK=1")
JOBSET = env_of("JOB_COMPLETION_INDEX=1 RANK=1 MASTER_ADDR=pytorch-workers-0-0.pytorch MASTER_PORT=3389")
SKYPILOT = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2\n", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}
DSTACK = {"DSTACK_NODES_IPS": "10.0.0.1\n10.0.0.2", "DSTACK_NODE_RANK": "1", "DSTACK_MASTER_NODE_IP": "10.0.0.1"}
SAGEMAKER = {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2", "SM_NUM_GPUS": "8"}
AWS_BATCH = env_of("AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_NODE_INDEX=1 AWS_BATCH_JOB_MAIN_NODE_INDEX=0") | env_of(
    "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1"
)
RUNPOD = env_of(
    "PRIMARY_ADDR=10.0.0.1 MASTER_ADDR=10.0.0.1 PRIMARY_PORT=29400 MASTER_PORT=29400 NODE_ADDR=10.0.0.2 NODE_RANK=1 "
    "NUM_NODES=2 NUM_TRAINERS=8 WORLD_SIZE=16"
)
VERTEX = {
    "CLUSTER_SPEC": '{"cluster": {"workerpool0": ["job-0-0:2222"], "workerpool1": ["job-1-0:2222", "job-1-1:2222"]}, '
    '"task": {"type": "workerpool1", "index": 1}, "environment": "cloud"}'
}
CONDOR = env_of("_CONDOR_PROCNO=1 _CONDOR_NPROCS=2")
VOLCANO_HOSTS = env_of("VC_TASK_INDEX=1 VK_TASK_INDEX=1 VC_WORKER_NUM=2 VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j")
LWS = env_of("LWS_LEADER_ADDRESS=10.0.0.1 LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=1 KUBERNETES_SERVICE_HOST=10.96.0.1")
GOOGLE_BATCH = env_of("BATCH_NODE_COUNT=2 BATCH_NODE_INDEX=1 BATCH_MAIN_NODE_HOSTNAME=10.0.0.1 BATCH_TASK_INDEX=1")
BASETEN = env_of("BT_GROUP_SIZE=2 BT_NODE_RANK=1 BT_LEADER_ADDR=10.0.0.1 BT_NUM_GPUS=8")
BEAKER = env_of("BEAKER_REPLICA_COUNT=2 BEAKER_REPLICA_RANK=1 BEAKER_LEADER_REPLICA_HOSTNAME=10.0.0.1")
VOLCENGINE = env_of(
    "MLP_WORKER_NUM=2 MLP_ROLE_INDEX=1 MLP_WORKER_0_HOST=10.0.0.1 MLP_WORKER_0_PORT=2222 MLP_WORKER_GPU=8"
)
MERLIN = env_of(
    "ARNOLD_WORKER_NUM=2 ARNOLD_ID=1 ARNOLD_WORKER_0_HOST=10.0.0.1 ARNOLD_WORKER_0_PORT=2222,2223 ARNOLD_WORKER_GPU=8"
)
LEPTON = env_of("LEPTON_JOB_TOTAL_WORKERS=2 LEPTON_JOB_WORKER_INDEX=1")
NGC = env_of("NGC_ARRAY_SIZE=2 NGC_ARRAY_INDEX=1 NGC_MASTER_ADDR=10.0.0.1 NGC_GPUS_PER_NODE=8")
NSML = env_of("NSML_WORLD_SIZE=2 NSML_RANK=1 NSML_HOST_RANK0=10.0.0.1 NSML_HOST_RANK1=10.0.0.2")
TPU = env_of("TPU_WORKER_HOSTNAMES=10.0.0.1,10.0.0.2 TPU_WORKER_ID=1")
OPENPAI = env_of(
    "PAI_CURRENT_TASK_ROLE_NAME=worker PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=1 PAI_TASK_ROLE_TASK_COUNT_worker=2 "
    "PAI_HOST_IP_worker_0=10.0.0.1 PAI_HOST_IP_worker_1=10.0.0.2"
)
SCRIPT = env_of("NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 NPROC_PER_NODE=8")
TAIJI = env_of("HOST_NUM=2 INDEX=1 CHIEF_IP=10.0.0.1 HOST_GPU_NUM=8")
TI_ONE = env_of("NODE_NUM=2 INDEX=1 CHIEF_IP=10.0.0.1 GPU_NUM_PER_NODE=8 GPU_NUM=16")
OCI = env_of("NODE_COUNT=2 NODE_RANK=1 OCI__WORKER_COUNT=1 MASTER_ADDR=10.0.0.1")
TF_CONFIG = {
    "TF_CONFIG": '{"cluster": {"worker": ["w0:2222", "w1:2222"], "chief": ["c0:2222"], "ps": ["p0:2222"]}, '
    '"task": {"type": "worker", "index": 1}}'
}
HOROVOD = env_of("HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2 HOROVOD_CROSS_RANK=1")

SUBMITIT = env_of("SUBMITIT_LOCAL_NTASKS=2 SUBMITIT_LOCAL_GLOBALID=1 SUBMITIT_LOCAL_LOCALID=1")
DLROVER = env_of("DLROVER_MASTER_ADDR=10.0.0.9:50001 NODE_NUM=2 NODE_RANK=1 RANK=1 WORLD_SIZE=2")
METAFLOW = env_of("MF_PARALLEL_MAIN_IP=10.0.0.1 MF_PARALLEL_NUM_NODES=2 MF_PARALLEL_NODE_INDEX=1")
COMPOSER = env_of("MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 NODE_RANK=1 WORLD_SIZE=16 LOCAL_WORLD_SIZE=8")
PAI_DLC = POD | env_of("NPROC_PER_NODE=8 KUBERNETES_SERVICE_HOST=10.96.0.1")

ALONE = ("node", 1, 2, 0, None, 2)
SHAPE = ("started", "nnodes", "nproc_per_node", "node_rank", "rank", "world_size")


@pytest.mark.parametrize(
    ("env", "flags", "launcher", "shape"),
    [
        (DEEPSPEED, {}, "DeepSpeed", ("rank", 2, 2, 1, 3, 4)),
        # 3 + 1: what the number of this node's ranks would make of it is not asked
        (DEEPSPEED | {"LOCAL_SIZE": "1", "LOCAL_RANK": "0"}, {}, "DeepSpeed", ("rank", 2, 1, 1, 3, 4)),
        (RAY, {}, "Ray Train", ("rank", 2, 2, 1, 3, 4)),
        (VOLCANO, {}, "Volcano", ("rank", 2, 1, 1, 1, 2)),
        (VOLCANO, {"nproc_per_node": "8"}, "Volcano", ("node", 2, 8, 1, None, 16)),
        (PYTORCH_JOB, {}, "PyTorchJob", ("node", 2, 1, 1, None, 2)),
        (PYTORCH_JOB | {"WORLD_SIZE": "16"}, {}, "PyTorchJob", ("node", 2, 8, 1, None, 16)),
        (PYTORCH_JOB | {"WORLD_SIZE": "8", "PET_NPROC_PER_NODE": "4"}, {}, "", ("node", 2, 4, 1, None, 8)),
        (SKYPILOT, {}, "SkyPilot", ("node", 2, 2, 1, None, 4)),
        (SKYPILOT, {"nnodes": "2", "node_rank": 0}, "SkyPilot", ("node", 2, 2, 0, None, 4)),
        (SKYPILOT | {"SKYPILOT_NODE_IPS": "10.0.0.1", "SKYPILOT_NODE_RANK": "0"}, {}, "", ("node", 1, 2, 0, None, 2)),
        (DSTACK, {}, "dstack", ("node", 2, 2, 1, None, 4)),
        (SAGEMAKER, {}, "SageMaker", ("node", 2, 2, 1, None, 4)),
        (SAGEMAKER | RANKED, {}, "env", ("rank", None, None, None, 3, 4)),
        (AWS_BATCH, {}, "AWS Batch", ("node", 2, 2, 1, None, 4)),
        (
            AWS_BATCH | {"AWS_BATCH_JOB_NUM_NODES": "1", "AWS_BATCH_JOB_NODE_INDEX": "0"},
            {},
            "",
            ("node", 1, 2, 0, None, 2),
        ),
        (RUNPOD, {}, "RunPod", ("node", 2, 8, 1, None, 16)),
        (RUNPOD | RANKED, {}, "env", ("rank", None, None, 1, 3, 4)),
        (VERTEX, {}, "Vertex AI", ("node", 3, 2, 2, None, 6)),
        (
            VERTEX | {"CLUSTER_SPEC": VERTEX["CLUSTER_SPEC"].replace('workerpool1", "index', 'workerpool2", "index')},
            {},
            "",
            ("node", 1, 2, 0, None, 2),
        ),
        ({"CLUSTER_SPEC": "[1]"}, {}, "", ("node", 1, 2, 0, None, 2)),
        (VOLCANO_HOSTS, {}, "Volcano", ("node", 2, 2, 1, None, 4)),
        (LWS, {}, "LeaderWorkerSet", ("node", 2, 2, 1, None, 4)),
        (LWS | {"LWS_GROUP_SIZE": "1", "LWS_WORKER_INDEX": "0"}, {}, "", ALONE),
        (GOOGLE_BATCH, {}, "Google Batch", ("node", 2, 2, 1, None, 4)),
        (env_of("BATCH_TASK_INDEX=1 BATCH_TASK_COUNT=20"), {}, "", ALONE),
        (BASETEN, {}, "Baseten", ("node", 2, 8, 1, None, 16)),
        # a job of its own in the SLURM that runs there
        (BASETEN | env_of("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=node1"), {}, "", ALONE),
        (BEAKER, {}, "Beaker", ("node", 2, 2, 1, None, 4)),
        (env_of("BEAKER_REPLICA_COUNT=8 BEAKER_REPLICA_RANK=1"), {}, "", ALONE),
        (VOLCENGINE, {}, "Volcengine", ("node", 2, 8, 1, None, 16)),
        (MERLIN, {}, "Merlin", ("node", 2, 8, 1, None, 16)),
        (MERLIN | RANKED, {}, "env", ("rank", None, None, None, 3, 4)),
        (LEPTON, {"master_addr": "n0"}, "Lepton", ("node", 2, 2, 1, None, 4)),
        (NGC, {}, "NGC", ("node", 2, 8, 1, None, 16)),
        (NSML, {}, "NSML", ("node", 2, 2, 1, None, 4)),
        (SUBMITIT, {}, "submitit", ("rank", 1, 2, None, 1, 2)),
        (SUBMITIT | {"SUBMITIT_LOCAL_NTASKS": "1", "SUBMITIT_LOCAL_GLOBALID": "0"}, {}, "", ALONE),
        (DLROVER, {"master_addr": "n0"}, "DLRover", ("node", 2, 2, 1, None, 4)),
        (
            DLROVER | env_of("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=n0 MASTER_PORT=1"),
            {},
            "env",
            ("rank", None, None, 1, 3, 4),
        ),
        (METAFLOW, {}, "Metaflow", ("node", 2, 2, 1, None, 4)),
        (PAI_DLC, {}, "NPROC_PER_NODE", ("node", 2, 8, 1, None, 16)),
        (COMPOSER, {}, "LOCAL_WORLD_SIZE", ("node", 2, 8, 1, None, 16)),
        (COMPOSER | env_of("NODE_RANK=0 WORLD_SIZE=8"), {}, "", ("node", 1, 8, 0, None, 8)),
        # composer has started its ranks
        (COMPOSER | env_of("RANK=9 LOCAL_RANK=1"), {}, "env", ("rank", 2, 8, 1, 9, 16)),
        # by hand, as before every process
        (without(PAI_DLC, "KUBERNETES_SERVICE_HOST"), {}, "env", ("rank", None, None, None, 1, 2)),
        (PAI_DLC | {"NPROC_PER_NODE": "1"}, {}, "env", ("rank", None, None, None, 1, 2)),
        (PAI_DLC | env_of("LOCAL_RANK=1"), {}, "env", ("rank", None, None, None, 1, 2)),
        (TPU, {}, "Cloud TPU", ("node", 2, 2, 1, None, 4)),
        (env_of("TPU_WORKER_HOSTNAMES=localhost TPU_WORKER_ID=0"), {}, "", ALONE),
        (OPENPAI, {}, "OpenPAI", ("node", 2, 2, 1, None, 4)),
        (OPENPAI | {"PAI_TASK_ROLE_TASK_COUNT_worker": "9999999999"}, {}, "", ALONE),
        (SCRIPT, {}, "NNODES", ("node", 2, 8, 1, None, 16)),
        # as before torchrun --rdzv-backend c10d, which gives the numbers
        (without(SCRIPT, "NODE_RANK"), {}, "NNODES", ("node", 2, 8, None, None, 16)),
        (SCRIPT, {"nnodes": "3", "node_rank": 2}, "", ("node", 3, 2, 2, None, 6)),
        (SCRIPT | RANKED, {}, "env", ("rank", None, None, 1, 3, 4)),
        (env_of("NNODES=1 NODE_RANK=0"), {}, "", ALONE),
        # a JobSet whose manifest counts the pods
        (without(JOBSET, "RANK") | SCRIPT, {}, "NNODES", ("node", 2, 8, 1, None, 16)),
        (env_of("NUM_NODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1"), {}, "NUM_NODES", ("node", 2, 2, 1, None, 4)),
        (env_of("NUM_NODES=2"), {}, "", ALONE),
        (TAIJI, {}, "Taiji", ("node", 2, 8, 1, None, 16)),
        (without(TAIJI, "CHIEF_IP"), {}, "", ALONE),
        (TI_ONE, {}, "TI-ONE", ("node", 2, 8, 1, None, 16)),
        (OCI, {}, "NODE_COUNT", ("node", 2, 2, 1, None, 4)),
        (OCI | RANKED, {}, "env", ("rank", None, None, 1, 3, 4)),
        (TF_CONFIG, {}, "TF_CONFIG", ("node", 3, 2, 2, None, 6)),
        ({"TF_CONFIG": TF_CONFIG["TF_CONFIG"].replace('"type": "worker"', '"type": "ps"')}, {}, "", ALONE),
        (env_of("NNODES=2"), {"standalone": True}, "", ALONE),
        (HOROVOD, {"master_addr": "n0"}, "Horovod", ("rank", None, 2, None, 3, 4)),
        (HOROVOD | {"HOROVOD_SIZE": "1", "HOROVOD_RANK": "0"}, {}, "", ALONE),
        (CONDOR, {"master_addr": "n0"}, "HTCondor", ("node", 2, 2, 1, None, 4)),
        (LIGHTNING, {"nnodes": "2", "nproc_per_node": "4"}, "", ("node", 2, 4, 1, None, 8)),
        (LIGHTNING, {"standalone": True}, "", ALONE),
        (LIGHTNING | env_of("NODE_RANK=0 NUM_NODES=1"), {}, "", ALONE),
        (LIGHTNING | env_of("RANK=3 WORLD_SIZE=4"), {}, "env", ("rank", None, None, 1, 3, 4)),
        (LIGHTNING | env_of("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1"), {}, "env", ("rank", None, None, 1, 3, 4)),
        (TRAIN_JOB, {}, "", ("node", 2, 4, 1, None, 8)),
        (ACCELERATE | env_of("RANK=3 WORLD_SIZE=4"), {}, "env", ("rank", None, None, None, 3, 4)),
        (JOBSET, {"nnodes": "4", "nproc_per_node": "1", "node_rank": 1}, "", ("node", 4, 1, 1, None, 4)),
    ],
)
def test_the_plan(env: dict[str, str], flags: dict[str, Any], launcher: str, shape: tuple[Any, ...]) -> None:
    plan = plan_in(env, **flags)
    assert (plan.launcher, values(plan, *SHAPE), plan.problems) == (launcher, shape, ())


def test_a_number_that_no_node_has_is_a_mistake_of_the_variable() -> None:
    (problem,) = plan_in(SCRIPT | {"NODE_RANK": "2"}).problems
    assert (problem.variable, problem.why) == ("NODE_RANK", "node ranks go from 0 to 1 with 2 nodes")


def test_what_counts_pods_is_said() -> None:
    assert "--nproc-per-node N" in plan_in(VOLCANO).note
    assert "RANK and WORLD_SIZE were taken to count nodes, with 8 ranks on each" in plan_in(PAI_DLC).note
    assert "WORLD_SIZE and LOCAL_WORLD_SIZE were taken for 2 nodes" in plan_in(COMPOSER).note


def test_a_pod_of_an_indexed_job_is_checked_alone_and_told_so() -> None:
    pod = env_of("JOB_COMPLETION_INDEX=1 KUBERNETES_SERVICE_HOST=10.96.0.1")
    plan = plan_in(pod)
    assert values(plan, *SHAPE) == ALONE and "--node-rank $JOB_COMPLETION_INDEX" in plan.note
    assert "--node-rank 1" in plan_in({"NODE_RANK": "1"}).note and plan_in({"NODE_RANK": "0"}).note == ""
    assert plan_in(pod | SCRIPT).note == plan_in(pod, standalone=True).note == ""
    nomad = env_of("NOMAD_ALLOC_INDEX=1 NOMAD_GROUP_NAME=train")
    assert values(plan_in(nomad), *SHAPE) == ALONE and "--node-rank $NOMAD_ALLOC_INDEX" in plan_in(nomad).note
    assert plan_in(nomad | SCRIPT).note == ""


@pytest.mark.parametrize("sign", ["RAY_JOB_ID=01000000", "RAY_CLUSTER_NAME=train"])
def test_a_machine_in_a_ray_cluster_is_told_so(sign: str) -> None:
    """A task of a placement group, or a shell in one of its pods."""
    plan = plan_in(env_of(sign))
    assert values(plan, *SHAPE) == ALONE and "in a Ray cluster" in plan.note
    assert plan_in(env_of(sign), standalone=True).note == plan_in({"RAY_ADDRESS": "10.0.0.1:6379"}).note == ""


def test_rays_workers_are_nearer_than_the_step_that_started_ray() -> None:
    plan = plan_in(STEP | RAY | env_of("RAY_RAYLET_PID=77"))
    assert (plan.launcher, plan.rank, plan.local_rank, plan.nproc_per_node) == ("Ray Train", 3, 1, 2)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (ACCELERATE, "add --multi_gpu"),
        (JOBSET, r"--nnodes N --nproc-per-node M --node-rank \$RANK"),
        (CONDOR, r"--nnodes 2 --nproc-per-node M --node-rank \$_CONDOR_PROCNO --master-addr HOST"),
        (VOLCANO_HOSTS | env_of("VC_MASTER_HOSTS=j-master-0.j"), "this job has 2 tasks: `distdoctor check --nnodes 3"),
        (LEPTON, r"\(Lepton\): set MASTER_ADDR, or `distdoctor check --nnodes 2"),
        (env_of("NNODES=2"), r"\(NNODES\): set MASTER_ADDR, .* \(or add --standalone for this machine alone\)"),
        (env_of("NNODES=2 NODE_RANK=1"), r"--nnodes 2 --nproc-per-node M --node-rank \$NODE_RANK --master-addr HOST"),
        (HOROVOD, "horovodrun does not tell .* `MASTER_ADDR=HOST horovodrun ... distdoctor check`"),
        (
            SCRIPT | env_of("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_PROCID=0 SLURM_JOB_NODELIST=n[0-1]"),
            "this is the batch script of SLURM job 7, which has 2 nodes",
        ),
        (LIGHTNING, "NODE_RANK is 1 .*Lightning.* `distdoctor check --nnodes N --nproc-per-node M` on each of them"),
        (LIGHTNING | env_of("WORLD_SIZE=4"), "or set RANK and WORLD_SIZE for ranks by hand"),
        (LIGHTNING | env_of("NODE_RANK=0"), "NODE_RANK is 0 and RANK is not set"),
        (COMPOSER | env_of("LOCAL_WORLD_SIZE=5"), "NODE_RANK is 1 and RANK is not set"),
        (without(COMPOSER, "MASTER_ADDR"), r"nothing tells the nodes where node 0 is \(LOCAL_WORLD_SIZE\)"),
        (env_of("K_MPI_JOB_ROLE=launcher"), "in this pod type `mpirun distdoctor check`"),
        (env_of("K_MPI_JOB_ROLE=worker"), "in the launcher's pod type `mpirun distdoctor check`"),
    ],
)
def test_what_starts_no_rank_is_refused(env: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan_in(env)


def test_accelerate_with_mpirun_and_an_mpi_job_are_mpirun() -> None:
    ranks = env_of(
        "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2"
    )
    for env in (ACCELERATE, env_of("K_MPI_JOB_ROLE=worker")):
        plan = plan_in(env | ranks)
        assert values(plan, "launcher", "rank", "world_size", "nnodes") == ("Open MPI", 1, 2, 1)


def test_the_main_node_of_aws_batch_takes_its_own_address_and_asks_nobody_to_start_the_others() -> None:
    main = {name: value for name, value in AWS_BATCH.items() if "ADDRESS" not in name} | {
        "AWS_BATCH_JOB_NODE_INDEX": "0"
    }
    options = with_master(Options(plan_in(main), ()))
    assert (options.plan.announce, options.token, options.plan.node_rank) == (False, None, 0)
    assert options.plan.master_addr


@pytest.mark.parametrize(
    ("env", "address", "port"),
    [
        (VERTEX, "job-0-0", 29500),
        (TF_CONFIG, "c0", 29500),
        (VOLCANO_HOSTS, "j-worker-0.j", 29500),
        (PAI_DLC, "job-master-0.job", 23456),
        *(
            (env, "10.0.0.1", 29500)
            for env in (METAFLOW, AWS_BATCH, LWS, GOOGLE_BATCH, BASETEN, BEAKER, NGC, NSML, TPU)
        ),
        *((env, "10.0.0.1", 2222) for env in (VOLCENGINE, MERLIN)),
        *((env, "10.0.0.1", 29400) for env in (RUNPOD, SCRIPT, COMPOSER)),
        (HOROVOD | {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1"}, "10.0.0.1", 29500),
    ],
)
def test_where_node_0_is(env: dict[str, str], address: str, port: int) -> None:
    assert values(plan_in(env), "master_addr", "master_port") == (address, port)


@pytest.mark.parametrize(
    ("name", "env", "told"),
    [
        ("SageMaker", "TRAINING_JOB_ARN=arn:aws:1", '{"current_host": "10.0.0.2", "hosts": ["10.0.0.1", "10.0.0.2"]}'),
        ("Determined", "DET_TASK_ID=7", '{"container_addrs": ["10.0.0.1", "10.0.0.2"], "container_rank": 1}'),
    ],
)
def test_platforms_that_tell_it_in_a_file(
    name: str, env: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "told.json"
    monkeypatch.setattr(
        platforms, "PLATFORM_FILES", [(*one[:2], file, *one[3:]) for one in platforms.PLATFORM_FILES if one[0] == name]
    )
    assert values(plan_in(env_of(env)), *SHAPE) == ALONE
    file.write_text(told)
    plan = plan_in(env_of(env))
    assert (plan.launcher, values(plan, *SHAPE)) == (name, ("node", 2, 2, 1, None, 4))
    assert (plan.master_addr, plan.sources["nnodes"]) == ("10.0.0.1", str(file))
    assert values(plan_in({}), *SHAPE) == ALONE
    file.write_text('{"hosts": 2, "container_addrs": null}')
    assert values(plan_in(env_of(env)), *SHAPE) == ALONE


@pytest.mark.parametrize("env", [SKYPILOT, DSTACK, SAGEMAKER])
def test_the_first_of_the_nodes_is_the_master(env: dict[str, str]) -> None:
    plan = plan_in(env)
    assert plan.master_addr == ("algo-1" if env is SAGEMAKER else "10.0.0.1")
    first = plan_in(env | {name: "0" for name in env if name.endswith("_RANK")} | {"SM_CURRENT_HOST": "algo-1"})
    assert (first.node_rank, len(first.roster)) == (0, 2)

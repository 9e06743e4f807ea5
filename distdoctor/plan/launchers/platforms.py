"""Platforms that start one command on each node of a job, and set the node's number and the number of nodes.

Sources. AWS Batch: user guide, "Environment variables" of multi-node parallel jobs. RunPod: docs, Instant Clusters,
"Configuration reference". HTCondor: src/condor_starter.V6.1/parallel_proc.cpp. LeaderWorkerSet:
api/leaderworkerset/v1/leaderworkerset_types.go. DLRover: dlrover/python/common/constants.py, NodeEnv. Metaflow:
metaflow/plugins/parallel_decorator.py. MosaicML's platform: composer/cli/launcher.py, which reads what that sets. Of
the others, what public start scripts pass to torchrun: Google Batch, Baseten, Beaker (gantry run --leader-selection),
Volcengine (MLP_*), Merlin (ARNOLD_*), Lepton, NGC Base Command, NSML (also its guide, "Using multiple nodes"),
Tencent's Taiji and TI-ONE.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    LOCAL_RANK,
    MASTER_ADDR,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    STANDALONE,
    WORLD_SIZE,
)
from distdoctor.plan.launchers import base
from distdoctor.plan.launchers.base import DerivedValue, Launched
from distdoctor.plan.syntax import MAX_LENGTH, MAX_NODES, number_of


@dataclass(frozen=True)
class PlatformVariables:
    """Variables of one platform: number of nodes, this one's number, the first's address, ranks of each, a port."""

    name: str
    count: str
    number: str
    first: str = ""
    ranks: str = ""
    port: str = ""
    sign: str = ""
    """Variable that only this platform sets, if the others have common names."""
    first_knows: bool = True
    """True if the first node has its own address in ``first``, too."""


PLATFORMS = (
    PlatformVariables(
        "AWS Batch",
        "AWS_BATCH_JOB_NUM_NODES",
        "AWS_BATCH_JOB_NODE_INDEX",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
        first_knows=False,
    ),
    PlatformVariables(
        "RunPod", "NUM_NODES", NODE_RANK.variables[0], MASTER_ADDR.variables[0], "NUM_TRAINERS", sign="PRIMARY_ADDR"
    ),
    PlatformVariables("Metaflow", "MF_PARALLEL_NUM_NODES", "MF_PARALLEL_NODE_INDEX", "MF_PARALLEL_MAIN_IP"),
    PlatformVariables("HTCondor", "_CONDOR_NPROCS", "_CONDOR_PROCNO"),
    PlatformVariables("LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"),
    PlatformVariables("Google Batch", "BATCH_NODE_COUNT", "BATCH_NODE_INDEX", "BATCH_MAIN_NODE_HOSTNAME"),
    PlatformVariables("Baseten", "BT_GROUP_SIZE", "BT_NODE_RANK", "BT_LEADER_ADDR", "BT_NUM_GPUS"),
    PlatformVariables(
        "Beaker",
        "BEAKER_REPLICA_COUNT",
        "BEAKER_REPLICA_RANK",
        "BEAKER_LEADER_REPLICA_HOSTNAME",
        sign="BEAKER_LEADER_REPLICA_HOSTNAME",  # without it, the replicas have nothing to do with each other
    ),
    PlatformVariables(
        "Volcengine", "MLP_WORKER_NUM", "MLP_ROLE_INDEX", "MLP_WORKER_0_HOST", "MLP_WORKER_GPU", "MLP_WORKER_0_PORT"
    ),
    PlatformVariables(
        "Merlin", "ARNOLD_WORKER_NUM", "ARNOLD_ID", "ARNOLD_WORKER_0_HOST", "ARNOLD_WORKER_GPU", "ARNOLD_WORKER_0_PORT"
    ),
    PlatformVariables("Lepton", "LEPTON_JOB_TOTAL_WORKERS", "LEPTON_JOB_WORKER_INDEX"),
    PlatformVariables("NSML", "NSML_WORLD_SIZE", "NSML_RANK", "NSML_HOST_RANK0"),
    PlatformVariables("NGC", "NGC_ARRAY_SIZE", "NGC_ARRAY_INDEX", "NGC_MASTER_ADDR", "NGC_GPUS_PER_NODE"),
    PlatformVariables("Taiji", "HOST_NUM", "INDEX", "CHIEF_IP", "HOST_GPU_NUM", sign="CHIEF_IP"),
    PlatformVariables("TI-ONE", "NODE_NUM", "INDEX", "CHIEF_IP", "GPU_NUM_PER_NODE", sign="CHIEF_IP"),
)
DLROVER = PlatformVariables("DLRover", "NODE_NUM", NODE_RANK.variables[0], sign="DLROVER_MASTER_ADDR")
"""DLRover. Its RANK and WORLD_SIZE count nodes, too, until dlrover-run has started ranks."""
COUNT, RANKS = "NNODES", "NPROC_PER_NODE"
OTHERS = tuple(
    PlatformVariables(count, count, NODE_RANK.variables[0], MASTER_ADDR.variables[0], RANKS)
    for count in ("NUM_NODES", "NODE_COUNT")
)
"""Variables that start scripts read and pass to torchrun as flags, like NODE_RANK; torchrun itself reads none of them.
LLaMA-Factory (launcher.py), ms-swift, OpenMMLab (tools/dist_train.sh); NODE_COUNT: OCI Data Science
(ads/jobs/templates/driver_pytorch.py)."""


def detect_platform(env: Mapping[str, str]) -> Launched | None:
    """Detect one node of several. In the job of a scheduler on such a platform, the scheduler is nearer."""
    if RANK.variables[0] in env or base.job_nodes(env)[0]:
        return None
    return next((placed for platform in PLATFORMS if (placed := _node_by_variables(platform, env))), None)


def dlrover(env: Mapping[str, str]) -> Launched | None:
    """Detect a node of several, on which dlrover-run has not started ranks."""
    return None if any(name in env for name in LOCAL_RANK.variables) else _node_by_variables(DLROVER, env)


def by_script(env: Mapping[str, str]) -> Launched | None:
    """Detect one node of several by the variables that start scripts share; its number, if any, is in NODE_RANK."""
    count, ranks = number_of(env.get(COUNT)), number_of(env.get(RANKS))
    if RANK.variables[0] in env:
        return None
    if not count or count < 2:
        return (
            None
            if COUNT in env
            else next(filter(None, (_node_by_variables(other, env) for other in OTHERS)), _by_ranks(env))
        )
    derived = {
        "nnodes": DerivedValue(count, COUNT),
        **({"nproc_per_node": DerivedValue(ranks, RANKS)} if ranks else {}),
    }
    return Launched(COUNT, {}, derived, (), per_node=True, rank0_unknown=_unknown(COUNT, count, NODE_RANK.variables[0]))


def _by_ranks(env: Mapping[str, str]) -> Launched | None:
    """Detect one node of several by the number of ranks in all and on it, before a launcher of its own starts them."""
    names = WORLD_SIZE.variables[0], NPROC_PER_NODE.variables[0], NODE_RANK.variables[0]
    world, here, number = (number_of(env.get(name)) for name in names)
    if not world or not here or world % here or number is None or any(name in env for name in LOCAL_RANK.variables):
        return None
    count = world // here
    if count < 2 or number >= count:
        return None
    note = (
        f"{RANK.variables[0]} is not set: {names[0]} and {names[1]} were taken for {count} nodes on each of which a "
        "launcher starts the ranks, as composer's does"
    )
    derived = {"nnodes": DerivedValue(count, f"{names[0]} and {names[1]}")}
    return Launched(
        names[1], {}, derived, (), per_node=True, rank0_unknown=_unknown(names[1], count, names[2]), note=note
    )


def only_node(env: Mapping[str, str]) -> bool:
    """Return whether this is the only node of a script that starts its ranks itself, by the variables that such scripts
    read.

    Raise UsageError if it may be one of several: it has its node's number and node 0's address, but not its own rank.
    So do PyTorch Lightning's, where only the script knows the number of nodes
    (lightning/fabric/plugins/environments/lightning.py); its guide for general clusters has WORLD_SIZE beside them.
    """
    number, address = number_of(env.get(NODE_RANK.variables[0])), env.get(MASTER_ADDR.variables[0])
    if number is None or not address or any(name in env for name in (*RANK.variables, *LOCAL_RANK.variables)):
        return False
    world = number_of(env.get(WORLD_SIZE.variables[0]))
    if world and world == number_of(env.get(NPROC_PER_NODE.variables[0])):
        return True
    counts = (COUNT, *(platform.count for platform in (*OTHERS, *PLATFORMS)))
    if any(number_of(env.get(name)) == 1 for name in counts):
        return not any(name in env for name in WORLD_SIZE.variables)
    raise UsageError(
        f"{NODE_RANK.variables[0]} is {number} and {RANK.variables[0]} is not set, as where a script starts the ranks "
        "of its node itself (PyTorch Lightning), and nothing tells how many nodes there are: `distdoctor check "
        f"{NNODES.flag} N {NPROC_PER_NODE.flag} M` on each of them (or set {RANK.variables[0]} and "
        f"{WORLD_SIZE.variables[0]} for ranks by hand, or add {STANDALONE.flag} for this machine alone)"
    )


def platform_number_note(env: Mapping[str, str]) -> str:
    """Return the note for a node with a number, not the first one's, without the number of nodes; else empty."""
    number = number_of(env.get(NODE_RANK.variables[0]))
    if not number:
        return ""
    line = f"distdoctor check {NNODES.flag} N {NODE_RANK.flag} {number} {MASTER_ADDR.flag} HOST"
    return (
        f"{NODE_RANK.variables[0]} is {number}, and nothing says how many nodes there are: this machine alone was "
        f"checked; for a job of several: `{line}`"
    )


def _node_by_variables(platform: PlatformVariables, env: Mapping[str, str]) -> Launched | None:
    count, number = number_of(env.get(platform.count)), number_of(env.get(platform.number))
    if (platform.sign and platform.sign not in env) or not count or count < 2 or number is None or number >= count:
        return None
    derived = {"nnodes": DerivedValue(count, platform.count), "node_rank": DerivedValue(number, platform.number)}
    if ranks := number_of(env.get(platform.ranks)):
        derived["nproc_per_node"] = DerivedValue(ranks, platform.ranks)
    if first := env.get(platform.first):
        derived["master_addr"] = DerivedValue(first, platform.first)
    if port := number_of(env.get(platform.port, "").partition(",")[0]):  # there may be several: the first is used
        derived["master_port"] = DerivedValue(port, platform.port)
    itself = number == 0 and not platform.first_knows
    unknown = "" if itself else _unknown(platform.name, count, platform.number)
    return Launched(platform.name, {}, derived, (), per_node=True, rank0_unknown=unknown)


def _unknown(name: str, count: int, number: str) -> str:
    return (
        f"nothing tells the nodes where node 0 is ({name}): set {MASTER_ADDR.variables[0]}, or `distdoctor check "
        f"{NNODES.flag} {count} {NPROC_PER_NODE.flag} M {NODE_RANK.flag} ${number} {MASTER_ADDR.flag} HOST` (or add "
        f"{STANDALONE.flag} for this machine alone)"
    )


# Platforms that name the nodes, too.
#
# SkyPilot: docs, "Distributed Multi-Node Jobs" (the first address is node 0's). dstack: docs, "Tasks", system
# environment variables. SageMaker: sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md; if it starts torchrun or
# mpirun itself, those are nearer; an image without the toolkit has the file alone (developer guide, "How Amazon
# SageMaker AI Provides Training Information"). Vertex AI: "Distributed training", CLUSTER_SPEC; TF_CONFIG is the same
# with other names, which platforms set whatever the framework (TensorFlow guide, "Distributed training"). OpenPAI:
# docs/manual/cluster-user, environment variables. Determined: harness/determined/_info.py.


NODE_PLATFORMS = (
    # name, nodes in the order of their ranks, this one: its number or its name
    ("SkyPilot", "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK"),
    ("dstack", "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"),
    ("SageMaker", "SM_HOSTS", "SM_CURRENT_HOST"),
    ("Cloud TPU", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"),
)

SPECS = (
    ("Vertex AI", "CLUSTER_SPEC", ("workerpool0", "workerpool1")),
    ("TF_CONFIG", "TF_CONFIG", ("chief", "master", "worker")),
)
"""Platform, its variable, and the task types in it that train, the first before the others."""
PLATFORM_FILES = (
    # name, a variable that is set there, the file, the nodes in it, this one: its number or its name
    ("SageMaker", "TRAINING_JOB_ARN", Path("/opt/ml/input/config/resourceconfig.json"), "hosts", "current_host"),
    ("Determined", "DET_TASK_ID", Path("/run/determined/info/rendezvous.json"), "container_addrs", "container_rank"),
)


def detect_node_platform(env: Mapping[str, str]) -> Launched | None:
    """Detect one node of several, on which nothing has started ranks yet."""
    if RANK.variables[0] in env:
        return None
    for name, listed, own in NODE_PLATFORMS:
        nodes, here = _names(env.get(listed, "")), env.get(own, "").strip()
        place = nodes.index(here) if here in nodes else number_of(here)
        if placed := _listed(name, nodes, listed, place, own):
            return placed
    return detect_platform(env) or _by_spec(env) or _openpai(env) or _by_file(env)


def _listed(name: str, nodes: tuple[str, ...], listed: str, place: int | None, own: str) -> Launched | None:
    """Return the node at ``place`` among ``nodes``; ``listed`` and ``own`` are the sources of the two."""
    if len(nodes) < 2 or place is None or place >= len(nodes):
        return None
    derived = {
        "nnodes": DerivedValue(len(nodes), listed),
        "node_rank": DerivedValue(place, own),
        "master_addr": DerivedValue(nodes[0], listed),
    }
    return Launched(name, {}, derived, (), nodes, per_node=True)


def _by_spec(env: Mapping[str, str]) -> Launched | None:
    for name, variable, roles in SPECS:
        spec = _json(env.get(variable, ""))
        cluster, task = (spec.get("cluster"), spec.get("task")) if isinstance(spec, dict) else (None, None)
        if not isinstance(cluster, dict) or not isinstance(task, dict) or task.get("type") not in roles:
            continue
        pools = {role: [str(host) for host in pool] for role in roles if isinstance(pool := cluster.get(role), list)}
        before = sum(len(pools.get(role, ())) for role in roles[: roles.index(task["type"])])
        index = number_of(str(task.get("index", "")))
        # HOST:PORT; the port is where a framework of its own may listen.
        nodes = tuple(host.rpartition(":")[0] or host for pool in pools.values() for host in pool)
        if placed := _listed(name, nodes, variable, None if index is None else before + index, variable):
            return placed
    return None


def _openpai(env: Mapping[str, str]) -> Launched | None:
    role = env.get("PAI_CURRENT_TASK_ROLE_NAME", "")
    count = f"PAI_TASK_ROLE_TASK_COUNT_{role}"
    tasks = min(number_of(env.get(count)) or 0, MAX_NODES)
    addresses = [env.get(f"PAI_HOST_IP_{role}_{place}", "") for place in range(tasks)]
    own = "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
    nodes = tuple(addresses) if all(addresses) else ()
    return _listed("OpenPAI", nodes, count, number_of(env.get(own)), own)


def _by_file(env: Mapping[str, str]) -> Launched | None:
    for name, sign, path, listed, own in PLATFORM_FILES:
        if sign not in env:
            continue
        try:
            config = _json(path.read_text(errors="replace"))
        except OSError:
            continue
        nodes, here = (config.get(listed), config.get(own)) if isinstance(config, dict) else (None, None)
        names = tuple(map(str, nodes)) if isinstance(nodes, list) else ()
        place = names.index(here) if here in names else number_of(str(here))
        if placed := _listed(name, names, str(path), place, str(path)):
            return placed
    return None


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MAX_LENGTH else None
    except (ValueError, RecursionError):
        return None


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a JSON list, in lines or between commas."""
    if len(text) > MAX_LENGTH or not text.lstrip().startswith("["):
        return tuple(text.replace(",", " ").split()) if len(text) <= MAX_LENGTH else ()
    names = _json(text)
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


# Operators of Kubernetes whose RANK and WORLD_SIZE count pods, or that start no rank in a pod themselves.
#
# Volcano: pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go. PyTorchJob (training-operator 1.9):
# pkg/controller.v1/pytorch/envvar.go. JobSet: examples/pytorch. MPI Operator: pkg/controller/mpi_job_controller.go.
# TrainJob gives PET_* alone, which is torchrun's own; torchx starts torchrun. PAI-DLC: docs, "Built-in environment
# variables". Indexed Jobs: Kubernetes docs, "Jobs", completion mode. Nomad: docs, "Runtime environment settings".


_RANK, _WORLD = RANK.variables[0], WORLD_SIZE.variables[0]
_VOLCANO = ("VC_TASK_INDEX", "VK_TASK_INDEX")
_POD = "KUBERNETES_SERVICE_HOST"
"""Variable of every pod, also without service links (kubernetes/pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap)."""
_JOBSET, _MPI = "JOB_COMPLETION_INDEX", "K_MPI_JOB_ROLE"
_NUMBERS = (("this pod", _JOBSET, _POD), ("this allocation of Nomad", "NOMAD_ALLOC_INDEX", "NOMAD_GROUP_NAME"))
"""Thing that has a number among others, its variable, and another variable that must be set, too."""


def volcano(env: Mapping[str, str]) -> Launched | None:
    """Detect a pod of several: one rank, unless it is to start more."""
    pods = number_of(env.get(_WORLD))
    if not any(name in env for name in _VOLCANO) or _RANK not in env or not pods or pods == 1:
        return None
    return Launched(
        "Volcano",
        {
            "rank": RANK.variables,
            "world_size": WORLD_SIZE.variables,
            "local_rank": LOCAL_RANK.variables,
            "nproc_per_node": NPROC_PER_NODE.variables,
            "node_rank": RANK.variables,
        },
        {
            "nnodes": DerivedValue(pods, _WORLD),
            "nproc_per_node": DerivedValue(1, "Volcano's pods"),
            "local_rank": DerivedValue(0, _RANK),
        },
        note=f"Volcano's {_RANK} and {_WORLD} count pods: one rank in each was checked; where a pod starts more, add "
        f"{NPROC_PER_NODE.flag} N",
    )


def volcano_hosts(env: Mapping[str, str]) -> Launched | None:
    """Detect a pod of several that are all of one task, with Volcano's plugin svc and without that for PyTorch."""
    tasks, number = _volcano_tasks(env), next((number_of(env[name]) for name in _VOLCANO if name in env), None)
    if _RANK in env or len(tasks) != 1 or number is None:
        return None
    ((source, hosts),) = tasks.items()
    if len(hosts) < 2 or number >= len(hosts):
        return None
    derived = {
        "nnodes": DerivedValue(len(hosts), source),
        "node_rank": DerivedValue(number, _VOLCANO[0]),
        "master_addr": DerivedValue(hosts[0], source),
    }
    return Launched("Volcano", {}, derived, (), hosts, per_node=True)


def refuse_volcano(env: Mapping[str, str]) -> None:
    """Raise UsageError in a pod of a job of several tasks, which knows its number in its task alone."""
    tasks = _volcano_tasks(env)
    if _RANK in env or len(tasks) < 2 or not any(name in env for name in _VOLCANO):
        return
    raise UsageError(
        f"Volcano tells a pod its number in its task, and this job has {len(tasks)} tasks: `distdoctor check "
        f"{NNODES.flag} {sum(map(len, tasks.values()))} {NPROC_PER_NODE.flag} M {NODE_RANK.flag} R {MASTER_ADDR.flag} "
        "HOST`, or give the job the plugin pytorch"
    )


def _volcano_tasks(env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the pods of each task, by the variable that lists them (pkg/controllers/job/plugins/svc/svc.go)."""
    names = (name for name in env if name.startswith("VC_") and name.endswith("_HOSTS"))
    return {name: tuple(filter(None, env[name].split(","))) for name in names}


def pytorch_job(env: Mapping[str, str]) -> Launched | None:
    """Detect a pod of a PyTorchJob without nprocPerNode: WORLD_SIZE is pods times ranks of each, RANK the pod's
    number."""
    pods, world = number_of(env.get(NNODES.pet)), number_of(env.get(_WORLD))
    ranked = _RANK in env and NODE_RANK.pet in env and not any(name in env for name in LOCAL_RANK.variables)
    if _POD not in env or not pods or not world or world % pods or not ranked or env.get(NPROC_PER_NODE.pet):
        return None
    derived = {"nproc_per_node": DerivedValue(world // pods, _WORLD)}
    return Launched("PyTorchJob", {}, derived, (), per_node=True)


def detect_pai_dlc(env: Mapping[str, str]) -> Launched | None:
    """Detect a pod of PAI-DLC: RANK and WORLD_SIZE count pods, NPROC_PER_NODE the ranks that torchrun is to start in
    each."""
    pods, ranks, number = (number_of(env.get(name)) for name in (_WORLD, RANKS, _RANK))
    if _POD not in env or not pods or not ranks or ranks == 1 or number is None or number >= pods:
        return None
    if any(name in env for name in (*LOCAL_RANK.variables, *NPROC_PER_NODE.variables)):
        return None
    derived = {
        "nnodes": DerivedValue(pods, _WORLD),
        "node_rank": DerivedValue(number, _RANK),
        "nproc_per_node": DerivedValue(ranks, RANKS),
    }
    note = (
        f"{RANKS} is set and {LOCAL_RANK.variables[0]} is not: {_RANK} and {_WORLD} were taken to count nodes, with "
        f"{ranks} ranks on each"
    )
    return Launched(RANKS, {}, derived, (), per_node=True, note=note)


def index_note(env: Mapping[str, str]) -> str:
    """Return the note for a pod of an Indexed Job, or an allocation of Nomad's, which may be one of several."""
    for what, number, required in _NUMBERS:
        if number_of(env.get(number)) is not None and required in env:
            return (
                f"{what} has a number ({number}={env[number]}), and nothing says how many train together: this machine "
                f"alone was checked; for a job of several: `distdoctor check {NNODES.flag} N {NPROC_PER_NODE.flag} M "
                f"{NODE_RANK.flag} ${number} {MASTER_ADDR.flag} HOST`"
            )
    return ""


def refuse_jobset(env: Mapping[str, str]) -> None:
    """Raise UsageError in a pod that knows its number but not the number of pods."""
    counted = _WORLD in env or COUNT in env
    if _JOBSET in env and MASTER_ADDR.variables[0] in env and not counted:
        rank = f"${_RANK}" if _RANK in env else f"${_JOBSET}"
        raise UsageError(
            f"JobSet tells a pod its number and not how many there are: `distdoctor check {NNODES.flag} N "
            f"{NPROC_PER_NODE.flag} M {NODE_RANK.flag} {rank} {MASTER_ADDR.flag} ${MASTER_ADDR.variables[0]}`"
        )


def refuse_mpi_job(env: Mapping[str, str]) -> None:
    """Raise UsageError in a pod of an MPIJob in which mpirun has not started this process."""
    role = env.get(_MPI)
    if role and _RANK not in env:
        where = "this pod" if role == "launcher" else "the launcher's pod"
        raise UsageError(
            f"this is the {role}'s pod of an MPIJob, and mpirun did not start this: in {where} type "
            "`mpirun distdoctor check`"
        )

"""Operators of Kubernetes whose RANK and WORLD_SIZE count pods, or that start no rank in a pod themselves.

Volcano: pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go. PyTorchJob (training-operator 1.9):
pkg/controller.v1/pytorch/envvar.go. JobSet: examples/pytorch. MPI Operator: pkg/controller/mpi_job_controller.go.
TrainJob gives PET_* alone, which is torchrun's own; torchx starts torchrun. PAI-DLC: docs, "Built-in environment
variables". Indexed Jobs: Kubernetes docs, "Jobs", completion mode. Nomad: docs, "Runtime environment settings".
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch.counted import COUNT, RANKS
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    LOCAL_RANK,
    MASTER_ADDR,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    WORLD_SIZE,
)

_RANK, _WORLD = RANK.variables[0], WORLD_SIZE.variables[0]
_VOLCANO = ("VC_TASK_INDEX", "VK_TASK_INDEX")
_POD = "KUBERNETES_SERVICE_HOST"
"""Set in every pod, also without service links (kubernetes/pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap)."""
_JOBSET, _MPI = "JOB_COMPLETION_INDEX", "K_MPI_JOB_ROLE"
_NUMBERS = (("this pod", _JOBSET, _POD), ("this allocation of Nomad", "NOMAD_ALLOC_INDEX", "NOMAD_GROUP_NAME"))
"""What has a number among others, the variable, and another that must be there, too."""


def volcano(env: Mapping[str, str]) -> Launched | None:
    """A pod of several: one rank, unless it is told to start more."""
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
        {"nnodes": Found(pods, _WORLD), "nproc_per_node": Found(1, "Volcano's pods"), "local_rank": Found(0, _RANK)},
        note=f"Volcano's {_RANK} and {_WORLD} count pods: one rank in each was checked; where a pod starts more, add "
        f"{NPROC_PER_NODE.flag} N",
    )


def volcano_hosts(env: Mapping[str, str]) -> Launched | None:
    """A pod of several that are all of one task, with Volcano's plugin svc and without that for PyTorch."""
    tasks, number = _volcano_tasks(env), next((number_of(env[name]) for name in _VOLCANO if name in env), None)
    if _RANK in env or len(tasks) != 1 or number is None:
        return None
    ((source, hosts),) = tasks.items()
    if len(hosts) < 2 or number >= len(hosts):
        return None
    found = {
        "nnodes": Found(len(hosts), source),
        "node_rank": Found(number, _VOLCANO[0]),
        "master_addr": Found(hosts[0], source),
    }
    return Launched("Volcano", {}, found, (), hosts, per_node=True)


def refuse_volcano(env: Mapping[str, str]) -> None:
    """Raises UsageError in a pod of a job of several tasks, which knows its number in its task alone."""
    tasks = _volcano_tasks(env)
    if _RANK in env or len(tasks) < 2 or not any(name in env for name in _VOLCANO):
        return
    raise UsageError(
        f"Volcano tells a pod its number in its task, and this job has {len(tasks)} tasks: `distdoctor check "
        f"{NNODES.flag} {sum(map(len, tasks.values()))} {NPROC_PER_NODE.flag} M {NODE_RANK.flag} R {MASTER_ADDR.flag} "
        "HOST`, or give the job the plugin pytorch"
    )


def _volcano_tasks(env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The pods of each task, by the variable that lists them (pkg/controllers/job/plugins/svc/svc.go)."""
    names = (name for name in env if name.startswith("VC_") and name.endswith("_HOSTS"))
    return {name: tuple(filter(None, env[name].split(","))) for name in names}


def pytorch_job(env: Mapping[str, str]) -> Launched | None:
    """A pod of a PyTorchJob without nprocPerNode: WORLD_SIZE is pods times ranks of each, RANK the pod's number."""
    pods, world = number_of(env.get(NNODES.pet)), number_of(env.get(_WORLD))
    ranked = _RANK in env and NODE_RANK.pet in env and not any(name in env for name in LOCAL_RANK.variables)
    if _POD not in env or not pods or not world or world % pods or not ranked or env.get(NPROC_PER_NODE.pet):
        return None
    found = {"nproc_per_node": Found(world // pods, _WORLD)}
    return Launched("PyTorchJob", {}, found, (), per_node=True)


def counted_with_ranks(env: Mapping[str, str]) -> Launched | None:
    """A pod of PAI-DLC: RANK and WORLD_SIZE count pods, NPROC_PER_NODE the ranks that torchrun is to start in each."""
    pods, ranks, number = (number_of(env.get(name)) for name in (_WORLD, RANKS, _RANK))
    if _POD not in env or not pods or not ranks or ranks == 1 or number is None or number >= pods:
        return None
    if any(name in env for name in (*LOCAL_RANK.variables, *NPROC_PER_NODE.variables)):
        return None
    found = {
        "nnodes": Found(pods, _WORLD),
        "node_rank": Found(number, _RANK),
        "nproc_per_node": Found(ranks, RANKS),
    }
    note = (
        f"{RANKS} is set and {LOCAL_RANK.variables[0]} is not: {_RANK} and {_WORLD} were taken to count nodes, with "
        f"{ranks} ranks on each"
    )
    return Launched(RANKS, {}, found, (), per_node=True, note=note)


def index_note(env: Mapping[str, str]) -> str:
    """What is to be said in a pod of an Indexed Job, or in an allocation of Nomad's, which may be one of several."""
    for what, number, beside in _NUMBERS:
        if number_of(env.get(number)) is not None and beside in env:
            return (
                f"{what} has a number ({number}={env[number]}), and nothing says how many train together: this machine "
                f"alone was checked; for a job of several: `distdoctor check {NNODES.flag} N {NPROC_PER_NODE.flag} M "
                f"{NODE_RANK.flag} ${number} {MASTER_ADDR.flag} HOST`"
            )
    return ""


def refuse_jobset(env: Mapping[str, str]) -> None:
    """Raises UsageError in a pod that knows its number and not how many there are."""
    counted = _WORLD in env or COUNT in env
    if _JOBSET in env and MASTER_ADDR.variables[0] in env and not counted:
        rank = f"${_RANK}" if _RANK in env else f"${_JOBSET}"
        raise UsageError(
            f"JobSet tells a pod its number and not how many there are: `distdoctor check {NNODES.flag} N "
            f"{NPROC_PER_NODE.flag} M {NODE_RANK.flag} {rank} {MASTER_ADDR.flag} ${MASTER_ADDR.variables[0]}`"
        )


def refuse_mpi_job(env: Mapping[str, str]) -> None:
    """Raises UsageError in a pod of an MPIJob in which mpirun has not started this."""
    role = env.get(_MPI)
    if role and _RANK not in env:
        where = "this pod" if role == "launcher" else "the launcher's pod"
        raise UsageError(
            f"this is the {role}'s pod of an MPIJob, and mpirun did not start this: in {where} type "
            "`mpirun distdoctor check`"
        )

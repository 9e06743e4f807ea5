"""Platforms that tell each node of a job how many there are, which one it is, and at most where the first is.

AWS Batch: user guide, "Environment variables" of multi-node parallel jobs. RunPod: docs, Instant Clusters,
"Configuration reference". HTCondor: src/condor_starter.V6.1/parallel_proc.cpp. LeaderWorkerSet:
api/leaderworkerset/v1/leaderworkerset_types.go. Of the others, what public start scripts hand to torchrun: Google
Batch, Baseten, Beaker (gantry run --leader-selection), Volcengine (MLP_*), Merlin (ARNOLD_*), Lepton, NGC Base Command,
NSML (also its guide, "Using multiple nodes"), Tencent's Taiji and TI-ONE. DLRover:
dlrover/python/common/constants.py, NodeEnv. Metaflow: metaflow/plugins/parallel_decorator.py. MosaicML's platform:
composer/cli/launcher.py, which reads what that sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distdoctor.launch import jobs
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
    STANDALONE,
    WORLD_SIZE,
)


@dataclass(frozen=True)
class Counted:
    """The variables of one platform: how many nodes, this one's number, the first's address, ranks of each, a port."""

    name: str
    count: str
    number: str
    first: str = ""
    ranks: str = ""
    port: str = ""
    sign: str = ""
    """A variable that it alone sets, where the others have common names."""
    first_knows: bool = True
    """The first node is told its own address, too."""


PLATFORMS = (
    Counted(
        "AWS Batch",
        "AWS_BATCH_JOB_NUM_NODES",
        "AWS_BATCH_JOB_NODE_INDEX",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
        first_knows=False,
    ),
    Counted(
        "RunPod", "NUM_NODES", NODE_RANK.variables[0], MASTER_ADDR.variables[0], "NUM_TRAINERS", sign="PRIMARY_ADDR"
    ),
    Counted("Metaflow", "MF_PARALLEL_NUM_NODES", "MF_PARALLEL_NODE_INDEX", "MF_PARALLEL_MAIN_IP"),
    Counted("HTCondor", "_CONDOR_NPROCS", "_CONDOR_PROCNO"),
    Counted("LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"),
    Counted("Google Batch", "BATCH_NODE_COUNT", "BATCH_NODE_INDEX", "BATCH_MAIN_NODE_HOSTNAME"),
    Counted("Baseten", "BT_GROUP_SIZE", "BT_NODE_RANK", "BT_LEADER_ADDR", "BT_NUM_GPUS"),
    Counted(
        "Beaker",
        "BEAKER_REPLICA_COUNT",
        "BEAKER_REPLICA_RANK",
        "BEAKER_LEADER_REPLICA_HOSTNAME",
        sign="BEAKER_LEADER_REPLICA_HOSTNAME",  # without it, the replicas have nothing to do with each other
    ),
    Counted(
        "Volcengine", "MLP_WORKER_NUM", "MLP_ROLE_INDEX", "MLP_WORKER_0_HOST", "MLP_WORKER_GPU", "MLP_WORKER_0_PORT"
    ),
    Counted(
        "Merlin", "ARNOLD_WORKER_NUM", "ARNOLD_ID", "ARNOLD_WORKER_0_HOST", "ARNOLD_WORKER_GPU", "ARNOLD_WORKER_0_PORT"
    ),
    Counted("Lepton", "LEPTON_JOB_TOTAL_WORKERS", "LEPTON_JOB_WORKER_INDEX"),
    Counted("NSML", "NSML_WORLD_SIZE", "NSML_RANK", "NSML_HOST_RANK0"),
    Counted("NGC", "NGC_ARRAY_SIZE", "NGC_ARRAY_INDEX", "NGC_MASTER_ADDR", "NGC_GPUS_PER_NODE"),
    Counted("Taiji", "HOST_NUM", "INDEX", "CHIEF_IP", "HOST_GPU_NUM", sign="CHIEF_IP"),
    Counted("TI-ONE", "NODE_NUM", "INDEX", "CHIEF_IP", "GPU_NUM_PER_NODE", sign="CHIEF_IP"),
)
DLROVER = Counted("DLRover", "NODE_NUM", NODE_RANK.variables[0], sign="DLROVER_MASTER_ADDR")
"""Its RANK and WORLD_SIZE count nodes, too, until dlrover-run has started ranks."""
COUNT, RANKS = "NNODES", "NPROC_PER_NODE"
OTHERS = tuple(
    Counted(count, count, NODE_RANK.variables[0], MASTER_ADDR.variables[0], RANKS)
    for count in ("NUM_NODES", "NODE_COUNT")
)
"""What start scripts read and hand to torchrun as flags, as NODE_RANK; torchrun itself reads neither. LLaMA-Factory
(launcher.py), ms-swift, OpenMMLab (tools/dist_train.sh); NODE_COUNT: OCI Data Science (ads/jobs/templates/
driver_pytorch.py)."""


def detect(env: Mapping[str, str]) -> Launched | None:
    """One node of several. In the job of a scheduler on such a platform, that one is nearer."""
    if RANK.variables[0] in env or jobs.nodes(env)[0]:
        return None
    return next((found for platform in PLATFORMS if (found := _told(platform, env))), None)


def dlrover(env: Mapping[str, str]) -> Launched | None:
    """A node of several, in which dlrover-run has not started ranks."""
    return None if any(name in env for name in LOCAL_RANK.variables) else _told(DLROVER, env)


def by_script(env: Mapping[str, str]) -> Launched | None:
    """One node of several by the variables that start scripts share; its number, where it has one, is in NODE_RANK."""
    count, ranks = number_of(env.get(COUNT)), number_of(env.get(RANKS))
    if RANK.variables[0] in env:
        return None
    if not count or count < 2:
        return None if COUNT in env else next(filter(None, (_told(other, env) for other in OTHERS)), _by_ranks(env))
    found = {"nnodes": Found(count, COUNT), **({"nproc_per_node": Found(ranks, RANKS)} if ranks else {})}
    return Launched(COUNT, {}, found, (), per_node=True, rank0_unknown=_unknown(COUNT, count, NODE_RANK.variables[0]))


def _by_ranks(env: Mapping[str, str]) -> Launched | None:
    """One node of several by how many ranks there are, in all and on it, before a launcher of its own starts them."""
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
    found = {"nnodes": Found(count, f"{names[0]} and {names[1]}")}
    return Launched(
        names[1], {}, found, (), per_node=True, rank0_unknown=_unknown(names[1], count, names[2]), note=note
    )


def only_node(env: Mapping[str, str]) -> bool:
    """Whether this is the only node of a script that starts its ranks itself, by the variables that such scripts read.

    Raises UsageError where it may be one of several: told its node's number and where node 0 is, and not its own rank.
    So PyTorch Lightning's, which alone know how many nodes there are (lightning/fabric/plugins/environments/
    lightning.py); its guide for general clusters has WORLD_SIZE beside them.
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


def number_note(env: Mapping[str, str]) -> str:
    """What is to be said where this node has a number, not the first one's, and nothing tells how many there are."""
    number = number_of(env.get(NODE_RANK.variables[0]))
    if not number:
        return ""
    line = f"distdoctor check {NNODES.flag} N {NODE_RANK.flag} {number} {MASTER_ADDR.flag} HOST"
    return (
        f"{NODE_RANK.variables[0]} is {number}, and nothing says how many nodes there are: this machine alone was "
        f"checked; for a job of several: `{line}`"
    )


def _told(platform: Counted, env: Mapping[str, str]) -> Launched | None:
    count, number = number_of(env.get(platform.count)), number_of(env.get(platform.number))
    if (platform.sign and platform.sign not in env) or not count or count < 2 or number is None or number >= count:
        return None
    found = {"nnodes": Found(count, platform.count), "node_rank": Found(number, platform.number)}
    if ranks := number_of(env.get(platform.ranks)):
        found["nproc_per_node"] = Found(ranks, platform.ranks)
    if first := env.get(platform.first):
        found["master_addr"] = Found(first, platform.first)
    if port := number_of(env.get(platform.port, "").partition(",")[0]):  # there may be several: the first is used
        found["master_port"] = Found(port, platform.port)
    itself = number == 0 and not platform.first_knows
    unknown = "" if itself else _unknown(platform.name, count, platform.number)
    return Launched(platform.name, {}, found, (), per_node=True, rank0_unknown=unknown)


def _unknown(name: str, count: int, number: str) -> str:
    return (
        f"nothing tells the nodes where node 0 is ({name}): set {MASTER_ADDR.variables[0]}, or `distdoctor check "
        f"{NNODES.flag} {count} {NPROC_PER_NODE.flag} M {NODE_RANK.flag} ${number} {MASTER_ADDR.flag} HOST` (or add "
        f"{STANDALONE.flag} for this machine alone)"
    )

"""Platforms that run the same command once on every node of a job, and tell each which one it is.

SkyPilot: docs, "Distributed Multi-Node Jobs" (the first address is node 0's). dstack: docs, "Tasks", system environment
variables. SageMaker: sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md; where it starts torchrun or mpirun itself,
those are nearer. AWS Batch: user guide, "Environment variables" of multi-node parallel jobs. RunPod: docs, Instant
Clusters, "Configuration reference". HTCondor: src/condor_starter.V6.1/parallel_proc.cpp. Vertex AI: "Distributed
training", CLUSTER_SPEC.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import MAX_LENGTH, number_of
from distdoctor.model.launch_settings import MASTER_ADDR, NNODES, NODE_RANK, NPROC_PER_NODE, RANK

PLATFORMS = (
    # name, the nodes in the order of their ranks, this one: its number or its name
    ("SkyPilot", "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK"),
    ("dstack", "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"),
    ("SageMaker", "SM_HOSTS", "SM_CURRENT_HOST"),
)


@dataclass(frozen=True)
class Counted:
    """A platform that tells how many nodes there are and which this is, and names at most the first."""

    name: str
    count: str
    number: str
    first: str = ""
    ranks: str = ""
    sign: str = ""
    """A variable that it alone sets, where the others have common names."""


COUNTED = (
    Counted(
        "AWS Batch",
        "AWS_BATCH_JOB_NUM_NODES",
        "AWS_BATCH_JOB_NODE_INDEX",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
    ),
    Counted("RunPod", "NUM_NODES", NODE_RANK.variables[0], MASTER_ADDR.variables[0], "NUM_TRAINERS", "PRIMARY_ADDR"),
    Counted("HTCondor", "_CONDOR_NPROCS", "_CONDOR_PROCNO"),
)
VERTEX = "CLUSTER_SPEC"
_POOLS = ("workerpool0", "workerpool1")
"""The primary replica and the workers; further pools are servers and evaluators."""


def detect(env: Mapping[str, str]) -> Launched | None:
    """One node of several, on which nothing has started ranks yet."""
    if RANK.variables[0] in env:
        return None
    for name, listed, own in PLATFORMS:
        nodes, here = _names(env.get(listed, "")), env.get(own, "").strip()
        place = nodes.index(here) if here in nodes else number_of(here)
        if found := _listed(name, nodes, listed, place, own):
            return found
    for platform in COUNTED:
        if found := _counted(platform, env):
            return found
    return _vertex(env)


def _listed(name: str, nodes: tuple[str, ...], listed: str, place: int | None, own: str) -> Launched | None:
    """The node at ``place`` among ``nodes``; what says the one and the other."""
    if len(nodes) < 2 or place is None or place >= len(nodes):
        return None
    found = {
        "nnodes": Found(len(nodes), listed),
        "node_rank": Found(place, own),
        "master_addr": Found(nodes[0], listed),
    }
    return Launched(name, {}, found, (), nodes, per_node=True)


def _counted(platform: Counted, env: Mapping[str, str]) -> Launched | None:
    count, number = number_of(env.get(platform.count)), number_of(env.get(platform.number))
    if (platform.sign and platform.sign not in env) or not count or count < 2 or number is None or number >= count:
        return None
    found = {"nnodes": Found(count, platform.count), "node_rank": Found(number, platform.number)}
    if ranks := number_of(env.get(platform.ranks)):
        found["nproc_per_node"] = Found(ranks, platform.ranks)
    if first := env.get(platform.first):
        found["master_addr"] = Found(first, platform.first)
    unknown = (
        f"{platform.name} does not tell the nodes where node 0 is: `distdoctor check {NNODES.flag} {count} "
        f"{NPROC_PER_NODE.flag} M {NODE_RANK.flag} ${platform.number} {MASTER_ADDR.flag} HOST`"
    )
    return Launched(platform.name, {}, found, (), per_node=True, rank0_unknown="" if platform.first else unknown)


def _vertex(env: Mapping[str, str]) -> Launched | None:
    spec = _json(env.get(VERTEX, ""))
    cluster, task = (spec.get("cluster"), spec.get("task")) if isinstance(spec, dict) else (None, None)
    if not isinstance(cluster, dict) or not isinstance(task, dict) or task.get("type") not in _POOLS:
        return None
    pools = {pool: cluster.get(pool) for pool in _POOLS}
    first, rest = ([str(one) for one in pool] if isinstance(pool, list) else [] for pool in pools.values())
    index = number_of(str(task.get("index", "")))
    place = None if index is None else index + (len(first) if task["type"] == _POOLS[1] else 0)
    # HOST:PORT; the port is where a framework of its own may listen.
    nodes = tuple(one.rpartition(":")[0] or one for one in (*first, *rest))
    return _listed("Vertex AI", nodes, VERTEX, place, VERTEX)


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MAX_LENGTH else None
    except (ValueError, RecursionError):
        return None


def _names(text: str) -> tuple[str, ...]:
    """The names in a JSON list, or in lines."""
    if len(text) > MAX_LENGTH or not text.lstrip().startswith("["):
        return tuple(text.split()) if len(text) <= MAX_LENGTH else ()
    names = _json(text)
    return tuple(str(name) for name in names) if isinstance(names, list) else ()

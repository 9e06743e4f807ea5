"""Platforms that run the same command once on every node of a job, and tell each which one it is.

Here those that name the nodes; the others: ``distdoctor.launch.counted``. SkyPilot: docs, "Distributed Multi-Node Jobs"
(the first address is node 0's). dstack: docs, "Tasks", system environment variables. SageMaker:
sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md; where it starts torchrun or mpirun itself, those are nearer; an
image without the toolkit has the file alone (developer guide, "How Amazon SageMaker AI Provides Training Information").
Vertex AI: "Distributed training", CLUSTER_SPEC. OpenPAI: docs/manual/cluster-user, environment variables. Determined:
harness/determined/_info.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distdoctor.launch import counted
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import MAX_LENGTH, MAX_NODES, number_of
from distdoctor.model.launch_settings import RANK

PLATFORMS = (
    # name, the nodes in the order of their ranks, this one: its number or its name
    ("SkyPilot", "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK"),
    ("dstack", "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"),
    ("SageMaker", "SM_HOSTS", "SM_CURRENT_HOST"),
    ("Cloud TPU", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"),
)

VERTEX = "CLUSTER_SPEC"
_POOLS = ("workerpool0", "workerpool1")
"""The primary replica and the workers; further pools are servers and evaluators."""
FILES = (
    # name, a variable that says that it runs here, the file, the nodes in it, this one: its number or its name
    ("SageMaker", "TRAINING_JOB_ARN", Path("/opt/ml/input/config/resourceconfig.json"), "hosts", "current_host"),
    ("Determined", "DET_TASK_ID", Path("/run/determined/info/rendezvous.json"), "container_addrs", "container_rank"),
)


def detect(env: Mapping[str, str]) -> Launched | None:
    """One node of several, on which nothing has started ranks yet."""
    if RANK.variables[0] in env:
        return None
    for name, listed, own in PLATFORMS:
        nodes, here = _names(env.get(listed, "")), env.get(own, "").strip()
        place = nodes.index(here) if here in nodes else number_of(here)
        if found := _listed(name, nodes, listed, place, own):
            return found
    return counted.detect(env) or _vertex(env) or _openpai(env) or _by_file(env)


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


def _openpai(env: Mapping[str, str]) -> Launched | None:
    role = env.get("PAI_CURRENT_TASK_ROLE_NAME", "")
    count = f"PAI_TASK_ROLE_TASK_COUNT_{role}"
    tasks = min(number_of(env.get(count)) or 0, MAX_NODES)
    addresses = [env.get(f"PAI_HOST_IP_{role}_{place}", "") for place in range(tasks)]
    own = "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
    nodes = tuple(addresses) if all(addresses) else ()
    return _listed("OpenPAI", nodes, count, number_of(env.get(own)), own)


def _by_file(env: Mapping[str, str]) -> Launched | None:
    for name, sign, path, listed, own in FILES:
        if sign not in env:
            continue
        try:
            told = _json(path.read_text(errors="replace"))
        except OSError:
            continue
        nodes, here = (told.get(listed), told.get(own)) if isinstance(told, dict) else (None, None)
        names = tuple(map(str, nodes)) if isinstance(nodes, list) else ()
        place = names.index(here) if here in names else number_of(str(here))
        if found := _listed(name, names, str(path), place, str(path)):
            return found
    return None


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MAX_LENGTH else None
    except (ValueError, RecursionError):
        return None


def _names(text: str) -> tuple[str, ...]:
    """The names in a JSON list, in lines or between commas."""
    if len(text) > MAX_LENGTH or not text.lstrip().startswith("["):
        return tuple(text.replace(",", " ").split()) if len(text) <= MAX_LENGTH else ()
    names = _json(text)
    return tuple(str(name) for name in names) if isinstance(names, list) else ()

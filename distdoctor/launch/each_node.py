"""Platforms that run the same command once on every node of a job, and tell each which one it is.

Here those that name the nodes; the others: ``distdoctor.launch.counted``. SkyPilot: docs, "Distributed Multi-Node Jobs"
(the first address is node 0's). dstack: docs, "Tasks", system environment variables. SageMaker:
sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md; where it starts torchrun or mpirun itself, those are nearer; an
image without the toolkit has the file alone (developer guide, "How Amazon SageMaker AI Provides Training Information").
Vertex AI: "Distributed training", CLUSTER_SPEC; TF_CONFIG is the same with other names, which platforms set whatever
the framework (TensorFlow guide, "Distributed training"). OpenPAI: docs/manual/cluster-user, environment variables.
Determined: harness/determined/_info.py.
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

SPECS = (
    ("Vertex AI", "CLUSTER_SPEC", ("workerpool0", "workerpool1")),
    ("TF_CONFIG", "TF_CONFIG", ("chief", "master", "worker")),
)
"""Platform, its variable, and what the nodes that train are called in it, the first before the others."""
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
    return counted.detect(env) or _by_spec(env) or _openpai(env) or _by_file(env)


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


def _by_spec(env: Mapping[str, str]) -> Launched | None:
    for name, variable, roles in SPECS:
        spec = _json(env.get(variable, ""))
        cluster, task = (spec.get("cluster"), spec.get("task")) if isinstance(spec, dict) else (None, None)
        if not isinstance(cluster, dict) or not isinstance(task, dict) or task.get("type") not in roles:
            continue
        pools = {role: [str(one) for one in pool] for role in roles if isinstance(pool := cluster.get(role), list)}
        before = sum(len(pools.get(role, ())) for role in roles[: roles.index(task["type"])])
        index = number_of(str(task.get("index", "")))
        # HOST:PORT; the port is where a framework of its own may listen.
        nodes = tuple(one.rpartition(":")[0] or one for pool in pools.values() for one in pool)
        if found := _listed(name, nodes, variable, None if index is None else before + index, variable):
            return found
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

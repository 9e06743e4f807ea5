"""Platforms that run the same command once on every node of a job, and tell each which one it is.

SkyPilot: docs, "Distributed Multi-Node Jobs" (the first address is node 0's). dstack: docs, "Tasks", system environment
variables. SageMaker: sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md; where it starts torchrun or mpirun itself,
those are nearer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import MAX_LENGTH, number_of
from distdoctor.model.launch_settings import RANK

PLATFORMS = (
    # name, the nodes in the order of their ranks, this one: its number or its name
    ("SkyPilot", "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK"),
    ("dstack", "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"),
    ("SageMaker", "SM_HOSTS", "SM_CURRENT_HOST"),
)


def detect(env: Mapping[str, str]) -> Launched | None:
    """One node of several, on which nothing has started ranks yet."""
    if RANK.variables[0] in env:
        return None
    for name, listed, own in PLATFORMS:
        nodes, here = _names(env.get(listed, "")), env.get(own, "").strip()
        place = nodes.index(here) if here in nodes else number_of(here)
        if len(nodes) > 1 and place is not None and place < len(nodes):
            found = {
                "nnodes": Found(len(nodes), listed),
                "node_rank": Found(place, own),
                "master_addr": Found(nodes[0], listed),
            }
            return Launched(name, {}, found, (), nodes, per_node=True)
    return None


def _names(text: str) -> tuple[str, ...]:
    """The names in a JSON list, or in lines."""
    if len(text) > MAX_LENGTH or not text.lstrip().startswith("["):
        return tuple(text.split()) if len(text) <= MAX_LENGTH else ()
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(str(name) for name in names) if isinstance(names, list) else ()

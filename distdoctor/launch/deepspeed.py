"""DeepSpeed's launcher: torch's variables, and LOCAL_SIZE, CROSS_RANK, CROSS_SIZE (deepspeed/launcher/launch.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distdoctor.launch import env_variables, slurm
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.launch_settings import NODE_RANK, NPROC_PER_NODE, RANK

NAME = "DeepSpeed"
_NODES, _NODE, _LOCAL_SIZE = "CROSS_SIZE", "CROSS_RANK", "LOCAL_SIZE"


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank. The nodes may have different numbers of them."""
    if RANK.variables[0] not in env or _NODES not in env or _LOCAL_SIZE not in env:
        return None
    told = env_variables.told(env, NAME)
    nodes = number_of(env[_NODES])
    variables = {
        **told.variables,
        "nproc_per_node": (*NPROC_PER_NODE.variables, _LOCAL_SIZE),
        "node_rank": (_NODE, *NODE_RANK.variables),
    }
    found = {"nnodes": Found(nodes, _NODES)} if nodes else {}
    # Started once on each node by srun (--no_ssh), all of them share its output.
    task = RANK.variables[0] if slurm.in_step(env) else ""
    return replace(told, variables=variables, found=found, nodes_even=False, task=task)


def without(env: Mapping[str, str]) -> dict[str, str]:
    """The variables but for those that it alone sets."""
    return {name: value for name, value in env.items() if name not in (_NODES, _NODE, _LOCAL_SIZE)}

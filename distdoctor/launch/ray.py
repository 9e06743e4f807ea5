"""Ray Train's workers: the variables of torch, with the node's rank as NODE_RANK (ray/train/torch/config.py).

Other tasks and actors, of a placement group too, are told of the cluster, and not which of how many they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import env_variables
from distdoctor.launch.launched import Launched
from distdoctor.model.launch_settings import RANK, WORLD_SIZE

_DAEMON = "RAY_RAYLET_PID"
_INSIDE = ("RAY_JOB_ID", _DAEMON, "RAY_CLUSTER_NAME")
"""What its workers and the pods of its clusters have; RAY_ADDRESS may be that of a shell elsewhere."""
_SIGNS = ("RAY_ADDRESS", *_INSIDE)


def detect(env: Mapping[str, str]) -> Launched | None:
    """One worker."""
    ranked = RANK.variables[0] in env and WORLD_SIZE.variables[0] in env
    return env_variables.told(env, "Ray Train") if ranked and any(name in env for name in _SIGNS) else None


def nearest(env: Mapping[str, str]) -> Launched | None:
    """One worker by what Ray's own daemon gives the processes that it starts, whatever started that daemon."""
    return detect(env) if _DAEMON in env else None


def note(env: Mapping[str, str]) -> str:
    """What is to be said in a Ray cluster, which may have any number of nodes, outside of Ray Train's workers."""
    sign = next((name for name in _INSIDE if name in env), None)
    if sign is None or RANK.variables[0] in env:
        return ""
    return (
        f"this runs in a Ray cluster ({sign}), and nothing says how many train together: this machine alone was "
        "checked; a job of several: call `distdoctor.preflight()` in each worker, once it has its rank"
    )

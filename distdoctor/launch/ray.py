"""Ray Train's workers: the variables of torch, with the node's rank as NODE_RANK (ray/train/torch/config.py)."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import env_variables
from distdoctor.launch.launched import Launched
from distdoctor.model.launch_settings import RANK, WORLD_SIZE

_SIGNS = ("RAY_ADDRESS", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_CLUSTER_NAME")


def detect(env: Mapping[str, str]) -> Launched | None:
    """One worker."""
    ranked = RANK.variables[0] in env and WORLD_SIZE.variables[0] in env
    return env_variables.told(env, "Ray Train") if ranked and any(name in env for name in _SIGNS) else None

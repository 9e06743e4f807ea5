"""Ranks that torchrun's agent started (also torch.distributed.launch, and what is built on it)."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import env_variables
from distdoctor.launch.launched import Launched
from distdoctor.model.launch_settings import RANK


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of the agent's, whose own PET_* variables it inherits: these say nothing of it."""
    started = env_variables.RUN_ID in env and RANK.variables[0] in env
    return env_variables.told(env, "torchrun") if started else None

"""Ranks that torchrun's agent started (also torch.distributed.launch, and what is built on it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distdoctor.launch import env_variables, slurm
from distdoctor.launch.launched import Launched
from distdoctor.model.launch_settings import RANK


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of the agent's, whose own PET_* variables it inherits: these say nothing of it."""
    rank = RANK.variables[0]
    if env_variables.RUN_ID not in env or rank not in env:
        return None
    told = env_variables.told(env, "torchrun")
    # The agents of srun's tasks share its output.
    return replace(told, task=rank) if slurm.in_step(env) else told

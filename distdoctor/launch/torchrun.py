"""Ranks that torchrun's agent started (also torch.distributed.launch, and what is built on it)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from distdoctor.launch import env_variables, slurm, torchrun_line
from distdoctor.launch.launched import Launched
from distdoctor.launch.nodes import number_of, repeated
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    LAUNCH_VARIABLES,
    LOCAL_RANK,
    NPROC_PER_NODE,
    RANK,
    RDZV_ENDPOINT,
    STANDALONE,
)
from distdoctor.model.launch_variables import RUN_ID

AGENTS = ("torch.distributed.run", "torch.distributed.launch")
"""The modules that are its agent."""
TORCHRUN, ACCELERATE = "torchrun", "accelerate launch"
OF_ACCELERATE = ("accelerate", "accelerate-launch", "accelerate.commands.launch")
"""It runs that agent in its own process."""
ANCESTORS = 5
"""Shells and wrappers between the agent and this process, at most."""
_LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
"""Where torchft's replica groups meet: each of them is a job of its own for torchrun (torchft, README)."""
_OF_AGENT = ("TORCHELASTIC_", "GROUP_", "ROLE_")
_OF_A_RANK = (*LAUNCH_VARIABLES, *LOCAL_RANK.variables, *NPROC_PER_NODE.variables)


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of the agent's, whose own PET_* variables it inherits: these say nothing of it."""
    rank = RANK.variables[0]
    if RUN_ID not in env or rank not in env:
        return None
    _refuse_agents_too_many(env)
    told = env_variables.told(env, "torchrun")
    # The agents of srun's tasks share its output.
    return replace(told, task=rank) if slurm.in_step(env) else told


def agent_of_one_node(env: Mapping[str, str]) -> str:
    """What started the agent of this rank, where its job is one node and it was not told to be alone; else empty.

    By the agent's own line; where that cannot be read, by the name of the run: --standalone makes one up, as does no
    --nnodes since torch 2.13 (torch/distributed/run.py).
    """
    if RUN_ID not in env or env.get("GROUP_WORLD_SIZE", "1") != "1" or env.get(STANDALONE.pet):
        return ""
    if env.get(_LIGHTHOUSE):
        return ""
    name, given = agent_above(os.getppid())
    here = given.get(RDZV_ENDPOINT.flag, "").startswith(("localhost", "127."))
    if name:
        return "" if STANDALONE.flag in given or here else name
    return TORCHRUN if env[RUN_ID] == "none" else ""


def agent_above(pid: int, proc: Path = Path("/proc")) -> tuple[str, dict[str, str]]:
    """The nearest torchrun or ``accelerate launch`` from this process on upwards, and torchrun's options; empty where
    there is none, or it cannot be read."""
    for _ in range(ANCESTORS):
        try:
            words = (proc / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            parent = re.search(r"^PPid:\s*(\d+)", (proc / str(pid) / "status").read_text(errors="replace"), re.M)
        except OSError:
            break
        for place, word in enumerate(words[:12]):
            if Path(word).name == TORCHRUN or word in AGENTS:
                return TORCHRUN, torchrun_line.options(words[place + 1 :])
            if Path(word).name in OF_ACCELERATE:
                return ACCELERATE, {}
        pid = int(parent[1]) if parent else 0
    return "", {}


def without_agent(env: Mapping[str, str]) -> dict[str, str]:
    """The variables but for those that the agent sets for a rank (torch/distributed/elastic/agent/server/
    local_elastic_agent.py)."""
    return {name: value for name, value in env.items() if name not in _OF_A_RANK and not name.startswith(_OF_AGENT)}


def _refuse_agents_too_many(env: Mapping[str, str]) -> None:
    """Raises UsageError where srun started several torchruns on a node, more than the job has: some of them are the
    job, on whichever nodes, and the others wait for it to end."""
    tasks, agents = repeated(env.get(NPROC_PER_NODE.slurm, "")), number_of(env.get("GROUP_WORLD_SIZE"))
    if slurm.in_step(env) and agents and max(tasks, default=1) > 1 and sum(tasks) > agents:
        raise UsageError(
            f"srun started torchrun {sum(tasks)} times, several times on a node, and the job has {agents} nodes: give "
            "srun --ntasks-per-node=1; torchrun starts the ranks of its node itself"
        )

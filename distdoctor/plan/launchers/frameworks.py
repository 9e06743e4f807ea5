"""Ranks that torchrun's agent started (also torch.distributed.launch, and what is built on it)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    LAUNCH_VARIABLES,
    LOCAL_RANK,
    MASTER_ADDR,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    RDZV_ENDPOINT,
    STANDALONE,
    WORLD_SIZE,
    Setting,
)
from distdoctor.model.launch_variables import RUN_ID
from distdoctor.plan import torchrun
from distdoctor.plan.launchers import base, schedulers
from distdoctor.plan.launchers.base import DerivedValue, Launched, RankVariables
from distdoctor.plan.syntax import number_of, repeated

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


def detect_torchrun(env: Mapping[str, str]) -> Launched | None:
    """One rank of the agent's, whose own PET_* variables it inherits: these say nothing of it."""
    rank = RANK.variables[0]
    if RUN_ID not in env or rank not in env:
        return None
    _refuse_agents_too_many(env)
    told = base.job_environment(env, "torchrun")
    # The agents of srun's tasks share its output.
    return replace(told, task=rank) if schedulers.in_slurm_step(env) else told


def agent_of_one_node(env: Mapping[str, str]) -> str:
    """Return what started the agent of this rank, where its job is one node and it was not told to be alone; else
    empty.

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
                return TORCHRUN, torchrun.torchrun_options(words[place + 1 :])
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
    if schedulers.in_slurm_step(env) and agents and max(tasks, default=1) > 1 and sum(tasks) > agents:
        raise UsageError(
            f"srun started torchrun {sum(tasks)} times, several times on a node, and the job has {agents} nodes: give "
            "srun --ntasks-per-node=1; torchrun starts the ranks of its node itself"
        )


# DeepSpeed's launcher: torch's variables, and LOCAL_SIZE, CROSS_RANK, CROSS_SIZE (deepspeed/launcher/launch.py).


DEEPSPEED_NAME = "DeepSpeed"
_NODES, _NODE, _LOCAL_SIZE = "CROSS_SIZE", "CROSS_RANK", "LOCAL_SIZE"


def detect_deepspeed(env: Mapping[str, str]) -> Launched | None:
    """One rank. The nodes may have different numbers of them."""
    if RANK.variables[0] not in env or _NODES not in env or _LOCAL_SIZE not in env:
        return None
    told = base.job_environment(env, DEEPSPEED_NAME)
    nodes = number_of(env[_NODES])
    variables = {
        **told.variables,
        "nproc_per_node": (*NPROC_PER_NODE.variables, _LOCAL_SIZE),
        "node_rank": (_NODE, *NODE_RANK.variables),
    }
    found = {"nnodes": DerivedValue(nodes, _NODES)} if nodes else {}
    # Started once on each node by srun (--no_ssh), all of them share its output.
    task = RANK.variables[0] if schedulers.in_slurm_step(env) else ""
    return replace(told, variables=variables, found=found, nodes_even=False, task=task)


def without_deepspeed(env: Mapping[str, str]) -> dict[str, str]:
    """The variables but for those that it alone sets."""
    return {name: value for name, value in env.items() if name not in (_NODES, _NODE, _LOCAL_SIZE)}


# accelerate launch: torchrun's agent, mpirun, or (for one process) neither (accelerate/utils/launch.py).
#
# For several processes without --multi_gpu (or --mpirun_hostfile on CPUs) it starts one all the same, with
# MASTER_ADDR
# and MASTER_PORT and no rank.


_ACCELERATE_SIGNS = ("ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION")


def refuse_accelerate_without_ranks(env: Mapping[str, str]) -> None:
    """Raises UsageError where accelerate was asked for several processes and has started one."""
    if (
        RANK.variables[0] in env
        or MASTER_ADDR.variables[0] not in env
        or not all(name in env for name in _ACCELERATE_SIGNS)
    ):
        return
    raise UsageError(
        "accelerate was asked for several processes and has started one, without a rank: add --multi_gpu, or on CPUs "
        "--mpirun_hostfile FILE, to accelerate launch"
    )


# Ray Train's workers: the variables of torch, with the node's rank as NODE_RANK (ray/train/torch/config.py).
#
# Other tasks and actors, of a placement group too, are told of the cluster, and not which of how many they are.


_DAEMON = "RAY_RAYLET_PID"
_INSIDE = ("RAY_JOB_ID", _DAEMON, "RAY_CLUSTER_NAME")
"""What its workers and the pods of its clusters have; RAY_ADDRESS may be that of a shell elsewhere."""
_RAY_SIGNS = ("RAY_ADDRESS", *_INSIDE)


def detect_ray(env: Mapping[str, str]) -> Launched | None:
    """One worker."""
    ranked = RANK.variables[0] in env and WORLD_SIZE.variables[0] in env
    return base.job_environment(env, "Ray Train") if ranked and any(name in env for name in _RAY_SIGNS) else None


def nearest_ray(env: Mapping[str, str]) -> Launched | None:
    """One worker by what Ray's own daemon gives the processes that it starts, whatever started that daemon."""
    return detect_ray(env) if _DAEMON in env else None


def ray_note(env: Mapping[str, str]) -> str:
    """Return what is to be said in a Ray cluster, which may have any number of nodes, outside of Ray Train's
    workers."""
    sign = next((name for name in _INSIDE if name in env), None)
    if sign is None or RANK.variables[0] in env:
        return ""
    return (
        f"this runs in a Ray cluster ({sign}), and nothing says how many train together: this machine alone was "
        "checked; a job of several: call `distdoctor.preflight()` in each worker, once it has its rank"
    )


# submitit's local executor: as many processes on this host as it is told, each with a number
# (submitit/local/local.py).
#
# Its executor for SLURM starts them with srun.


RANKS = RankVariables(
    "SUBMITIT_LOCAL_GLOBALID",
    "SUBMITIT_LOCAL_NTASKS",
    "SUBMITIT_LOCAL_LOCALID",
    "SUBMITIT_LOCAL_NTASKS",  # all of them are here
    "export {}={}",
)


def detect_submitit(env: Mapping[str, str]) -> Launched | None:
    """One process of several."""
    return RANKS.launched("submitit", RANKS.placed(env)) if RANKS.one_of_several(env) else None


# Ranks that a process of a launcher has started itself: torch.multiprocessing.spawn, composer, DeepSpeed of old.
#
# They inherit what srun or mpirun told their parent: their number and that of the tasks on the node are not theirs,
# and
# what torch reads (RANK, WORLD_SIZE) is.


def spawned_below(launched: Launched, env: Mapping[str, str]) -> Launched | None:
    """The same process as such a rank, where its variables fit no task of the launcher; None where they do."""
    if launched.per_node or not all(name in env for name in (*RANK.variables, *WORLD_SIZE.variables)):
        return None
    tasks, task = _own(launched, env, WORLD_SIZE), _own(launched, env, RANK)
    if tasks is None or task is None:
        return None
    found = launched.found.get("nproc_per_node")
    here = int(found.value) if found is not None else _own(launched, env, NPROC_PER_NODE)
    rank, world = number_of(env[RANK.variables[0]]), number_of(env[WORLD_SIZE.variables[0]])
    local = number_of(env.get(LOCAL_RANK.variables[0]))
    more_here = (number_of(env.get(NPROC_PER_NODE.variables[0])) or 0) > (here or tasks)
    more = local is not None and (world or 0) > tasks
    another = local is not None and here is not None and local >= here and rank != task
    if not (more_here or more or another):
        return None
    return replace(base.job_environment(env, base.LAUNCHER), task=RANK.variables[0], spawned=True)


def _own(launched: Launched, env: Mapping[str, str], setting: Setting) -> int | None:
    """Return what the launcher says in a variable of its own, which comes after torch's."""
    names = [name for name in launched.variables.get(setting.name, ()) if name not in setting.variables]
    return number_of(env.get(names[-1])) if names else None

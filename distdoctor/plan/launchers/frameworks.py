"""Launchers of frameworks: torchrun's agent and what is built on it, DeepSpeed, accelerate, Ray Train, submitit."""

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
from distdoctor.plan.launchers.base import DerivedValue, Launched, LauncherRanks
from distdoctor.plan.syntax import number_of, repeated

AGENTS = ("torch.distributed.run", "torch.distributed.launch")
"""Modules that are torchrun's agent."""
TORCHRUN, ACCELERATE = "torchrun", "accelerate launch"
OF_ACCELERATE = ("accelerate", "accelerate-launch", "accelerate.commands.launch")
"""Commands that run that agent in their own process."""
ANCESTORS = 5
"""Limit of the shells and wrappers between the agent and this process."""
_LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
"""Address of torchft's lighthouse: each of its replica groups is a job of its own for torchrun (torchft, README)."""
_OF_AGENT = ("TORCHELASTIC_", "GROUP_", "ROLE_")
_OF_A_RANK = (*LAUNCH_VARIABLES, *LOCAL_RANK.variables, *NPROC_PER_NODE.variables)


def detect_torchrun(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of the agent, whose own PET_* variables it inherits: these say nothing of the rank."""
    rank = RANK.variables[0]
    if RUN_ID not in env or rank not in env:
        return None
    _refuse_agents_too_many(env)
    launched = base.job_environment(env, "torchrun")
    # The agents of srun's tasks share its output.
    return replace(launched, task=rank) if schedulers.in_slurm_step(env) else launched


def agent_of_one_node(env: Mapping[str, str]) -> str:
    """Return the command of this rank's agent, if its job is one node without --standalone; else empty.

    By the agent's own command line; if that is unreadable, by the name of the run: --standalone makes one up, as does
    no --nnodes since torch 2.13 (torch/distributed/run.py).
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
    """Return the nearest torchrun or ``accelerate launch`` from this process on upwards, and torchrun's options; empty
    if there is none, or it is unreadable."""
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
    """Return the variables without those that the agent sets for a rank
    (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
    return {name: value for name, value in env.items() if name not in _OF_A_RANK and not name.startswith(_OF_AGENT)}


def _refuse_agents_too_many(env: Mapping[str, str]) -> None:
    """Raise UsageError if srun started more torchruns on a node than the job has nodes: some of them are the job, on
    whichever nodes, and the others wait for it to end."""
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
    """Detect one rank. The nodes may have different numbers of ranks."""
    if RANK.variables[0] not in env or _NODES not in env or _LOCAL_SIZE not in env:
        return None
    launched = base.job_environment(env, DEEPSPEED_NAME)
    nodes = number_of(env[_NODES])
    variables = {
        **launched.variables,
        "nproc_per_node": (*NPROC_PER_NODE.variables, _LOCAL_SIZE),
        "node_rank": (_NODE, *NODE_RANK.variables),
    }
    derived = {"nnodes": DerivedValue(nodes, _NODES)} if nodes else {}
    # If srun starts it once on each node (--no_ssh), all ranks share srun's output.
    task = RANK.variables[0] if schedulers.in_slurm_step(env) else ""
    return replace(launched, variables=variables, found=derived, nodes_even=False, task=task)


def without_deepspeed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that only DeepSpeed sets."""
    return {name: value for name, value in env.items() if name not in (_NODES, _NODE, _LOCAL_SIZE)}


# accelerate launch: torchrun's agent, mpirun, or (for one process) neither (accelerate/utils/launch.py).
#
# For several processes without --multi_gpu (or --mpirun_hostfile on CPUs) it starts one all the same, with MASTER_ADDR
# and MASTER_PORT and no rank.


_ACCELERATE_SIGNS = ("ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION")


def refuse_accelerate_without_ranks(env: Mapping[str, str]) -> None:
    """Raise UsageError if accelerate was asked for several processes and has started one."""
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
# Other tasks and actors, of a placement group too, know the cluster, but not their number among how many.


_DAEMON = "RAY_RAYLET_PID"
_INSIDE = ("RAY_JOB_ID", _DAEMON, "RAY_CLUSTER_NAME")
"""Variables of its workers and of the pods of its clusters; RAY_ADDRESS may be that of a shell elsewhere."""
_RAY_SIGNS = ("RAY_ADDRESS", *_INSIDE)


def detect_ray(env: Mapping[str, str]) -> Launched | None:
    """Detect one worker."""
    ranked = RANK.variables[0] in env and WORLD_SIZE.variables[0] in env
    return base.job_environment(env, "Ray Train") if ranked and any(name in env for name in _RAY_SIGNS) else None


def nearest_ray(env: Mapping[str, str]) -> Launched | None:
    """Detect one worker by what Ray's own daemon gives the processes that it starts, whatever started that daemon."""
    return detect_ray(env) if _DAEMON in env else None


def ray_note(env: Mapping[str, str]) -> str:
    """Return the note for a process in a Ray cluster, of any number of nodes, outside of Ray Train's workers."""
    sign = next((name for name in _INSIDE if name in env), None)
    if sign is None or RANK.variables[0] in env:
        return ""
    return (
        f"this runs in a Ray cluster ({sign}), and nothing says how many train together: this machine alone was "
        "checked; a job of several: call `distdoctor.preflight()` in each worker, once it has its rank"
    )


# submitit's local executor: numbered processes on this host (submitit/local/local.py).
#
# Its executor for SLURM starts them with srun.


RANKS = LauncherRanks(
    "SUBMITIT_LOCAL_GLOBALID",
    "SUBMITIT_LOCAL_NTASKS",
    "SUBMITIT_LOCAL_LOCALID",
    "SUBMITIT_LOCAL_NTASKS",  # all of them are on this host
    "export {}={}",
)


def detect_submitit(env: Mapping[str, str]) -> Launched | None:
    """Detect one process of several."""
    return RANKS.launched("submitit", RANKS.placed(env)) if RANKS.one_of_several(env) else None


# Ranks that a launched process started itself: torch.multiprocessing.spawn, composer, old DeepSpeed.
#
# They inherit the variables of srun or mpirun for their parent: its number and the number of tasks on the node are not
# theirs, but RANK and WORLD_SIZE, which torch reads, are.


def spawned_below(launched: Launched, env: Mapping[str, str]) -> Launched | None:
    """Return ``launched`` as such a rank, if its variables fit no task of the launcher; else None."""
    if launched.per_node or not all(name in env for name in (*RANK.variables, *WORLD_SIZE.variables)):
        return None
    tasks, task = _own(launched, env, WORLD_SIZE), _own(launched, env, RANK)
    if tasks is None or task is None:
        return None
    per_node = launched.found.get("nproc_per_node")
    here = int(per_node.value) if per_node is not None else _own(launched, env, NPROC_PER_NODE)
    rank, world = number_of(env[RANK.variables[0]]), number_of(env[WORLD_SIZE.variables[0]])
    local = number_of(env.get(LOCAL_RANK.variables[0]))
    more_here = (number_of(env.get(NPROC_PER_NODE.variables[0])) or 0) > (here or tasks)
    more = local is not None and (world or 0) > tasks
    another = local is not None and here is not None and local >= here and rank != task
    if not (more_here or more or another):
        return None
    return replace(base.job_environment(env, base.LAUNCHER), task=RANK.variables[0], spawned=True)


def _own(launched: Launched, env: Mapping[str, str], setting: Setting) -> int | None:
    """Return the launcher's own variable for the setting, which counts after torch's."""
    names = [name for name in launched.variables.get(setting.name, ()) if name not in setting.variables]
    return number_of(env.get(names[-1])) if names else None

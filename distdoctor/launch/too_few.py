"""A job line that wants more nodes than its launcher started, or has: said before the job starts and hangs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distdoctor.launch import hydra, openmpi, slurm
from distdoctor.launch.nodes import number_of
from distdoctor.model.launch_settings import NNODES
from distdoctor.model.launch_variables import SLURM_JOB

_ALLOCATED = "SLURM_JOB_NUM_NODES"
_MORE_JOBS = ("SLURM_ARRAY_JOB_ID", "SLURM_HET_SIZE")
"""With one of them the nodes of other allocations may join."""


@dataclass(frozen=True)
class Started:
    """The most nodes that can join, and who started them."""

    nodes: int
    who: str
    what: str = "nodes"
    more: str = ""
    """How to start more of them."""


def contradiction(flags: Sequence[str], before: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the line that says how many nodes will never join, and the fix; empty where nothing is contradicted.

    ``flags``: those of the check with the job's plan; ``before``: srun with its options where the line begins with it.
    """
    given = next((one.partition("=")[2] for one in flags if one.startswith(f"{NNODES.flag}=")), "")
    least, most = (number_of(part) for part in (given.partition(":")[0], given.rpartition(":")[2]))
    if least is None or most is None or most < 2:
        return ""
    started = _started(before, env)
    if started is not None and started.nodes < least:
        missing, nodes = least - started.nodes, started.nodes
        will = f"{missing} node{'s' if missing > 1 else ''} will never join"
        fix = f"--nnodes {nodes}" if nodes > 1 else "--standalone in place of --nnodes"
        return (
            f"{started.who} {nodes} {started.what}; --nnodes is {given}: {will}. "
            f"Fix: start the job with {fix}, or {started.more.format(least)}"
        )
    return _too_many_agents(most, given, env)


def _started(before: Sequence[str], env: Mapping[str, str]) -> Started | None:
    for name, ranks, more in (
        ("mpirun", openmpi.RANKS, "start {} processes: mpirun -np {} -N 1"),
        ("mpiexec", hydra.RANKS, "start {} processes: mpiexec -n {} -ppn 1"),
    ):
        if (
            not before
            and ranks.one_of_several(env)
            and ranks.local_rank in env
            and (size := number_of(env[ranks.size]))
        ):
            return Started(size, f"{name} started", "processes", more.replace("{}", "{0}"))
    if any(name in env for name in _MORE_JOBS):
        return None
    allocated = number_of(env.get(_ALLOCATED))
    tasks = number_of(env.get(slurm.TASKS)) if slurm.in_step(env) and not before else None
    asked = _asked(before) if before and SLURM_JOB not in env else None
    most = max(filter(None, (allocated, tasks, asked)), default=0)
    if most < 2:  # a job of one node may be one of several that meet
        return None
    who = "SLURM started" if tasks or asked else "SLURM allocated"
    return Started(most, who, "nodes", "ask SLURM for {0} nodes: -N{0}")


def _asked(before: Sequence[str]) -> int | None:
    """The most nodes that srun's own options ask for."""
    text = " ".join(before[1:])
    found = re.search(r"(?:^|\s)(?:-N\s*|--nodes[=\s])(?:\d+-)?(\d+)(?:\s|$)", text)
    return int(found[1]) if found else None


def _too_many_agents(most: int, given: str, env: Mapping[str, str]) -> str:
    """What is said where srun started several torchruns on a node, more than the job has nodes."""
    tasks = number_of(env.get(slurm.TASKS)) if slurm.in_step(env) else None
    nodes = number_of(env.get(NNODES.slurm or ""))
    if tasks is None or nodes is None or tasks <= most or tasks <= nodes:
        return ""
    return (
        f"SLURM started {tasks} tasks on {nodes} nodes, each with a torchrun of its own; --nnodes is {given}: "
        f"{tasks - most} of them will never join. Fix: give srun --ntasks-per-node=1 (torchrun starts the ranks of its "
        "node by --nproc-per-node)"
    )

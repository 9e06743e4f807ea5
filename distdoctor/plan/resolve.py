"""Resolution of the plan from a command line and an environment.

torchrun's flags come first, then its PET_* variables, then the variables that a launcher sets for each rank, then
torchrun's defaults (``torch/distributed/run.py`` and ``argparse_util.py`` say which). A variable that is missing or
makes no sense becomes a :class:`PlanProblem`, which is a fact for the checks; a flag that makes none is a
:class:`UsageError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from distdoctor.model import device_mesh
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    BACKEND,
    GROUPS,
    INIT_METHOD,
    MASTER_ADDR,
    MESH,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    WORLD_SIZE,
)
from distdoctor.model.plan import BACKENDS, Plan
from distdoctor.plan.launchers import ancestry, base, frameworks, mpi, platforms, schedulers
from distdoctor.plan.launchers.base import Launched
from distdoctor.plan.per_node import once_on_each_node, plan_of_node
from distdoctor.plan.per_rank import plan_of_rank
from distdoctor.plan.syntax import number_of
from distdoctor.plan.values import Flags, Values

LAUNCHERS: tuple[Callable[[Mapping[str, str]], Launched | None], ...] = (
    frameworks.detect_deepspeed,
    frameworks.nearest_ray,
    schedulers.detect_lsf,
    mpi.detect_openmpi,
    mpi.detect_hydra,
    mpi.detect_mvapich,
    mpi.detect_horovod,
    schedulers.detect_slurm,
    mpi.detect_pmi,
    schedulers.detect_pbs,
    schedulers.in_slurm_prolog,
    frameworks.detect_ray,
    platforms.volcano,
    platforms.volcano_hosts,
    platforms.pytorch_job,
    platforms.detect_pai_dlc,
    platforms.dlrover,
    platforms.detect_node_platform,
    frameworks.detect_submitit,
)
"""Launchers in the order in which they are tried, the nearest first.

A launcher that another one starts on each node, with variables of its own, is nearer, as are the workers of Ray's own
daemon; jsrun's tasks have OMPI_*, under mpirun in a SLURM job every rank has SLURM_PROCID 0, and `srun --mpi=pmi2` sets
PMI_RANK.
"""
OF_EACH_NODE = (frameworks.DEEPSPEED_NAME, mpi.HOROVOD_NAME)
"""Launchers that, like torchrun, take one node for the whole job unless they have a list of others."""
REFUSALS = (
    schedulers.refuse_outside_slurm_step,
    schedulers.refuse_outside_pbs,
    schedulers.refuse_outside_lsf,
    schedulers.refuse_outside_sge,
    schedulers.refuse_outside_oar,
    schedulers.refuse_outside_pjm,
    frameworks.refuse_accelerate_without_ranks,
    platforms.refuse_volcano,
    platforms.refuse_jobset,
    platforms.refuse_mpi_job,
    ancestry.refuse_hidden_launcher,
    mpi.refuse_rank_without_size,
)
AROUND = (
    schedulers.refuse_outside_slurm_step,
    schedulers.refuse_outside_pbs,
    schedulers.refuse_outside_lsf,
    schedulers.refuse_outside_sge,
    schedulers.refuse_outside_oar,
    schedulers.refuse_outside_pjm,
    platforms.refuse_volcano,
    platforms.refuse_mpi_job,
)
"""Refusals that show a job of several nodes, whatever starts torchrun in it."""
TRIED = ("gloo", "nccl")
"""Backends whose groups the check makes. NCCL's name is that of RCCL, too."""
NOTES = (
    ancestry.step_note,
    mpi.shell_note,
    platforms.index_note,
    base.unread_note,
    platforms.platform_number_note,
    frameworks.ray_note,
)
"""Notes on a machine that is checked alone, and may be one of several."""


def resolve(flags: Flags, env: Mapping[str, str], count_gpus: Callable[[], int], count_cpus: Callable[[], int]) -> Plan:
    """Return the plan for these flags and variables.

    ``count_gpus`` and ``count_cpus`` return this node's visible devices and processors; they run only if the plan
    depends on them. Raise UsageError for flags that make no plan.
    """
    from_query = _in_init_method(flags)
    env = {**env, **from_query}
    values = Values(flags, env)
    backend = _backend(values)
    launched = launched_as(flags, env)
    if launched is not None and not launched.per_node:
        plan = plan_of_rank(values, launched, backend)
    else:
        plan = plan_of_node(values, backend, count_gpus, count_cpus, launched)
    if launched is None and plan.nnodes == 1 and not flags.standalone:
        notes = (note(env) for note in NOTES)
        plan = replace(plan, note=next(filter(None, notes), ""))
    if launched is None and (unread := _unread_master(plan, flags, values.sources)):
        plan = replace(plan, note=unread)
    if launched is not None and plan.one_node:
        agent = launched.launcher if launched.launcher in OF_EACH_NODE else frameworks.agent_of_one_node(env)
        if agent:
            plan = replace(plan, **_agents_around(env, agent))
        elif plan.world_size == 1 or launched.spawned:
            plan = replace(plan, beside=_more_ranks(env, launched))
    sources = {name: INIT_METHOD.flag if source in from_query else source for name, source in values.sources.items()}
    if others := [name for name in plan.backends(gpus=True) if name not in TRIED]:
        untried = f"the check makes no groups of {' or '.join(others)}: those of the job are untried"
        plan = replace(plan, note="; ".join(filter(None, (plan.note, untried))))
    return replace(plan, sources=sources, problems=tuple(values.problems), **_groups(flags, sources))


def _groups(flags: Flags, sources: dict[str, str]) -> dict[str, Any]:
    """Return ``mesh`` and ``groups`` of the plan, and note their sources. Raise UsageError."""
    given: dict[str, Any] = {}
    if flags.mesh is not None:
        given["mesh"] = device_mesh.parse_mesh(flags.mesh)
        if given["mesh"] is None:
            raise UsageError(
                f"{MESH.flag} {flags.mesh!r} is not a list of dimensions with their sizes, each name once, such as "
                "dp=2,tp=4"
            )
    if flags.groups is not None:
        if not 0 <= flags.groups <= device_mesh.MOST_GROUPS:
            raise UsageError(f"{GROUPS.flag} {flags.groups} is not a number from 0 to {device_mesh.MOST_GROUPS}")
        given["groups"] = flags.groups
    sources.update({name: f"--{name}" for name in given})
    return given


def _in_init_method(flags: Flags) -> dict[str, str]:
    """Return the rank and the number of ranks behind the ``?`` of an init method, as variables: torch reads them there
    before any other (torch/distributed/rendezvous.py, _query_to_dict())."""
    method = flags.init_method or ""
    query = dict(pair.partition("=")[::2] for pair in method.partition("?")[2].split("&"))
    from_query = {
        variables.variables[0]: query[variables.name] for variables in (RANK, WORLD_SIZE) if variables.name in query
    }
    if len(from_query) == 1 and not method.startswith("env://"):
        raise UsageError(
            f"{INIT_METHOD.flag} {method!r} has one of rank and world_size behind its ?: torch wants both there, or "
            "neither"
        )
    return from_query


def _unread_master(plan: Plan, flags: Flags, sources: Mapping[str, str]) -> str:
    """Return the note that only a variable of the ranks names node 0 on several nodes; else empty.

    A script that starts its ranks itself reads it, but torchrun's agents (torch/distributed/run.py) would each wait at
    127.0.0.1.
    """
    name = MASTER_ADDR.variables[0]
    unread = plan.started == "node" and (plan.nnodes or 0) > 1 and sources.get("master_addr") == name
    if not unread or plan.note or flags.init_method is not None:
        return ""
    return f"torchrun reads no {name}: give it {MASTER_ADDR.flag} {plan.master_addr} where it starts the ranks"


def _agents_around(env: Mapping[str, str], agent: str) -> dict[str, Any]:
    """Return ``beside`` and ``together`` of a plan: the launcher that started several such agents, each of which takes
    itself for the whole job, and torchrun's flags for one job of all of them, if ``agent`` is torchrun."""
    outside = mpi.without_horovod(frameworks.without_deepspeed(frameworks.without_agent(env)))
    try:
        around = next(filter(None, (detect(outside) for detect in LAUNCHERS)), None) or platforms.by_script(outside)
        for refuse in AROUND:
            refuse(outside)
    except UsageError as err:
        return {"beside": str(err).partition(", and")[0]}
    count = number_of(outside.get(NNODES.pet))
    if around is None and (number := number_of(outside.get(NODE_RANK.variables[0]))):
        return {"beside": f"{NODE_RANK.variables[0]} is {number}"}
    if around is None:
        return {"beside": f"{NNODES.pet} is {count}"} if count and count > 1 else {}
    fields = {NNODES.flag: "nnodes", NODE_RANK.flag: "node_rank", MASTER_ADDR.flag: "master_addr"}
    together = {flag: str(around.found[name].value) for flag, name in fields.items() if name in around.found}
    if here := next((outside[name] for name in around.variables.get("node_rank", ()) if name in outside), None):
        together[NODE_RANK.flag] = here
    if together.get(NNODES.flag) == "1" or agent != frameworks.TORCHRUN:
        together = {}
    return {"beside": f"{around.launcher} started it as one of several", "together": together}


def _more_ranks(env: Mapping[str, str], launched: Launched) -> str:
    """Return ``beside`` for a rank that is the only one by its variables, whatever set them."""
    if launched.launcher == base.LAUNCHER:
        return str(_agents_around(env, "").get("beside", ""))
    names = launched.variables.get(WORLD_SIZE.name, ())
    return next((f"{name} is {env[name]}" for name in names if (number_of(env.get(name)) or 0) > 1), "")


def launched_as(flags: Flags, env: Mapping[str, str]) -> Launched | None:
    """Return the launcher that started this process as one of several; None: it was started once, for its node.

    A setting of the number of nodes or ranks, flags above all, means that this process is to start them; of launchers,
    the nearest counts. Raise UsageError if a launcher's job has several nodes, and this is not started on all of
    them.
    """
    by_flag = bool(flags.nnodes or flags.nproc_per_node or flags.node_rank is not None)
    # Their ranks inherit the variables by which a pod starts torchrun on its node, and these say nothing of them.
    if (
        not by_flag
        and not flags.standalone
        and (agent := frameworks.detect_torchrun(env) or frameworks.detect_deepspeed(env))
    ):
        return agent
    by_node = by_flag or any(env.get(setting.pet) for setting in (NNODES, NPROC_PER_NODE, NODE_RANK))
    if flags.standalone or flags.nnodes == "1":
        return None
    for detect in LAUNCHERS:
        if launched := detect(env):
            return once_on_each_node(launched, env) if by_node else frameworks.spawned_below(launched, env) or launched
    if by_node:
        return schedulers.in_slurm_batch(env)
    ranked = any(name in env for name in RANK.variables)
    for refuse in REFUSALS:
        refuse(env)
    if script := platforms.by_script(env):
        return script
    if (flags.master_addr or flags.rdzv_endpoint) and not ranked:
        return None
    return None if platforms.only_node(env) else base.detect_environment(env)


def _backend(values: Values) -> str:
    text = values.flags.backend
    if text is None:
        values.sources["backend"] = "default"
        return "auto"
    values.sources["backend"] = BACKEND.flag
    text = text.strip().lower()
    parts = text.split(",")
    pattern = r"(?:(?:cpu|cuda|xpu|hpu|npu):)?(?:" + "|".join(BACKENDS) + ")"
    if text != "auto" and (
        not all(re.fullmatch(pattern, part) for part in parts)
        or (len(parts) > 1 and not all(":" in part for part in parts))
    ):
        raise UsageError(
            f"{BACKEND.flag} {values.flags.backend!r} is not auto, a backend ({', '.join(BACKENDS)}) or one per device "
            "such as cpu:gloo,cuda:nccl"
        )
    return text

"""Launchers whose variables were lost on the way: sudo, `env -i`, a container with a clean environment.

Each of the launched processes would take itself for the only one. The processes above it still have what the launcher
set; if they are invisible, the control group still has the names of SLURM's job and step (Slurm, "Control Group v2
plugin").
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, RANK, STANDALONE, WORLD_SIZE
from distdoctor.model.launch_variables import RUN_ID, SLURM_JOB, SLURM_STEP
from distdoctor.plan.launchers import frameworks, mpi, schedulers
from distdoctor.plan.launchers.base import Launched
from distdoctor.plan.syntax import number_of


def _rank(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several that torchrun's agent or DeepSpeed's launcher started."""
    several = (number_of(env.get(WORLD_SIZE.variables[0])) or 0) > 1
    return (frameworks.detect_torchrun(env) or frameworks.detect_deepspeed(env)) if several else None


LAUNCHERS = (
    _rank,
    mpi.detect_openmpi,
    mpi.detect_hydra,
    mpi.detect_mvapich,
    schedulers.detect_slurm,
    mpi.detect_pmi,
    mpi.detect_horovod,
    frameworks.detect_submitit,
)
"""Launchers that start each process themselves: the variables of a pod or a batch script say nothing of a shell below
it."""
CGROUPS = Path("/proc/self/cgroup")
ANCESTORS = 12
"""Limit of the shells, wrappers and container runtimes between a launcher and this process."""


def refuse_hidden_launcher(env: Mapping[str, str], cgroups: Path = CGROUPS) -> None:
    """Raise UsageError if this process is one of several by a process above it or the control group, and lacks the
    launcher's variables."""
    if RANK.variables[0] in env:
        return
    launched, _ = _above()
    step = _step(env, cgroups)
    name = (
        launched.launcher
        if launched is not None
        else schedulers.SLURM_NAME
        if step and step[3] not in (None, "0")
        else ""
    )
    if name:
        raise UsageError(
            f"{name} started this as one of several, and its variables were lost on the way here (sudo, env -i, a "
            f"container without the environment): hand them on, or add {STANDALONE.flag} for this machine alone"
        )


def step_note(env: Mapping[str, str], cgroups: Path = CGROUPS) -> str:
    """Return the note for a process in a SLURM step by its control group alone; empty elsewhere.

    That is a container with its own PID namespace, in which the parents are invisible.
    """
    step = _step(env, cgroups)
    has_variables = (
        "by its control group this is in step {1} of SLURM job {0}, and none of SLURM's variables came through: this "
        "machine alone was checked; hand them on to the container if the step has several tasks"
    )
    return has_variables.format(*step.groups()) if step else ""


def _step(env: Mapping[str, str], cgroups: Path) -> re.Match[str] | None:
    """Return job, step and task on this node by the control group, if no variable has them.

    The first task may be the only one; a second one is not.
    """
    if any(name in env for name in (SLURM_JOB, RANK.slurm)):
        return None
    try:
        text = cgroups.read_text(errors="replace")
    except OSError:
        return None
    return re.search(r"/job_(\d+)/step_(\d+)(?:/(?:user/)?task_(\d+))?(?:/|$)", text, re.M)


def launcher_environment() -> Mapping[str, str]:
    """Return the environment of the nearest process above this one that a launcher started as one of several, or
    nothing."""
    try:
        return _above()[1]
    except UsageError:
        return {}


def _above() -> tuple[Launched | None, dict[str, str]]:
    for env in _environments(os.getppid()):
        for detect in LAUNCHERS:
            if launched := detect(env):
                return launched, env
    return None, {}


def _environments(pid: int) -> Iterator[dict[str, str]]:
    """Yield the initial environments of the processes above, the nearest first, as far as this user may read them."""
    for _ in range(ANCESTORS):
        try:
            parent = re.search(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(errors="replace"), re.M)
        except OSError:
            return
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
            yield dict(word.split("=", 1) for word in words if "=" in word)
        except OSError:
            pass
        pid = int(parent[1]) if parent else 0


# The process of several that prints what all of them know, such as a usage error.


def speaks(env: Mapping[str, str], above: Callable[[], Mapping[str, str]] = dict) -> bool:
    """Return whether this process is the first of those that a launcher started, or no launcher is known.

    ``above`` returns the environment of a launched process above this one, for an ``env`` without a launcher. Of
    torchrun's ranks the first of each node speaks, which has an output of its own unless srun starts the agents.
    """
    if RUN_ID in env and schedulers.in_slurm_step(env):
        return env.get(RANK.variables[0], "0").strip() == "0"  # the first task need not be one of the job's agents
    if RUN_ID in env and env.get(LOCAL_RANK.variables[0], "0").strip() != "0":
        return False
    for name, other in (
        (mpi.OPENMPI_RANKS.rank,) * 2,
        (mpi.MVAPICH_RANKS.rank,) * 2,
        (mpi.HOROVOD_RANKS.rank,) * 2,
        *((ranks.rank, ranks.local_rank) for ranks in (mpi.HYDRA_RANKS, mpi.FLUX, mpi.CRAY, mpi.PALS)),
        (RANK.slurm, SLURM_STEP),
    ):
        if name in env and other in env:
            return env[name].strip() == "0"
    higher = above()
    return not higher or speaks(higher)

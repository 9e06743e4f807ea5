"""A launcher's variables that did not come through: sudo, `env -i`, a container that is started with a clean one.

Each of its processes would take itself for the only one. The processes above it still have what the launcher set; where
they cannot be seen, the control group still has the names of SLURM's job and step (Slurm, "Control Group v2 plugin").
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
    """One rank of several that torchrun's agent or DeepSpeed's launcher started."""
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
"""Those that start each process themselves: what a pod or a batch script has says nothing of a shell below it."""
CGROUPS = Path("/proc/self/cgroup")
ANCESTORS = 12
"""Shells, wrappers and container runtimes between a launcher and this process, at most."""


def refuse_hidden_launcher(env: Mapping[str, str], cgroups: Path = CGROUPS) -> None:
    """Raises UsageError where a process above this one is one of several that a launcher started, or the control group
    says so, and this one is told nothing of it."""
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
    """Return what is to be said where this runs in a step of SLURM by its control group, and has no variable of it:
    a container with processes of its own, whose parents are not seen; empty elsewhere."""
    step = _step(env, cgroups)
    told = (
        "by its control group this is in step {1} of SLURM job {0}, and none of SLURM's variables came through: this "
        "machine alone was checked; hand them on to the container if the step has several tasks"
    )
    return told.format(*step.groups()) if step else ""


def _step(env: Mapping[str, str], cgroups: Path) -> re.Match[str] | None:
    """Job, step and task on this node by the control group, where no variable says them. The first task may be the only
    one; a second one is not."""
    if any(name in env for name in (SLURM_JOB, RANK.slurm)):
        return None
    try:
        text = cgroups.read_text(errors="replace")
    except OSError:
        return None
    return re.search(r"/job_(\d+)/step_(\d+)(?:/(?:user/)?task_(\d+))?(?:/|$)", text, re.M)


def launcher_environment() -> Mapping[str, str]:
    """The environment of the nearest process above this one that a launcher started as one of several; empty where
    there is none."""
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
    """Return what the processes above were started with, the nearest first, as far as this user may read it."""
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


# Who of several processes tells what all of them know: a command line that cannot be carried out, for one.


def speaks(env: Mapping[str, str], above: Callable[[], Mapping[str, str]] = dict) -> bool:
    """Return whether this process is the first of those that a launcher started, or no launcher is known to have
    started it.

    ``above``: where ``env`` tells of none, that of a process above this one which does. Of torchrun's ranks the first
    of each node speaks, which has an output of its own unless srun starts the agents.
    """
    if RUN_ID in env and schedulers.in_slurm_step(env):
        return env.get(RANK.variables[0], "0").strip() == "0"  # the first task need not be one of the job's agents
    if RUN_ID in env and env.get(LOCAL_RANK.variables[0], "0").strip() != "0":
        return False
    for name, beside in (
        (mpi.OPENMPI_RANKS.rank,) * 2,
        (mpi.MVAPICH_RANKS.rank,) * 2,
        (mpi.HOROVOD_RANKS.rank,) * 2,
        *((ranks.rank, ranks.local_rank) for ranks in (mpi.HYDRA_RANKS, mpi.FLUX, mpi.CRAY, mpi.PALS)),
        (RANK.slurm, SLURM_STEP),
    ):
        if name in env and beside in env:
            return env[name].strip() == "0"
    higher = above()
    return not higher or speaks(higher)

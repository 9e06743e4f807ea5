"""A launcher's variables that did not come through: sudo, `env -i`, a container that is started with a clean one.

Each of its processes would take itself for the only one. The processes above it still have what the launcher set; where
they cannot be seen, the control group still has the names of SLURM's job and step (Slurm, "Control Group v2 plugin").
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from distdoctor.launch import deepspeed, horovod, hydra, mvapich, openmpi, slurm, submitit, torchrun
from distdoctor.launch.launched import Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK, STANDALONE, WORLD_SIZE
from distdoctor.model.launch_variables import SLURM_JOB


def _rank(env: Mapping[str, str]) -> Launched | None:
    """One rank of several that torchrun's agent or DeepSpeed's launcher started."""
    several = (number_of(env.get(WORLD_SIZE.variables[0])) or 0) > 1
    return (torchrun.detect(env) or deepspeed.detect(env)) if several else None


LAUNCHERS = (
    _rank, openmpi.detect, hydra.detect, mvapich.detect, slurm.detect, hydra.detect_pmi, horovod.detect,
    submitit.detect,
)  # fmt: skip
"""Those that start each process themselves: what a pod or a batch script has says nothing of a shell below it."""
CGROUPS = Path("/proc/self/cgroup")
ANCESTORS = 12
"""Shells, wrappers and container runtimes between a launcher and this process, at most."""


def refuse_lost_variables(env: Mapping[str, str], cgroups: Path = CGROUPS) -> None:
    """Raises UsageError where a process above this one is one of several that a launcher started, or the control group
    says so, and this one is told nothing of it."""
    if RANK.variables[0] in env:
        return
    launched, _ = _above()
    step = _step(env, cgroups)
    name = launched.launcher if launched is not None else slurm.NAME if step and step[3] not in (None, "0") else ""
    if name:
        raise UsageError(
            f"{name} started this as one of several, and its variables were lost on the way here (sudo, env -i, a "
            f"container without the environment): hand them on, or add {STANDALONE.flag} for this machine alone"
        )


def step_note(env: Mapping[str, str], cgroups: Path = CGROUPS) -> str:
    """What is to be said where this runs in a step of SLURM by its control group, and has no variable of it: a
    container with processes of its own, whose parents are not seen; empty elsewhere."""
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


def lost() -> Mapping[str, str]:
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
    """What the processes above were started with, the nearest first, as far as this user may read it."""
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

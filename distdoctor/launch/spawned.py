"""Ranks that a process of a launcher has started itself: torch.multiprocessing.spawn, composer, DeepSpeed of old.

They inherit what srun or mpirun told their parent: their number and that of the tasks on the node are not theirs, and
what torch reads (RANK, WORLD_SIZE) is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distdoctor.launch import env_variables
from distdoctor.launch.launched import Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.launch_settings import LOCAL_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE, Setting


def below(launched: Launched, env: Mapping[str, str]) -> Launched | None:
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
    return replace(env_variables.told(env, env_variables.LAUNCHER), task=RANK.variables[0], spawned=True)


def _own(launched: Launched, env: Mapping[str, str], setting: Setting) -> int | None:
    """What the launcher says in a variable of its own, which comes after torch's."""
    names = [name for name in launched.variables.get(setting.name, ()) if name not in setting.variables]
    return number_of(env.get(names[-1])) if names else None

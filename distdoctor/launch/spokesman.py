"""Who of several processes tells what all of them know: a command line that cannot be carried out, for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from distdoctor.launch import horovod, hydra, mvapich, openmpi, slurm
from distdoctor.model.launch_settings import LOCAL_RANK, RANK
from distdoctor.model.launch_variables import RUN_ID, SLURM_STEP


def speaks(env: Mapping[str, str], above: Callable[[], Mapping[str, str]] = dict) -> bool:
    """Whether this process is the first of those that a launcher started, or no launcher is known to have started it.

    ``above``: where ``env`` tells of none, that of a process above this one which does. Of torchrun's ranks the first
    of each node speaks, which has an output of its own unless srun starts the agents.
    """
    if RUN_ID in env and slurm.in_step(env):
        return env.get(RANK.variables[0], "0").strip() == "0"  # the first task need not be one of the job's agents
    if RUN_ID in env and env.get(LOCAL_RANK.variables[0], "0").strip() != "0":
        return False
    for name, beside in (
        (openmpi.RANKS.rank,) * 2,
        (mvapich.RANKS.rank,) * 2,
        (horovod.RANKS.rank,) * 2,
        *((ranks.rank, ranks.local_rank) for ranks in (hydra.RANKS, hydra.FLUX, hydra.CRAY, hydra.PALS)),
        (RANK.slurm, SLURM_STEP),
    ):
        if name in env and beside in env:
            return env[name].strip() == "0"
    higher = above()
    return not higher or speaks(higher)

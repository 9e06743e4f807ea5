"""Launchers that number the processes they start, and tell none of them how many there are.

PMIx: PMIX_RANK, which prterun sets (PRRTE); the size is asked of its server. aprun (ALPS): ALPS_APP_PE. Flux: the shell
of ``flux alloc`` and the script of ``flux batch``, in which the variables of a task are unset (flux-environment(7)).
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import horovod, hydra, lsf, mvapich, openmpi, slurm
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import MASTER_ADDR, RANK, STANDALONE, WORLD_SIZE

_NUMBERS = {"PMIX_RANK": "prterun, or another launcher with PMIx,", "ALPS_APP_PE": "aprun"}
_RANKS = (openmpi.RANKS, mvapich.RANKS, horovod.RANKS, lsf.RANKS, hydra.RANKS, hydra.FLUX, hydra.PALS)
_SIZES = (*(ranks.size for ranks in _RANKS), slurm.TASKS)
"""Whoever has one of these has started one process, or is told of elsewhere."""
_FLUX = "FLUX_URI"


def refuse_numbered(env: Mapping[str, str]) -> None:
    """Raises UsageError in a process that has a number, and nothing that says how many there are."""
    number = next((name for name in _NUMBERS if env.get(name, "").isdecimal()), None)
    if number is None or RANK.variables[0] in env or any(name in env for name in _SIZES):
        return
    needed = f"{RANK.variables[0]}, {WORLD_SIZE.variables[0]} and {MASTER_ADDR.variables[0]}"
    raise UsageError(
        f"{_NUMBERS[number]} started this as number {env[number]} ({number}), and does not tell its processes how many "
        f"there are: give each {needed}, or start it with mpirun, or add {STANDALONE.flag} for this machine alone"
    )


def shell_note(env: Mapping[str, str]) -> str:
    """What is to be said in a shell or a script of a Flux instance, which may have any number of nodes."""
    if _FLUX not in env or hydra.FLUX.rank in env:
        return ""
    return (
        "this shell is in a Flux instance: this machine alone was checked; its nodes: `flux run -N M distdoctor check`"
    )

"""Launchers of MPI: Open MPI, hydra (MPICH, Intel MPI), Cray PALS, Flux, MVAPICH2, Horovod, PMIx, ALPS.

Open MPI: OMPI_COMM_WORLD_* (mpirun(1), ENVIRONMENT VARIABLES); the rest measured with 4.1. OMPI_COMM_WORLD_NODE_RANK is
the rank on the node, not the number of the node. No variable has the node of rank 0; 4.x has the address of mpirun
itself, whose host is the first unless a host file leaves it out.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from distdoctor.model import launch_variables
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import MASTER_ADDR, RANK, STANDALONE, WORLD_SIZE
from distdoctor.model.launch_variables import HOROVOD, MVAPICH, OPENMPI
from distdoctor.plan.launchers import base, schedulers
from distdoctor.plan.launchers.base import DerivedValue, Launched, LauncherRanks
from distdoctor.plan.syntax import number_of

OPENMPI_NAME = "Open MPI"
OPENMPI_RANKS = LauncherRanks(*OPENMPI, "mpirun -x {}={}")
_MPIRUN, _NODES = "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_num_nodes"


def detect_openmpi(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several."""
    if not OPENMPI_RANKS.one_of_several(env):
        return None
    placed = OPENMPI_RANKS.placed(env)
    if "master_addr" in placed:
        return OPENMPI_RANKS.launched(OPENMPI_NAME, placed)
    if nodes := number_of(env.get(_NODES)):
        placed["nnodes"] = DerivedValue(nodes, _NODES)
    if master := _first(env):
        placed["master_addr"] = master
    return OPENMPI_RANKS.launched(OPENMPI_NAME, placed)


def _first(env: Mapping[str, str]) -> DerivedValue | None:
    """Return the first node of the job in which mpirun was started, wherever it was typed, as in a shell of salloc;
    else mpirun's own address (4.x)."""
    if first := base.job_first_node(env):
        return first
    address = re.match(r"[^;]*;tcp://([0-9.]+)", env.get(_MPIRUN, ""))
    return DerivedValue(address[1], _MPIRUN) if address else None


# hydra, the mpiexec of MPICH and Intel MPI: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (measured, 4.0.2).
#
# `srun --mpi=pmi2` sets the first two as well: alone they are no sign of hydra. None of them has the node of rank 0;
# the proxy that starts a node's ranks has the host of mpiexec (--control-port), which is the first unless a host file
# leaves it out.


HYDRA_NAME, PMI_NAME = "hydra", "PMI"
HYDRA_RANKS = LauncherRanks(*launch_variables.HYDRA, "mpiexec -genv {} {}")
CRAY = LauncherRanks(*launch_variables.CRAY, "mpiexec --env {}={}")
"""Cray's PALS, whose mpiexec sets these two beside PMI_*."""
PALS = LauncherRanks(*launch_variables.PALS, CRAY.with_variable)
"""Cray's PALS for a program that uses no PMI, or PMIx."""
FLUX = LauncherRanks(*launch_variables.FLUX, "flux run --env={}={}")
"""Flux. It has no variable for the tasks of a node; FLUX_JOB_NNODES is the number of nodes (flux-environment(7)). PMI_*
are missing with ``-o pmi=none``."""

_FLUX_NODES = "FLUX_JOB_NNODES"
ANCESTORS = 5
"""Limit of the shells and wrappers between the proxy and this process."""


def detect_hydra(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several that mpiexec started."""
    return _one_of_several(env, HYDRA_NAME, HYDRA_RANKS) if HYDRA_RANKS.local_rank in env else None


def detect_pmi(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several that another launcher with PMI started."""
    if FLUX.local_rank in env:
        return _one_of_several(env, "Flux", FLUX)
    if CRAY.local_rank in env:
        return _one_of_several(env, "Cray PALS", CRAY)
    return _one_of_several(env, "Cray PALS", PALS) if PALS.size in env else _one_of_several(env, PMI_NAME, HYDRA_RANKS)


def _one_of_several(env: Mapping[str, str], launcher: str, ranks: LauncherRanks) -> Launched | None:
    if not ranks.one_of_several(env):
        return None
    placed = ranks.placed(env)
    nodes = number_of(env.get(_FLUX_NODES)) if ranks is FLUX else None
    if nodes:
        placed["nnodes"] = DerivedValue(nodes, _FLUX_NODES)
    if nodes == 1:
        placed["master_addr"] = DerivedValue("127.0.0.1", _FLUX_NODES)
    if "master_addr" not in placed and (first := _mpiexec(os.getppid()) or base.job_first_node(env)):
        placed["master_addr"] = first
    return ranks.launched(launcher, placed)


def _mpiexec(pid: int) -> DerivedValue | None:
    """Return the host of mpiexec, as the proxy among this process's ancestors has it."""
    host_port = hydra_control_port(pid).rpartition(":")[0]
    return DerivedValue(host_port, "hydra's --control-port") if host_port else None


def hydra_control_port(pid: int | None = None) -> str:
    """Return HOST:PORT of mpiexec, as the proxy among the ancestors (from ``pid``, this process's parent) has it; else
    empty."""
    pid = os.getppid() if pid is None else pid
    for _ in range(ANCESTORS):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            parent = re.search(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(errors="replace"), re.M)
        except OSError:
            return ""
        host_port = dict(itertools.pairwise(words)).get("--control-port", "")
        if ":" in host_port and Path(words[0]).name.startswith("hydra"):
            return host_port
        pid = int(parent[1]) if parent else 0
    return ""


# MVAPICH2's mpirun_rsh: MV2_COMM_WORLD_*, the variables that accelerate and DeepSpeed read of it
# (accelerate/utils/environment.py).


MVAPICH_NAME = "MVAPICH2"
MVAPICH_RANKS = LauncherRanks(*MVAPICH, "mpirun_rsh ... {}={}")


def detect_mvapich(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several."""
    if not MVAPICH_RANKS.one_of_several(env):
        return None
    placed = MVAPICH_RANKS.placed(env)
    if "master_addr" not in placed and (first := base.job_first_node(env)):
        placed["master_addr"] = first
    return MVAPICH_RANKS.launched(MVAPICH_NAME, placed)


# horovodrun over gloo: HOROVOD_* (horovod/common/gloo/gloo_context.cc); over mpirun the ranks have OMPI_* as well.
#
# A variable has the host that horovodrun was started on, which is the first unless a host file leaves it out.


HOROVOD_NAME = "Horovod"
HOROVOD_RANKS = LauncherRanks(*HOROVOD, "{}={} horovodrun")
_DRIVER = "HOROVOD_GLOO_RENDEZVOUS_ADDR"


def detect_horovod(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank of several."""
    if not HOROVOD_RANKS.one_of_several(env):
        return None
    placed = HOROVOD_RANKS.placed(env)
    if "master_addr" not in placed and (driver := env.get(_DRIVER)):
        placed["master_addr"] = DerivedValue(driver, _DRIVER)
    return HOROVOD_RANKS.launched(HOROVOD_NAME, placed)


def without_horovod(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those of Horovod."""
    return {name: value for name, value in env.items() if not name.startswith("HOROVOD_")}


# Launchers that number the processes they start, without their total.
#
# PMIx: PMIX_RANK, which prterun sets (PRRTE); only its server has the size. aprun (ALPS): ALPS_APP_PE. Flux: the shell
# of ``flux alloc`` and the script of ``flux batch``, in which the variables of a task are unset (flux-environment(7)).


_NUMBERS = {"PMIX_RANK": "prterun, or another launcher with PMIx,", "ALPS_APP_PE": "aprun"}
_RANKS = (OPENMPI_RANKS, MVAPICH_RANKS, HOROVOD_RANKS, schedulers.LSF_RANKS, HYDRA_RANKS, FLUX, PALS)
_SIZES = (*(ranks.size for ranks in _RANKS), schedulers.SLURM_NTASKS)
"""Total numbers: a launcher that sets one has started one process, or is handled elsewhere."""
_FLUX = "FLUX_URI"


def refuse_rank_without_size(env: Mapping[str, str]) -> None:
    """Raise UsageError in a process that has a number without a total."""
    number = next((name for name in _NUMBERS if env.get(name, "").isdecimal()), None)
    if number is None or RANK.variables[0] in env or any(name in env for name in _SIZES):
        return
    needed = f"{RANK.variables[0]}, {WORLD_SIZE.variables[0]} and {MASTER_ADDR.variables[0]}"
    raise UsageError(
        f"{_NUMBERS[number]} started this as number {env[number]} ({number}), and does not tell its processes how many "
        f"there are: give each {needed}, or start it with mpirun, or add {STANDALONE.flag} for this machine alone"
    )


def shell_note(env: Mapping[str, str]) -> str:
    """Return the note for a shell or a script of a Flux instance, which may have any number of nodes."""
    if _FLUX not in env or FLUX.rank in env:
        return ""
    return (
        "this shell is in a Flux instance: this machine alone was checked; its nodes: `flux run -N M distdoctor check`"
    )

"""Environment variables that launchers set, by launcher; those of settings are in ``launch_settings``."""

from __future__ import annotations

from typing import NamedTuple

from distdoctor.model.launch_settings import LOCAL_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE

RUN_ID = "TORCHELASTIC_RUN_ID"
"""Variable that torchrun's agent alone sets."""
RESTART_COUNT, MAX_RESTARTS = "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""``True`` if the ranks join at the agent's store."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
SLURM_JOB, SLURM_STEP, SLURM_TERMINAL = "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PTY_PORT"
SLURM_NODE = "SLURMD_NODENAME"
SLURM_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
PBS_JOB, LSF_JOB = "PBS_JOBID", "LSB_JOBID"


class RankVariables(NamedTuple):
    """Variables of one launcher for the number of a rank and the number of ranks, in all and on its node."""

    rank: str
    size: str
    local_rank: str
    local_size: str


SLURM = RankVariables(RANK.slurm, WORLD_SIZE.slurm, LOCAL_RANK.slurm, NPROC_PER_NODE.slurm)
OPENMPI = RankVariables(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
)
HYDRA = RankVariables("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
CRAY = RankVariables("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
"""Cray's PALS, whose mpiexec sets these two beside PMI_*."""
PALS = RankVariables("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE")
"""Cray's PALS for a program that uses no PMI, or PMIx."""
FLUX = RankVariables("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "FLUX_TASK_LOCAL_SIZE")
MVAPICH = RankVariables(
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"
)
JSRUN = RankVariables(
    "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"
)
HOROVOD = RankVariables("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")
RANK_VARIABLES = (SLURM, OPENMPI, HYDRA, CRAY, PALS, FLUX, MVAPICH, JSRUN, HOROVOD)
"""All launchers, SLURM first: its step may start another launcher, whose ranks have both."""
STARTED_BY = (SLURM_STEP, *(variables.rank for variables in RANK_VARIABLES if variables is not SLURM))
"""Variables of which a process has one if a launcher started it as one of several."""

"""hydra, the mpiexec of MPICH and Intel MPI: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (measured, 4.0.2).

`srun --mpi=pmi2` sets the first two as well: alone they are no sign of hydra. Which node rank 0 is on, none of them
says; the proxy that starts a node's ranks is told the host of mpiexec (--control-port), which is the first unless a
host file leaves it out.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.launch.numbered import Numbered
from distdoctor.model import launch_variables

NAME, PMI_NAME = "hydra", "PMI"
RANKS = Numbered(*launch_variables.HYDRA, "mpiexec -genv {} {}")
CRAY = Numbered(*launch_variables.CRAY, "mpiexec --env {}={}")
"""Cray's PALS, whose mpiexec sets these two beside them."""
PALS = Numbered(*launch_variables.PALS, CRAY.with_variable)
"""The same where it starts what uses no PMI, or PMIx."""
FLUX = Numbered(*launch_variables.FLUX, "flux run --env={}={}")
"""How many tasks a node has, Flux does not tell; FLUX_JOB_NNODES, how many nodes (flux-environment(7)). PMI_* are not
there with ``-o pmi=none``."""

_FLUX_NODES = "FLUX_JOB_NNODES"
ANCESTORS = 5
"""Shells and wrappers between the proxy and this process, at most."""


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of several that mpiexec started."""
    return _told(env, NAME, RANKS) if RANKS.local_rank in env else None


def detect_pmi(env: Mapping[str, str]) -> Launched | None:
    """One rank of several that another launcher with PMI started."""
    if FLUX.local_rank in env:
        return _told(env, "Flux", FLUX)
    if CRAY.local_rank in env:
        return _told(env, "Cray PALS", CRAY)
    return _told(env, "Cray PALS", PALS) if PALS.size in env else _told(env, PMI_NAME, RANKS)


def _told(env: Mapping[str, str], launcher: str, ranks: Numbered) -> Launched | None:
    if not ranks.one_of_several(env):
        return None
    found = ranks.placed(env)
    nodes = number_of(env.get(_FLUX_NODES)) if ranks is FLUX else None
    if nodes:
        found["nnodes"] = Found(nodes, _FLUX_NODES)
    if nodes == 1:
        found["master_addr"] = Found("127.0.0.1", _FLUX_NODES)
    if "master_addr" not in found and (first := _mpiexec(os.getppid()) or jobs.first_node(env)):
        found["master_addr"] = first
    return ranks.launched(launcher, found)


def _mpiexec(pid: int) -> Found | None:
    """The host of mpiexec, as the proxy among this process's ancestors was told it."""
    told = control_port(pid).rpartition(":")[0]
    return Found(told, "hydra's --control-port") if told else None


def control_port(pid: int | None = None) -> str:
    """HOST:PORT of mpiexec, as the proxy among the ancestors (from ``pid``, this process's parent) was given it; empty
    where none was."""
    pid = os.getppid() if pid is None else pid
    for _ in range(ANCESTORS):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            parent = re.search(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(errors="replace"), re.M)
        except OSError:
            return ""
        told = dict(itertools.pairwise(words)).get("--control-port", "")
        if ":" in told and Path(words[0]).name.startswith("hydra"):
            return told
        pid = int(parent[1]) if parent else 0
    return ""

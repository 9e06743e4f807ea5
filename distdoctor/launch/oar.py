"""OAR: it starts the batch script on the first node; OAR_NODEFILE has a line for each core (oarsub(1), oarsh(1))."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several nodes, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    if RANK.variables[0] not in env and source == jobs.OAR_FILE and len(names) > 1:
        line = f"mpirun --mca plm_rsh_agent oarsh -machinefile ${jobs.OAR_FILE} distdoctor check"
        raise UsageError(jobs.alone("OAR", len(names), line))

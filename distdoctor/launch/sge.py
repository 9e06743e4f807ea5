"""SGE: it starts the batch script and leaves the ranks to mpirun; PE_HOSTFILE has the hosts (sge_pe(5))."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    if RANK.variables[0] not in env and source == jobs.SGE_FILE and len(names) > 1:
        raise UsageError(jobs.alone("SGE", len(names), "mpirun distdoctor check"))

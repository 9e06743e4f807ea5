"""SGE: it starts the batch script and leaves the ranks to mpirun; PE_HOSTFILE has the hosts (sge_pe(5)), and NHOSTS
their number where the file cannot be read, as in a container or below `qrsh -inherit` (qsub(1), ENVIRONMENTAL
VARIABLES)."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK

_HOSTS, _SLOTS = "NHOSTS", "NSLOTS"


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    count = len(names) if names else number_of(env.get(_HOSTS)) or 0
    if RANK.variables[0] not in env and source == jobs.SGE_FILE and count > 1 and (names or _SLOTS in env):
        raise UsageError(jobs.alone("SGE", count, "mpirun distdoctor check"))

"""PJM, the scheduler of Fujitsu's machines: it starts the job script on one node and leaves the ranks to mpiexec.

Variables: as public job scripts of such machines read them; its mpiexec sets those of Open MPI.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK

_JOB, _NODES = "PJM_JOBID", "PJM_NODE"


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a job script of several nodes, which starts nothing on the others."""
    count = number_of(env.get(_NODES)) or 0
    if RANK.variables[0] not in env and _JOB in env and count > 1:
        raise UsageError(jobs.alone("PJM", count, "mpiexec distdoctor check"))

"""LSF: the tasks of jsrun, and a batch script without it. Variables: lightning/fabric/plugins/environments/lsf.py."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.numbered import Numbered
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import RANK
from distdoctor.model.launch_variables import JSRUN

RANKS = Numbered(*JSRUN, "jsrun -E {}={}")


def detect(env: Mapping[str, str]) -> Launched | None:
    """One task of several. Rank 0 is on the first host of the job."""
    if not RANKS.one_of_several(env):
        return None
    found = dict(jobs.port(env))
    names, source = jobs.nodes(env)
    if source != jobs.LSF_FILE or not names:
        return RANKS.launched("LSF (jsrun)", found)
    found["master_addr"] = Found(names[0], source)
    return RANKS.launched("LSF (jsrun)", found, names)


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    if RANK.variables[0] not in env and source in (jobs.LSF_FILE, jobs.LSF_HOSTS) and len(names) > 1:
        raise UsageError(jobs.alone("LSF", len(names), "mpirun distdoctor check"))

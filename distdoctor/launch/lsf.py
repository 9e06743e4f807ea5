"""LSF: the tasks of jsrun, and a batch script without it. Variables: lightning/fabric/plugins/environments/lsf.py."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NPROC_PER_NODE, RANK, WORLD_SIZE

_TASK, _SIZE = "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"
_LOCAL_RANK, _LOCAL_SIZE = "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"


def detect(env: Mapping[str, str]) -> Launched | None:
    """One task of several. Rank 0 is on the first host of the job."""
    if _TASK not in env or _SIZE not in env or number_of(env[_SIZE]) == 1:
        return None
    found = dict(jobs.port(env))
    names, source = jobs.nodes(env)
    first = jobs.first_node(env) if source == jobs.LSF_FILE else None
    if first is not None:
        found["master_addr"] = first
    return Launched(
        "LSF (jsrun)",
        {
            "rank": (*RANK.variables, _TASK),
            "world_size": (*WORLD_SIZE.variables, _SIZE),
            "local_rank": (*LOCAL_RANK.variables, _LOCAL_RANK),
            "nproc_per_node": (*NPROC_PER_NODE.variables, _LOCAL_SIZE),
            "node_rank": (),
        },
        found,
        (),
        names if source == jobs.LSF_FILE else (),
        nodes_even=False,
        task=_TASK,
        rank0_unknown=(
            "jsrun does not tell its tasks where rank 0 is: add its host, "
            f"`jsrun -E {MASTER_ADDR.variables[0]}=HOST ... distdoctor check`"
        ),
    )


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    if RANK.variables[0] not in env and source in (jobs.LSF_FILE, jobs.LSF_HOSTS) and len(names) > 1:
        raise UsageError(jobs.alone("LSF", len(names), "mpirun distdoctor check"))

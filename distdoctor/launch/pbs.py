"""PBS: the processes of pbsdsh, and a batch script without it (pbsdsh(1), qsub(1), ENVIRONMENT VARIABLES).

pbsdsh starts one process per line of PBS_NODEFILE, numbered by PBS_VNODENUM; with -u one per host, and no variable says
which of the two. The batch script itself is task 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NPROC_PER_NODE, RANK, WORLD_SIZE

_TASK, _NUMBERS = "PBS_TASKNUM", ("PBS_VNODENUM", "PBS_NODENUM")


def detect(env: Mapping[str, str]) -> Launched | None:
    """One of pbsdsh's processes. Raises UsageError where its place cannot be told."""
    number = next((name for name in _NUMBERS if number_of(env.get(name)) is not None), None)
    if number is None or number_of(env.get(_TASK)) in (None, 1):
        return None
    hosts, source = jobs.slots(env)
    place = int(env[number])
    if source != jobs.PBS_FILE or len({*hosts}) != len(hosts) or place >= len(hosts):
        if RANK.variables[0] in env:
            return None
        raise UsageError(
            "pbsdsh does not tell its processes how many there are: give each RANK, WORLD_SIZE and "
            f"{MASTER_ADDR.variables[0]}, or start it with mpirun: `mpirun distdoctor check`"
        )
    if len(hosts) == 1:
        return None
    found = {
        "world_size": Found(len(hosts), source),
        "nproc_per_node": Found(1, source),
        "nnodes": Found(len(hosts), source),
        "local_rank": Found(0, source),
        "master_addr": Found(hosts[0], source),
        **jobs.port(env),
    }
    return Launched(
        "PBS",
        {
            "rank": (*RANK.variables, number),
            "world_size": WORLD_SIZE.variables,
            "local_rank": LOCAL_RANK.variables,
            "nproc_per_node": NPROC_PER_NODE.variables,
            "node_rank": (number,),
        },
        found,
        (),
        hosts,
        (1,) * len(hosts),
        task=number,
    )


def refuse_outside(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script of several nodes, which starts nothing on the others."""
    names, source = jobs.nodes(env)
    if RANK.variables[0] not in env and source == jobs.PBS_FILE and len(names) > 1:
        raise UsageError(jobs.alone("PBS", len(names), "mpirun distdoctor check"))

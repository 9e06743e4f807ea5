"""Open MPI's mpirun: OMPI_COMM_WORLD_* (mpirun(1), ENVIRONMENT VARIABLES); the rest measured with 4.1.

OMPI_COMM_WORLD_NODE_RANK is the rank on the node, not the number of the node. Which node rank 0 is on, no variable
says; 4.x tells the address of mpirun itself, whose host is the first unless a host file leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NPROC_PER_NODE, RANK, WORLD_SIZE

NAME = "Open MPI"
TASK, _SIZE = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
_LOCAL_RANK, _LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
_MPIRUN, _NODES = "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_num_nodes"


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of several."""
    if TASK not in env or _SIZE not in env or number_of(env[_SIZE]) == 1:
        return None
    found = dict(jobs.port(env))
    nodes = 1 if env.get(_LOCAL_SIZE) == env[_SIZE] else number_of(env.get(_NODES))
    if nodes:
        found["nnodes"] = Found(nodes, _LOCAL_SIZE if nodes == 1 else _NODES)
    master = Found("127.0.0.1", _LOCAL_SIZE) if nodes == 1 else _first(env)
    if master is not None:
        found["master_addr"] = master
    return Launched(
        NAME,
        {
            "rank": (*RANK.variables, TASK),
            "world_size": (*WORLD_SIZE.variables, _SIZE),
            "local_rank": (*LOCAL_RANK.variables, _LOCAL_RANK),
            "nproc_per_node": (*NPROC_PER_NODE.variables, _LOCAL_SIZE),
            "node_rank": (),
        },
        found,
        (),
        nodes_even=False,
        task=TASK,
        rank0_unknown=(
            "mpirun does not tell the ranks where rank 0 is: add its host, "
            f"`mpirun -x {MASTER_ADDR.variables[0]}=HOST ... distdoctor check`"
        ),
    )


def _first(env: Mapping[str, str]) -> Found | None:
    """mpirun's own address (4.x), else the first node of the job that it was started in."""
    address = re.match(r"[^;]*;tcp://([0-9.]+)", env.get(_MPIRUN, ""))
    if address:
        return Found(address[1], _MPIRUN)
    return jobs.first_node(env)

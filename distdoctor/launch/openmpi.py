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
from distdoctor.launch.numbered import Numbered
from distdoctor.model.launch_variables import OPENMPI

NAME = "Open MPI"
RANKS = Numbered(*OPENMPI, "mpirun -x {}={}")
_MPIRUN, _NODES = "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_num_nodes"


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of several."""
    if not RANKS.one_of_several(env):
        return None
    found = RANKS.placed(env)
    if "master_addr" in found:
        return RANKS.launched(NAME, found)
    if nodes := number_of(env.get(_NODES)):
        found["nnodes"] = Found(nodes, _NODES)
    if master := _first(env):
        found["master_addr"] = master
    return RANKS.launched(NAME, found)


def _first(env: Mapping[str, str]) -> Found | None:
    """The first node of the job that mpirun was started in, wherever it was typed, as in a shell of salloc; else its
    own address (4.x)."""
    if first := jobs.first_node(env):
        return first
    address = re.match(r"[^;]*;tcp://([0-9.]+)", env.get(_MPIRUN, ""))
    return Found(address[1], _MPIRUN) if address else None

"""MVAPICH2's mpirun_rsh: MV2_COMM_WORLD_*, the variables that accelerate and DeepSpeed read of it
(accelerate/utils/environment.py)."""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Launched
from distdoctor.launch.numbered import Numbered
from distdoctor.model.launch_variables import MVAPICH

NAME = "MVAPICH2"
RANKS = Numbered(*MVAPICH, "mpirun_rsh ... {}={}")


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of several."""
    if not RANKS.one_of_several(env):
        return None
    found = RANKS.placed(env)
    if "master_addr" not in found and (first := jobs.first_node(env)):
        found["master_addr"] = first
    return RANKS.launched(NAME, found)

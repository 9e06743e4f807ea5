"""Ranks whose variables were set by hand, by a script or by a launcher that has no module of its own (env://)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distdoctor.launch.launched import Launched
from distdoctor.model.launch_settings import (
    LAUNCH_VARIABLES,
    LOCAL_RANK,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    WORLD_SIZE,
)
from distdoctor.model.launch_variables import AGENT_STORE, RESTART_COUNT, RUN_ID

LAUNCHER = "env"
"""Whoever set the variables."""
VARIABLES = {setting.name: setting.variables for setting in (RANK, WORLD_SIZE, LOCAL_RANK, NPROC_PER_NODE)} | {
    # What torchrun's agent calls its node comes before what a script does.
    NODE_RANK.name: NODE_RANK.variables[::-1]
}


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank, if any of the four variables is set that init_process_group() needs."""
    return told(env, LAUNCHER) if any(name in env for name in LAUNCH_VARIABLES) else None


def told(env: Mapping[str, str], launcher: str) -> Launched:
    """What the variables say. PyTorch reads the agent's whoever set them (torch/distributed/rendezvous.py)."""
    restart = env.get(RESTART_COUNT, "")
    return Launched(
        launcher,
        VARIABLES,
        agent_store=env.get(AGENT_STORE) == "True",
        run_id=env.get(RUN_ID, "none"),
        restart=int(restart) if re.fullmatch(r"\d{1,9}", restart) else 0,
    )

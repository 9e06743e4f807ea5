"""accelerate launch: torchrun's agent, mpirun, or (for one process) neither (accelerate/utils/launch.py).

For several processes without --multi_gpu (or --mpirun_hostfile on CPUs) it starts one all the same, with MASTER_ADDR
and MASTER_PORT and no rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import MASTER_ADDR, RANK

_SIGNS = ("ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION")


def refuse_without_ranks(env: Mapping[str, str]) -> None:
    """Raises UsageError where accelerate was asked for several processes and has started one."""
    if RANK.variables[0] in env or MASTER_ADDR.variables[0] not in env or not all(name in env for name in _SIGNS):
        return
    raise UsageError(
        "accelerate was asked for several processes and has started one, without a rank: add --multi_gpu, or on CPUs "
        "--mpirun_hostfile FILE, to accelerate launch"
    )

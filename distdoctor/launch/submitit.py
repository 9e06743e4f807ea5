"""submitit's local executor: as many processes on this host as it is told, each with a number
(submitit/local/local.py).

Its executor for SLURM starts them with srun.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch.launched import Launched
from distdoctor.launch.numbered import Numbered

RANKS = Numbered(
    "SUBMITIT_LOCAL_GLOBALID",
    "SUBMITIT_LOCAL_NTASKS",
    "SUBMITIT_LOCAL_LOCALID",
    "SUBMITIT_LOCAL_NTASKS",  # all of them are here
    "export {}={}",
)


def detect(env: Mapping[str, str]) -> Launched | None:
    """One process of several."""
    return RANKS.launched("submitit", RANKS.placed(env)) if RANKS.one_of_several(env) else None

"""Notice of a launch: the port on which its node 0 names the port of its store, for tasks with another MASTER_PORT.

All tasks of one launch compute the same port from the number that the launcher gave the launch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distdoctor.model.launch_variables import SLURM_JOB, SLURM_STEP
from distdoctor.plan.launchers import mpi, schedulers
from distdoctor.plan.launchers.base import Launched

FIRST_PORT, PORTS = 25_000, 4_000
"""Range below Linux's ephemeral ports and the usual MASTER_PORTs, above the PORTS of launchers.base."""
NUMBERS = (
    ("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("FLUX_JOB_ID",), ("PALS_APID",),
    ("SLURM_HET_JOB_ID", SLURM_STEP), (SLURM_JOB, SLURM_STEP),
)  # fmt: skip
"""Variables that name a launch, alike in all of its tasks and in no other launch."""
DETECT: tuple[Callable[[Mapping[str, str]], Launched | None], ...] = (
    mpi.detect_openmpi, mpi.detect_hydra, schedulers.detect_slurm, mpi.detect_pmi,
)  # fmt: skip


@dataclass(frozen=True)
class Notice:
    """Port and name of one launch's notice."""

    port: int
    launch: str
    """Name of the launch in the notice, which distinguishes launches on the same port."""
    first: str
    """Host of task 0 by the launcher's own variables; empty if they do not name it."""

    def text(self, store_port: int) -> bytes:
        """Return the notice that names ``store_port``."""
        return f"distdoctor {self.launch} {store_port}\n".encode()

    def read(self, text: bytes) -> int | None:
        """Return the port in a notice of this launch, None for any other text."""
        words = text.decode("ascii", "replace").split()
        if words[:2] != ["distdoctor", self.launch] or len(words) != 3 or not words[2].isdecimal():
            return None
        return int(words[2]) if len(words[2]) < 6 and 0 < int(words[2]) < 65536 else None


def notice_of(env: Mapping[str, str]) -> Notice | None:
    """Return the notice of the launch that this process is a task of; None if no launcher names it."""
    launched = next(filter(None, (detect(env) for detect in DETECT)), None)
    if launched is None:
        return None
    name = mpi.hydra_control_port() if launched.launcher == mpi.HYDRA_NAME else ""
    for variables in NUMBERS:
        if not name and all(env.get(variable) for variable in variables):
            name = " ".join(f"{variable}={env[variable]}" for variable in variables)
    if not name:
        return None
    digest = hashlib.sha256(name.encode()).hexdigest()
    master = launched.found.get("master_addr")
    return Notice(FIRST_PORT + int(digest[:8], 16) % PORTS, digest[8:24], str(master.value) if master else "")

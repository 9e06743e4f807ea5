"""Files that lie beside a job's logs: they are read like these, but not asked how they end."""

from __future__ import annotations

import re

NAMES: tuple[str, ...] = (".cfg", ".conf", ".csv", ".html", ".ini", ".ipynb", ".json", ".md", ".patch", ".py")
NAMES += (".sbatch", ".sh", ".slurm", ".toml", ".tsv", ".yaml", ".yml", "requirements.txt")
"""How their names end."""
_KEPT = re.compile(
    r"/mlruns/.{0,300}/(?:metrics|params|tags|inputs)/"  # MLflow's, a file for each value
    r"|/wandb/.{0,300}/logs/debug(?:-\w{1,16})?\.log$"  # of W&B's own processes
    r"|/(?:[^/]{0,80}[^a-z/])?(?:nvidia-smi|nvidia-bug-report|rocm-smi|amd-smi|ibstat|ibv_devinfo|sacct|scontrol|squeue"
    r"|py-?spy)(?:[^a-z/][^/]{0,80})?$",  # what tools were asked
    re.S,
)


_QUOTES = (".csv", ".md", ".patch", ".py", ".tsv")
"""Data and texts: what stands there was said by nobody of this job, however much it sounds so."""


def is_quoted(name: str) -> bool:
    """Whether what the file of this path holds says nothing of a job, by its name."""
    return name.endswith(_QUOTES)


def is_beside(name: str) -> bool:
    """Whether the file of this path is no log of a job, by its name."""
    return name.endswith(NAMES) or _KEPT.search(name) is not None

"""How many processors and GPUs this process may use, seen without torch: enough to size the plan.

What each rank really sees of its devices is asked of torch.cuda later, by the gpu stage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path


def count_cpus() -> int:
    """The processors that this process may be scheduled on."""
    return len(os.sched_getaffinity(0))


def count_gpus(env: Mapping[str, str] | None = None, dev: Path = Path("/dev")) -> int:
    """The NVIDIA devices visible under the mask of CUDA_VISIBLE_DEVICES, 0 without a driver.

    The mask is read as CUDA does: entries count up to the first that names no device; one named twice makes all of
    them invisible.
    """
    present = sorted(int(node.name[6:]) for node in dev.glob("nvidia[0-9]*") if node.name[6:].isdigit())
    mask = (os.environ if env is None else env).get("CUDA_VISIBLE_DEVICES")
    if mask is None or not present:
        return len(present)
    chosen: list[str] = []
    for entry in (part.strip() for part in mask.split(",")):
        by_name = re.match(r"(GPU|MIG)-", entry)
        if not by_name and not (re.fullmatch(r"\d{1,6}", entry) and int(entry) < len(present)):
            break
        chosen.append(entry if by_name else str(int(entry)))
    return len(chosen) if len(set(chosen)) == len(chosen) else 0

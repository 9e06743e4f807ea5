"""Number of processors and GPUs that this process may use, without torch: enough to size the plan.

The gpu stage later asks torch.cuda which devices each rank really sees.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from distdoctor.probes.gpu import amd

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
ONE = (("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), ("dev/nvhost-gpu",), ("dev/nvgpu",))
"""Files of an NVIDIA GPU without /dev/nvidia0: of WSL, which does not show their number, and of a Jetson, which has
one."""


def count_cpus() -> int:
    """Return the number of processors that this process may be scheduled on."""
    return len(os.sched_getaffinity(0))


def count_gpus(env: Mapping[str, str] | None = None, root: Path = Path("/")) -> int:
    """Return the number of devices visible under the masks, NVIDIA's or else AMD's; 0 without a driver."""
    env = os.environ if env is None else env
    dev, capabilities = root / "dev", root / "proc/driver/nvidia/capabilities"
    present = sum(1 for node in dev.glob("nvidia[0-9]*") if node.name[6:].isdigit())
    present = present or int(any(all((root / path).exists() for path in files) for files in ONE))
    if not present:
        return _of_amd(env, root)
    if all(any((capabilities / f"gpu{number}/mig").glob("gi*")) for number in range(present)):
        present = 1  # CUDA shows one MIG device (NVIDIA, Multi-Instance GPU User Guide, "CUDA Device Enumeration")
    return chosen(env.get(CUDA), present)


def chosen(mask: str | None, present: int) -> int:
    """Return the number of devices that a mask leaves.

    It is read as CUDA does: entries count up to the first that names no device; one named twice hides all of them; of
    MIG's devices only the first is taken.
    """
    if mask is None:
        return present
    entries: list[str] = []
    for entry in (part.strip() for part in mask.split(",")):
        if entry.startswith("MIG-"):
            return max(len(entries), 1)
        by_name = entry.startswith("GPU-")
        if not by_name and not (re.fullmatch(r"\d{1,6}", entry) and int(entry) < present):
            break
        entries.append(entry if by_name else str(int(entry)))
    return len(entries) if len(set(entries)) == len(entries) else 0


def _of_amd(env: Mapping[str, str], root: Path) -> int:
    """Return the number of AMD's GPUs that this user may open, under the mask of the runtime and then HIP's, which may
    have CUDA's name."""
    seen = amd.probe(root)
    if seen is None:
        return 0
    left = 0 if any(file.path == f"/{amd.KFD}" for file in seen.unusable) else seen.devices - len(seen.unusable)
    for name in (ROCR, HIP if HIP in env else CUDA):
        left = chosen(env.get(name), left) if left > 0 else 0
    return left

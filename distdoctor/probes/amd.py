"""AMD's GPUs on this host, as the kernel's driver (amdkfd) shows them, and whether this user may use them.

ROCm finds them in /sys/class/kfd/kfd/topology, where a node with SIMDs is a GPU (those that a cgroup keeps from the job
cannot be read), and opens /dev/kfd and the /dev/dri/renderD* of each: both belong to the groups render or video.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from distdoctor.model.facts import AmdFacts, DriverFile

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
KFD = "dev/kfd"
MOST = 128
"""Nodes of the topology that are looked at."""


def probe(root: Path = Path("/")) -> AmdFacts | None:
    """What is there; None where the kernel shows no such GPU. No device is opened."""
    files, count = [KFD], 0
    for properties in sorted((root / TOPOLOGY).glob("*/properties"))[:MOST]:
        try:
            text = properties.read_text(errors="replace")
        except OSError:
            continue
        if _number("simd_count", text):
            count += 1
            minor = _number("drm_render_minor", text)
            files += [f"dev/dri/renderD{minor}"] if minor else []
    if not count:
        return None
    return AmdFacts(count, tuple(DriverFile(f"/{path}", why) for path in files if (why := _closed(root / path))))


def _number(name: str, text: str) -> int:
    found = re.search(rf"^{name} (\d{{1,9}})$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _closed(path: Path) -> str:
    """The errno's name where this user cannot use it; empty where it can."""
    if not path.exists():
        return "ENOENT"
    return "" if os.access(path, os.R_OK | os.W_OK) else "EACCES"

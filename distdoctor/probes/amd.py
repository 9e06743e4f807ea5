"""AMD's GPUs on this host, as the kernel's driver (amdkfd) shows them, and whether this user may use them.

ROCm finds them in /sys/class/kfd/kfd/topology, where a node with SIMDs is a GPU (those that a cgroup keeps from the job
cannot be read), and opens /dev/kfd and the /dev/dri/renderD* of each: both belong to the groups render or video. What
amd-smi and rocm-smi tell of a device's memory they read from files of amdgpu, as here: mem_info_vram_total and _used,
and ras/umc_err_count, whose ``ue`` counts errors that were not corrected (ROCm/amdsmi, src/amd_smi/amd_smi_utils.cc;
the kernel's documentation, gpu/amdgpu/ras.rst).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from distdoctor.model.facts import AmdFacts, Device, DriverFile
from distdoctor.probes import proc

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
KFD = "dev/kfd"
MOST = 128
"""Nodes of the topology that are looked at."""


def probe(root: Path = Path("/")) -> AmdFacts | None:
    """What is there; None where the kernel shows no such GPU. No device is opened."""
    files, count, cards = [KFD], 0, list[Device]()
    nodes = (root / TOPOLOGY).glob("*/properties")
    for properties in sorted(nodes, key=lambda path: (len(path.parent.name), path.parent.name))[:MOST]:
        text = proc.text(properties)
        if not _number("simd_count ", text):
            continue
        count += 1
        if minor := _number("drm_render_minor ", text):
            files.append(f"dev/dri/renderD{minor}")
            if not _closed(root / files[-1]):
                cards.append(_card(root / f"sys/class/drm/renderD{minor}/device", count - 1))
    if not count:
        return None
    unusable = tuple(DriverFile(f"/{path}", why) for path in files if (why := _closed(root / path)))
    return AmdFacts(count, unusable, tuple(cards))


def _card(folder: Path, index: int) -> Device:
    return Device(
        index,
        bus_id=folder.resolve().name if folder.exists() else "",
        memory=_number("", proc.text(folder / "mem_info_vram_total")),
        memory_used=_number("", proc.text(folder / "mem_info_vram_used")),
        ecc_uncorrected=_number("ue: ", proc.text(folder / "ras/umc_err_count")),
    )


def _number(name: str, text: str) -> int | None:
    found = re.search(rf"^{name}(\d{{1,18}})$", text, re.MULTILINE)
    return int(found[1]) if found else None


def _closed(path: Path) -> str:
    """The errno's name where this user cannot use it; empty where it can."""
    if not path.exists():
        return "ENOENT"
    return "" if os.access(path, os.R_OK | os.W_OK) else "EACCES"

"""AMD's GPUs of this host, as the kernel's driver (amdkfd) shows them, and this user's access to them.

ROCm finds them in /sys/class/kfd/kfd/topology, where a node with SIMDs is a GPU (those that a cgroup keeps from the job
cannot be read), and opens /dev/kfd and the /dev/dri/renderD* of each: both belong to the groups render or video.
amd-smi and rocm-smi read a device's memory from files of amdgpu, as here: mem_info_vram_total and _used, and
ras/umc_err_count, whose ``ue`` counts errors that were not corrected (ROCm/amdsmi, src/amd_smi/amd_smi_utils.cc; the
kernel's documentation, gpu/amdgpu/ras.rst).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from distdoctor.model.facts import AmdFacts, Device, DriverFile
from distdoctor.model.text import clean, encodable
from distdoctor.probes.gpu.driver import output
from distdoctor.probes.host import proc

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
KFD = "dev/kfd"
MOST = 128
"""Limit of the nodes of the topology."""


def probe(root: Path = Path("/")) -> AmdFacts | None:
    """Return AMD's GPUs; None if the kernel shows none. No device is opened."""
    files, count, cards = [KFD], 0, list[Device]()
    nodes = (root / TOPOLOGY).glob("*/properties")
    for properties in sorted(nodes, key=lambda path: (len(path.parent.name), path.parent.name))[:MOST]:
        text = proc.text(properties)
        if not _amd_number("simd_count ", text):
            continue
        count += 1
        if minor := _amd_number("drm_render_minor ", text):
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
        memory=_amd_number("", proc.text(folder / "mem_info_vram_total")),
        memory_used=_amd_number("", proc.text(folder / "mem_info_vram_used")),
        ecc_uncorrected=_amd_number("ue: ", proc.text(folder / "ras/umc_err_count")),
    )


def _amd_number(name: str, text: str) -> int | None:
    match = re.search(rf"^{name}(\d{{1,18}})$", text, re.MULTILINE)
    return int(match[1]) if match else None


def _closed(path: Path) -> str:
    """Return the errno's name if this user cannot use the file; empty if he can."""
    if not path.exists():
        return "ENOENT"
    return "" if os.access(path, os.R_OK | os.W_OK) else "EACCES"


# Values of AMD's own commands: amd-smi, or else rocm-smi, if installed.
#
# ``amd-smi static --json`` and ``metric --json`` give an object for each GPU, up to ROCm 6.4 in a list, since then
# below ``gpu_data``; a number is ``{"value": 16, "unit": "GT/s"}`` or bare, and ``N/A`` a value that the GPU does not
# have. ``rocm-smi --json`` gives ``card0`` and so on, and ``system`` (AMD SMI CLI tool usage; ROCm/rocm_smi_lib,
# python_smi_tools).


STATIC, METRIC = ("amd-smi", "static", "--json"), ("amd-smi", "metric", "--json")
OLDER = (*("rocm-smi", "--showproductname", "--showbus", "--showmeminfo", "vram"), *("--showdriverversion", "--json"))
HOT = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal")
"""Causes of ``throttle`` that are heat. ``ppt`` is the power limit, which a busy GPU is at."""
GENERATIONS = {2: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
"""PCIe generation by whole GT/s per lane."""
SHOWN = 80


async def amd_smi_values(facts: AmdFacts) -> AmdFacts:
    """Return the facts with the commands' values of the cards that the kernel shows, matched by PCI address."""
    if not facts.cards:
        return facts
    if shutil.which(STATIC[0]):
        static, metric = [_objects(values) for values, _ in await asyncio.gather(output([*STATIC]), output([*METRIC]))]
        known = {_pci_address(gpu): _of_both(gpu, next(_same(gpu, metric), {})) for gpu in static}
        versions = [_words(gpu, "driver", "version") or _words(gpu, "driver", "driver_version") for gpu in static]
        return _with(facts, "amd-smi", known, versions)
    if shutil.which(OLDER[0]):
        values, _ = await output([*OLDER])
        cards, system = _older(values)
        return _with(facts, "rocm-smi", cards, [system])
    return facts


def _with(facts: AmdFacts, source: Any, known: dict[str, dict[str, Any]], versions: list[str]) -> AmdFacts:
    if not known:
        return facts
    cards = tuple(replace(card, **known.get(card.bus_id.lower() or "?", {})) for card in facts.cards)
    return replace(facts, source=source, module=next(filter(None, versions), ""), cards=cards)


def _of_both(static: Any, metric: Any) -> dict[str, Any]:
    """Return the fields of Device that the two commands answer."""
    throttle = _below(metric, "throttle")
    hot = any(str(_below(throttle, f"{name}_violation_status")).upper() == "ACTIVE" for name in HOT)
    values: dict[str, Any] = {
        "name": _words(static, "asic", "market_name"),
        "power_limit": _amd_smi_number(static, "limit", "socket_power")
        or _amd_smi_number(static, "limit", "ppt0", "socket_power_limit"),
        "ecc_uncorrected": _amd_smi_number(metric, "ecc", "total_uncorrectable_count"),
        "slowed": ("hardware-thermal",) if hot else (),
        "pcie_width": _amd_smi_number(metric, "pcie", "width"),
        "pcie_width_max": _amd_smi_number(static, "bus", "max_pcie_width"),
        "pcie_generation": GENERATIONS.get(_amd_smi_number(metric, "pcie", "speed") or 0),
        "pcie_generation_max": GENERATIONS.get(_amd_smi_number(static, "bus", "max_pcie_speed") or 0),
    }
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def _older(text: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Return rocm-smi's fields of the cards by PCI address, and the driver's version."""
    cards: dict[str, dict[str, Any]] = {}
    loaded = _loaded(text)
    for name, card in loaded.items() if isinstance(loaded, dict) else ():
        if name.startswith("card") and isinstance(card, dict):
            values = {key.lower(): value for key, value in card.items()}  # "Card series" was "Card Series" at times
            fields = {
                "name": _fit(values.get("card series", "")),
                "memory": _whole(values.get("vram total memory (b)")),
            }
            fields["memory_used"] = _whole(values.get("vram total used memory (b)"))
            known = {key: value for key, value in fields.items() if value not in (None, "", "N/A")}
            cards[_fit(values.get("pci bus", "")).lower()] = known
    return cards, _words(loaded, "system", "Driver version")


def _objects(text: str) -> list[Any]:
    loaded = _loaded(text)
    listed = loaded.get("gpu_data") if isinstance(loaded, dict) else loaded
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _loaded(text: str) -> Any:
    """Return the JSON in it: amd-smi may print a warning before."""
    begins = re.search(r"^[\[{]", text, re.MULTILINE)
    try:
        return json.loads(text[begins.start() :]) if begins else None
    except ValueError:
        return None


def _same(static: Any, metric: list[Any]) -> Iterator[Any]:
    return (gpu for gpu in metric if gpu.get("gpu") == static.get("gpu"))


def _pci_address(static: Any) -> str:
    return _words(static, "bus", "bdf").lower()


def _below(node: Any, *path: str) -> Any:
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _words(node: Any, *path: str) -> str:
    values = _below(node, *path)
    return _fit(values) if isinstance(values, str) and values != "N/A" else ""


def _amd_smi_number(node: Any, *path: str) -> int | None:
    value = _below(node, *path)
    return _whole(value.get("value") if isinstance(value, dict) else value)


def _whole(value: Any) -> int | None:
    """Return the number, also of a text, as rocm-smi writes numbers."""
    digits = re.match(r"\d{1,18}", str(value))
    return int(digits[0]) if digits else None


def _fit(text: Any) -> str:
    return clean(encodable(str(text).strip()))[:SHOWN]

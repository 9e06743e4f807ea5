"""What ``nvidia-smi -q -x`` says, where there is no nvidia-ml-py: the same fields, read from its XML.

The names of its elements are those of nvsmi_device_v12.dtd and, where they were others before, of v11.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from distdoctor.model.facts import Device, DeviceProcess

COMMAND = ("nvidia-smi", "-q", "-x")
MODES = {
    "Default": "default",
    "Exclusive_Thread": "exclusive-thread",
    "Prohibited": "prohibited",
    "Exclusive_Process": "exclusive-process",
}
SLOWED = {
    "hw_slowdown": "hardware",
    "sw_thermal_slowdown": "software-thermal",
    "hw_thermal_slowdown": "hardware-thermal",
    "hw_power_brake_slowdown": "power-brake",
}
POWER = ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit")
FABRIC = {"Not Started": "not-started", "In Progress": "in-progress", "Completed": "completed"}
RECOVERY = {
    "Reset": "reset",
    "GPU Reset": "reset",
    "Reboot": "reboot",
    "Node Reboot": "reboot",
    "Drain P2P": "drain",
    "Drain and Reset": "drain",
}
LOST = ("GPU is lost", "GPU requires reset")
"""In the place of values that it cannot have, some of them in brackets."""
END = "</nvidia_smi_log>"
UNCORRECTABLE = (
    *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"),
    "double_bit/total",
)


class BadOutput(Exception):
    """What the command printed is not its XML."""


def read(text: str) -> tuple[str | None, str | None, tuple[Device, ...]]:
    """The driver's version, the newest CUDA that it supports, and the devices. Raises BadOutput."""
    if "<!ENTITY" in text:
        raise BadOutput("it declares entities")
    begin, end = max(text.find("<?xml"), 0), text.rfind(END)
    try:  # it writes warnings around it, as "WARNING: infoROM is corrupted at gpu 0000:0A:00.0"
        log = ElementTree.fromstring(text[begin : end + len(END)] if end >= 0 else text)
    except ElementTree.ParseError as err:
        raise BadOutput(str(err)) from None
    devices = tuple(_device(index, gpu) for index, gpu in enumerate(log.iter("gpu")))
    return said(log, "driver_version"), said(log, "cuda_version"), devices


def said(element: ElementTree.Element, path: str) -> str | None:
    """The text there; None where the command says that it is not available, or not known."""
    found = (element.findtext(path) or "").strip()
    return None if not found or found in ("N/A", "Unknown Error", *LOST) or found.startswith("[") else found


def _device(index: int, gpu: ElementTree.Element) -> Device:
    words = {(item.text or "").strip().strip("[]") for item in gpu.iter()}
    lost = next((text for text in LOST if text in words), "")
    retired, remapped = "retired_pages/", "remapped_rows/"
    infos = gpu.findall("processes/process_info")
    fields: dict[str, Any] = {
        "memory": _bytes(said(gpu, "fb_memory_usage/total")),
        "memory_used": _bytes(said(gpu, "fb_memory_usage/used")),
        "processes": tuple(map(_process, filter(_computes, infos))),
        "compute_mode": MODES.get(said(gpu, "compute_mode") or ""),
        "mig": _yes(said(gpu, "mig_mode/current_mig")),
        "ecc": _yes(said(gpu, "ecc_mode/current_ecc")),
        "ecc_uncorrected": _sum(said(gpu, f"ecc_errors/volatile/{name}") for name in UNCORRECTABLE),
        "retired_pending": _yes(said(gpu, f"{retired}pending_retirement") or said(gpu, f"{retired}pending_blacklist")),
        "sram_worn": _yes(said(gpu, "ecc_errors/aggregate/sram_threshold_exceeded")),
        "persistence": _yes(said(gpu, "persistence_mode")),
        "power_limit": next((watts for path in POWER if (watts := _number(said(gpu, path))) is not None), None),
        "memory_drawn": sum(_bytes(said(info, "used_memory")) or 0 for info in infos if not _computes(info)),
        "remap_pending": _yes(said(gpu, f"{remapped}remapped_row_pending")),
        "remap_failed": _yes(said(gpu, f"{remapped}remapped_row_failure")),
        "slowed": tuple(name for reason, name in SLOWED.items() if _active(gpu, reason)),
        "pcie_width": _number(said(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width")),
        "pcie_width_max": _number(said(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width")),
        "pcie_generation": _number(said(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
        "pcie_generation_max": _number(said(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen")),
        "performance": _number((said(gpu, "performance_state") or "").removeprefix("P")),
        "fabric": FABRIC.get(said(gpu, "fabric/state") or "", ""),
        "recovery": RECOVERY.get(said(gpu, "gpu_recovery_action") or "", ""),
    }
    status = said(gpu, "fabric/status")
    if fields["fabric"] == "completed" and status not in (None, "Success"):
        fields["fabric_error"] = status
    return Device(
        index,
        name=said(gpu, "product_name") or "",
        uuid=said(gpu, "uuid") or "",
        bus_id=said(gpu, "pci/pci_bus_id") or gpu.get("id") or "",
        error=lost,
        **({} if lost else fields),
    )


def _computes(info: ElementTree.Element) -> bool:
    """Whether it is of type C, C+G or M+C (MPS); one of type G only draws."""
    return "C" in (said(info, "type") or "C")


def _process(info: ElementTree.Element) -> DeviceProcess:
    path = (said(info, "process_name") or "").split(" ")[0]
    return DeviceProcess(
        _number(said(info, "pid")) or 0, path.rpartition("/")[2], memory=_bytes(said(info, "used_memory"))
    )


def _active(gpu: ElementTree.Element, reason: str) -> bool:
    paths = (
        f"clocks_event_reasons/clocks_event_reason_{reason}",
        f"clocks_throttle_reasons/clocks_throttle_reason_{reason}",
    )
    return any(said(gpu, path) == "Active" for path in paths)


def _yes(text: str | None) -> bool | None:
    """None also for other words: ``ERR!``, ``Requested functionality has been deprecated``."""
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(text or "")


def _number(text: str | None) -> int | None:
    found = re.match(r"\d{1,15}", text or "")
    return int(found[0]) if found else None


def _bytes(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else number << 20  # MiB


def _sum(texts: Any) -> int | None:
    numbers = [number for text in texts if (number := _number(text)) is not None]
    return sum(numbers) if numbers else None

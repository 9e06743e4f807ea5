"""NVIDIA driver of this host: its files, its devices, gpud's faults, and PCIe redirection. No CUDA call is made."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from distdoctor.model.facts import (
    NOT_ASKED,
    BadFacts,
    Device,
    DeviceProcess,
    DriverFacts,
    DriverFile,
    GpudState,
    decode,
)
from distdoctor.model.text import clean, encodable, shortened
from distdoctor.probes.gpu import nvml_worker
from distdoctor.probes.host.processes import in_thread, in_time

DRIVER_SECONDS = 12
"""Limit of one answer: without persistence mode, an unused driver initializes again for each client, some seconds per
device."""
NVIDIA, DISPLAYS = "0x10de", ("0x0300", "0x0302")
"""PCI vendor, and the first digits of the classes of its GPUs (VGA and 3D controllers)."""
CONTROL_FILES = ("nvidiactl", "nvidia-uvm")
"""Files that CUDA opens beside the devices. To open them wakes no device up."""
PEERMEM = ("nvidia_peermem", "nv_peer_mem")
IMEX_CHANNELS = "dev/nvidia-caps-imex-channels"
MAX_TEXT = 300
MAX_DRIVER_BYTES = 1 << 22
NO_ANSWER = "no answer"


async def probe_driver(root: Path = Path("/")) -> DriverFacts | None:
    """Return the facts of the driver and its devices; None without a sign of either."""
    module, files, on_bus = module_version(root), device_files(root), devices_on_bus(root)
    if not (module or files or on_bus):
        return None
    closed = tuple(unusable(root, files))
    channels = sum(1 for _ in (root / IMEX_CHANNELS).glob("channel*"))
    facts = DriverFacts(
        module=module,
        files=files,
        on_bus=on_bus,
        unusable=closed,
        iommu=iommu(root),
        acs=redirecting_bridges(_on_bus(root)),
        imex_channels=channels,
        peermem=peermem(root),
    )
    if not (module or files):
        return facts
    watched = asyncio.ensure_future(in_time(probe_gpud, GPUD_SECONDS))
    return replace(await _ask_library(facts), gpud=await watched)


def module_version(root: Path) -> str | None:
    """Return the version of the kernel's module.

    The file has ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct ...``, with the open module ``...
    Open Kernel Module for x86_64  550.54.15  Release Build ...``.
    """
    try:
        text = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"Kernel Module\b[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return match[1] if match else None


def device_files(root: Path) -> tuple[str, ...]:
    """Return /dev/nvidia0 and so on, by number."""
    names = (path.name for path in (root / "dev").glob("nvidia[0-9]*"))
    return tuple(f"/dev/nvidia{n}" for n in sorted(int(name[6:]) for name in names if name[6:].isdigit()))


def devices_on_bus(root: Path) -> int:
    """Return the number of NVIDIA GPUs on the PCI bus, with or without a driver for them."""
    return sum(1 for _ in _on_bus(root))


def iommu(root: Path) -> tuple[str, ...]:
    """Return the IOMMU's modes for the GPUs: the types of their groups."""
    types = set()
    for device in _on_bus(root):
        try:
            types.add((device / "iommu_group/type").read_text().strip()[:16])
        except OSError:
            continue  # there is none, or an older kernel
    return tuple(sorted(types))


def peermem(root: Path) -> bool | None:
    """Return whether a module for GPUDirect RDMA is loaded; None if /sys shows no modules."""
    modules = root / "sys/module"
    return any((modules / name).is_dir() for name in PEERMEM) if modules.is_dir() else None


def _on_bus(root: Path) -> Iterator[Path]:
    for vendor in (root / "sys/bus/pci/devices").glob("*/vendor"):
        try:
            if vendor.read_text().strip() == NVIDIA and vendor.with_name("class").read_text().startswith(DISPLAYS):
                yield vendor.parent
        except OSError:
            continue


def unusable(root: Path, files: Sequence[str]) -> list[DriverFile]:
    """Return the driver's files that this user cannot use, without those that a cgroup keeps from the job (as SLURM's
    ConstrainDevices does with the devices of others)."""
    unopened = []
    for path in files:
        if not os.access(root / path[1:], os.R_OK | os.W_OK):
            unopened.append(DriverFile(path, "EACCES"))
    for name in CONTROL_FILES:
        try:
            os.close(os.open(root / "dev" / name, os.O_RDWR | os.O_CLOEXEC))
        except OSError as err:
            unopened.append(DriverFile(f"/dev/{name}", errno.errorcode.get(err.errno or 0, "")))
    return unopened


async def _ask_library(facts: DriverFacts) -> DriverFacts:
    """Return the facts with the answers of the library, or else of the command."""
    began = time.monotonic()
    said, trouble = await output([sys.executable, "-I", nvml_worker.__file__, str(DRIVER_SECONDS)])
    facts = replace(facts, seconds=round(time.monotonic() - began, 3))
    try:
        facts = _with_library_answers(facts, said, trouble)
    except (ValueError, KeyError, TypeError, AttributeError, BadFacts) as err:
        facts = replace(facts, error=f"nvml: {type(err).__name__}: {err}"[:MAX_TEXT])
    command = shutil.which(NVIDIA_SMI[0])
    if facts.source or command is None or trouble.startswith(NO_ANSWER):
        return facts  # any client of the same driver would wait as long
    said, trouble = await output([command, *NVIDIA_SMI[1:]])
    try:
        _, cuda, devices = read_nvidia_smi(said)
    except BadOutput:
        # The command has the library's error, and prints it in place of the XML.
        words = shortened(trouble or said.strip(), MAX_TEXT)
        return replace(facts, error=words) if words else facts
    return replace(facts, source="nvidia-smi", error="", cuda=cuda, devices=devices)


def _with_library_answers(facts: DriverFacts, said: str, trouble: str) -> DriverFacts:
    """Return the facts with the library's answers, up to the missing one."""
    first, *lines = [line for line in said.splitlines(keepends=True) if line.endswith("\n")] or [""]
    if not first:
        return replace(facts, error=trouble or "what asked it ended without a word")
    head = json.loads(first)
    library = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", head["library"] or "")
    version, error = library[1] if library else None, head["error"][:MAX_TEXT]
    facts = replace(facts, library=version, error=error, no_libcuda=head["no_libcuda"][:MAX_TEXT])
    if facts.error:
        return facts
    devices = [decode(line.encode(), Device) for line in lines]
    for index in range(len(devices), head["count"]):
        devices.append(Device(index, error=(trouble or "no word of it") if index == len(lines) else NOT_ASKED))
    return replace(facts, source="nvml", cuda=head["cuda"], devices=tuple(devices))


async def output(command: list[str]) -> tuple[str, str]:
    """Return the command's stdout, and the reason if that is incomplete.

    A command that does not end is killed and left alone: a process that a driver holds in the kernel cannot be waited
    for.
    """
    with os.fdopen(os.memfd_create("distdoctor:gpu"), "rb") as out:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as err:
            return "", f"{command[0]}: {err.strerror}"
        trouble = ""
        try:
            await in_thread(process.wait, DRIVER_SECONDS)
        except asyncio.TimeoutError:
            trouble = f"{NO_ANSWER} within {DRIVER_SECONDS} s"
        finally:
            if process.poll() is None:
                process.kill()
        status = process.returncode
        if status == -signal.SIGALRM:
            trouble = f"{NO_ANSWER} within {DRIVER_SECONDS} s"
        elif status is not None and status < 0 and not trouble:
            trouble = f"what asked it was ended by signal {-status}"
        return os.pread(out.fileno(), MAX_DRIVER_BYTES, 0).decode(errors="replace"), trouble


# Faults that gpud reports, if it runs here: it watches GPUs and their links, and keeps its observations.
#
# Its interface is HTTPS on port 15132 with a certificate that it makes itself, open to each process of the host; GET
# /v1/states gives the state of each of its components (leptonai/gpud: pkg/config/default.go, pkg/server/server.go and
# handlers_components.go, api/v1/types.go). Asked on the loopback alone. Blocking; run it with a time limit.


GPUD_HOST, GPUD_PORT, PATH = "127.0.0.1", 15132, "/v1/states"
GPUD_SECONDS = 2.0
MAX_GPUD_BYTES = 1 << 20
MAX_GPUD_EVENTS, SHOWN = 16, 200
OF_GPUS = "accelerator-nvidia-"


def probe_gpud(port: int = GPUD_PORT) -> tuple[GpudState, ...] | None:
    """Return the unhealthy states of the components that are about GPUs; None if no gpud answers."""
    try:
        socket.create_connection((GPUD_HOST, port), GPUD_SECONDS / 4).close()
    except OSError:
        return None
    try:
        states = json.loads(_ask_gpud(port))
        return tuple(_unhealthy(states))[:MAX_GPUD_EVENTS]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # another service has that port


def _ask_gpud(port: int) -> bytes:
    import http.client  # slow to load with its imports, and few hosts have a gpud
    import ssl

    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(GPUD_HOST, port, timeout=GPUD_SECONDS, context=trusting)
    try:
        connection.request("GET", PATH)
        return connection.getresponse().read(MAX_GPUD_BYTES)
    except http.client.HTTPException as err:
        raise OSError(str(err)) from None
    finally:
        connection.close()


def _unhealthy(components: Any) -> Iterator[GpudState]:
    for component in components:
        name = component["component"]
        for state in component.get("states") or () if name.startswith(OF_GPUS) else ():
            if state.get("health") in ("Unhealthy", "Degraded"):
                actions = (state.get("suggested_actions") or {}).get("repair_actions") or ()
                yield GpudState(
                    _fit(name.removeprefix(OF_GPUS)),
                    state["health"],
                    _fit(state.get("reason") or state.get("error") or ""),
                    tuple(map(_fit, actions)),
                )


def _fit(text: str) -> str:
    return clean(encodable(text))[:SHOWN]


# Access Control Services: PCIe bridges that send peer-to-peer writes of devices up to the root first.
#
# Read from the bridges' configuration space in /sys, of which only root sees more than the first 64 bytes. The
# capability is the extended one 0x0D, its control register is at 6, and bit 2 of that is "P2P Request Redirect" (the
# kernel's include/uapi/linux/pci_regs.h: PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL, PCI_ACS_RR), ``ReqRedir+`` of lspci -vvv.


EXTENDED, CAPABILITY, CONTROL, REDIRECTS = 0x100, 0x0D, 6, 0x04
MAX_BRIDGES = 48
"""Limit of the capabilities that are followed: a circular list ends there."""


def redirecting_bridges(devices: Iterable[Path]) -> int | None:
    """Return the number of redirecting bridges above these devices (folders of /sys/bus/pci/devices); None if
    unreadable."""
    bridges: dict[Path, bool] = {}
    for device in devices:
        for bridge in device.resolve().parents:
            config = bridge / "config"
            if bridge in bridges or not config.exists():
                continue
            control = _control(config)
            if control is None:
                return None
            bridges[bridge] = bool(control & REDIRECTS)
    return sum(bridges.values()) if bridges else None


def _control(path: Path) -> int | None:
    """Return the control register, 0 for a bridge without ACS; None if unreadable."""
    try:
        config = path.read_bytes()
    except OSError:
        return None
    if len(config) <= EXTENDED:
        return None
    place = EXTENDED
    for _ in range(MAX_BRIDGES):
        head = int.from_bytes(config[place : place + 4], "little")
        if head & 0xFFFF == CAPABILITY:
            return int.from_bytes(config[place + CONTROL : place + CONTROL + 2], "little")
        place = head >> 20
        if not EXTENDED <= place < len(config):
            return 0
    return 0


# XML of ``nvidia-smi -q -x``, for hosts without nvidia-ml-py: the same fields.
#
# The names of its elements are those of nvsmi_device_v12.dtd and, if they differ, of v11.


NVIDIA_SMI = ("nvidia-smi", "-q", "-x")
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
"""Texts in place of values of a lost device, some of them in brackets."""
END = "</nvidia_smi_log>"
UNCORRECTABLE = (
    *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"),
    "double_bit/total",
)


class BadOutput(Exception):
    """Output of the command that is not its XML."""


def read_nvidia_smi(text: str) -> tuple[str | None, str | None, tuple[Device, ...]]:
    """Return the driver's version, the newest CUDA that it supports, and the devices. Raises BadOutput."""
    if "<!ENTITY" in text:
        raise BadOutput("it declares entities")
    begin, end = max(text.find("<?xml"), 0), text.rfind(END)
    try:  # it writes warnings around it, as "WARNING: infoROM is corrupted at gpu 0000:0A:00.0"
        log = ElementTree.fromstring(text[begin : end + len(END)] if end >= 0 else text)
    except ElementTree.ParseError as err:
        raise BadOutput(str(err)) from None
    devices = tuple(_device(index, gpu) for index, gpu in enumerate(log.iter("gpu")))
    return element_text(log, "driver_version"), element_text(log, "cuda_version"), devices


def element_text(element: ElementTree.Element, path: str) -> str | None:
    """Return the text of the element; None if the command says that it is unavailable or unknown."""
    content = (element.findtext(path) or "").strip()
    return None if not content or content in ("N/A", "Unknown Error", *LOST) or content.startswith("[") else content


def _device(index: int, gpu: ElementTree.Element) -> Device:
    words = {(item.text or "").strip().strip("[]") for item in gpu.iter()}
    lost = next((text for text in LOST if text in words), "")
    retired, remapped = "retired_pages/", "remapped_rows/"
    infos = gpu.findall("processes/process_info")
    fields: dict[str, Any] = {
        "memory": _bytes(element_text(gpu, "fb_memory_usage/total")),
        "memory_used": _bytes(element_text(gpu, "fb_memory_usage/used")),
        "processes": tuple(map(_process, filter(_computes, infos))),
        "compute_mode": MODES.get(element_text(gpu, "compute_mode") or ""),
        "mig": _yes(element_text(gpu, "mig_mode/current_mig")),
        "ecc": _yes(element_text(gpu, "ecc_mode/current_ecc")),
        "ecc_uncorrected": _sum(element_text(gpu, f"ecc_errors/volatile/{name}") for name in UNCORRECTABLE),
        "retired_pending": _yes(
            element_text(gpu, f"{retired}pending_retirement") or element_text(gpu, f"{retired}pending_blacklist")
        ),
        "sram_worn": _yes(element_text(gpu, "ecc_errors/aggregate/sram_threshold_exceeded")),
        "persistence": _yes(element_text(gpu, "persistence_mode")),
        "power_limit": next((watts for path in POWER if (watts := _to_int(element_text(gpu, path))) is not None), None),
        "memory_drawn": sum(_bytes(element_text(info, "used_memory")) or 0 for info in infos if not _computes(info)),
        "remap_pending": _yes(element_text(gpu, f"{remapped}remapped_row_pending")),
        "remap_failed": _yes(element_text(gpu, f"{remapped}remapped_row_failure")),
        "slowed": tuple(name for reason, name in SLOWED.items() if _active(gpu, reason)),
        "pcie_width": _to_int(element_text(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width")),
        "pcie_width_max": _to_int(element_text(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width")),
        "pcie_generation": _to_int(element_text(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
        "pcie_generation_max": _to_int(element_text(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen")),
        "performance": _to_int((element_text(gpu, "performance_state") or "").removeprefix("P")),
        "fabric": FABRIC.get(element_text(gpu, "fabric/state") or "", ""),
        "recovery": RECOVERY.get(element_text(gpu, "gpu_recovery_action") or "", ""),
    }
    status = element_text(gpu, "fabric/status")
    if fields["fabric"] == "completed" and status not in (None, "Success"):
        fields["fabric_error"] = status
    return Device(
        index,
        name=element_text(gpu, "product_name") or "",
        uuid=element_text(gpu, "uuid") or "",
        bus_id=element_text(gpu, "pci/pci_bus_id") or gpu.get("id") or "",
        error=lost,
        **({} if lost else fields),
    )


def _computes(info: ElementTree.Element) -> bool:
    """Return whether the process is of type C, C+G or M+C (MPS); one of type G only draws."""
    return "C" in (element_text(info, "type") or "C")


def _process(info: ElementTree.Element) -> DeviceProcess:
    path = (element_text(info, "process_name") or "").split(" ")[0]
    return DeviceProcess(
        _to_int(element_text(info, "pid")) or 0,
        path.rpartition("/")[2],
        memory=_bytes(element_text(info, "used_memory")),
    )


def _active(gpu: ElementTree.Element, reason: str) -> bool:
    paths = (
        f"clocks_event_reasons/clocks_event_reason_{reason}",
        f"clocks_throttle_reasons/clocks_throttle_reason_{reason}",
    )
    return any(element_text(gpu, path) == "Active" for path in paths)


def _yes(text: str | None) -> bool | None:
    """Return yes or no; None also for other texts: ``ERR!``, ``Requested functionality has been deprecated``."""
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(text or "")


def _to_int(text: str | None) -> int | None:
    match = re.match(r"\d{1,15}", text or "")
    return int(match[0]) if match else None


def _bytes(text: str | None) -> int | None:
    number = _to_int(text)
    return None if number is None else number << 20  # MiB


def _sum(texts: Any) -> int | None:
    numbers = [number for text in texts if (number := _to_int(text)) is not None]
    return sum(numbers) if numbers else None

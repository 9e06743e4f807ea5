"""Asks the NVIDIA driver's management library: started as a script, in a process of its own, which can be ended.

A driver may never answer, and a library that does not fit it may crash. One JSON object goes to stdout:

    {"library": PATH | null, "error": TEXT, "driver": TEXT, "cuda": "12.8", "devices": [{...}]}

``library`` is the file that was loaded, also where it then said no; ``error`` is empty where it answered. A device is
a dict with the fields of ``distdoctor.model.facts.Device``; what it cannot say is left out. The constants are those of
nvml.h; a function that an older driver lacks is one of the things that cannot be said.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
FABRIC_STATES = ("", "not-started", "in-progress", "completed")
SLOWED = {0x08: "hardware", 0x20: "software-thermal", 0x40: "hardware-thermal", 0x80: "power-brake"}
RECOVERIES = {1: "reset", 2: "reboot", 3: "drain", 4: "drain", 6: "reset", 7: "reboot"}
"""NVML_GPU_RECOVERY_ACTION_*. 5 is of an IMEX domain, and not of the device."""
MAX_MEMORY = 1 << 48
"""Bytes: where the driver does not know how much a process uses, it says a number beyond all memory."""


def ask(nvml: Any) -> dict[str, Any]:
    """What the library says, through nvidia-ml-py's module. Raises its NVMLError where it cannot be begun."""
    nvml.nvmlInit()
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    devices = [device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    return {
        "driver": text(nvml.nvmlSystemGetDriverVersion()),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "devices": devices,
    }


def device(nvml: Any, index: int) -> dict[str, Any]:
    """One device: all that it says of itself."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as err:
        return {"index": index, "error": str(err)}
    found: dict[str, Any] = {"index": index}
    for fields in FIELDS:
        try:
            found.update(fields(nvml, handle))
        except nvml.NVMLError as err:
            if err.value == nvml.NVML_ERROR_GPU_IS_LOST:
                return {**found, "error": str(err)}
        except (AttributeError, ValueError):
            continue  # this nvidia-ml-py does not know it
    return found


def text(value: bytes | str) -> str:
    """nvidia-ml-py gave bytes up to version 11.515."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def name(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"name": text(nvml.nvmlDeviceGetName(handle))}


def uuid(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"uuid": text(nvml.nvmlDeviceGetUUID(handle))}


def bus(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"bus_id": text(nvml.nvmlDeviceGetPciInfo(handle).busId)}


def memory(nvml: Any, handle: Any) -> dict[str, Any]:
    found = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory": found.total, "memory_used": found.used}


def processes(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"processes": [process(one) for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]}


def process(one: Any) -> dict[str, Any]:
    """Who that is; of one that is not to be seen from here, its number alone."""
    found: dict[str, Any] = {"pid": one.pid}
    if one.usedGpuMemory is not None and one.usedGpuMemory < MAX_MEMORY:
        found["memory"] = one.usedGpuMemory
    try:
        with open(f"/proc/{one.pid}/comm", errors="replace") as comm:
            found["name"] = comm.read().strip()
        uid = os.stat(f"/proc/{one.pid}").st_uid
    except OSError:
        return found
    try:
        found["user"] = pwd.getpwuid(uid).pw_name
    except KeyError:
        found["user"] = str(uid)
    return found


def compute_mode(nvml: Any, handle: Any) -> dict[str, Any]:
    number = nvml.nvmlDeviceGetComputeMode(handle)
    return {"compute_mode": COMPUTE_MODES[number]} if 0 <= number < len(COMPUTE_MODES) else {}


def mig(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"mig": bool(nvml.nvmlDeviceGetMigMode(handle)[0])}


def ecc(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"ecc": bool(nvml.nvmlDeviceGetEccMode(handle)[0])}


def ecc_errors(nvml: Any, handle: Any) -> dict[str, Any]:
    kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return {"ecc_uncorrected": nvml.nvmlDeviceGetTotalEccErrors(handle, kind, since)}


def retired(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"retired_pending": bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))}


def remapped(nvml: Any, handle: Any) -> dict[str, Any]:
    _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {"remap_pending": bool(pending), "remap_failed": bool(failed)}


def slowed(nvml: Any, handle: Any) -> dict[str, Any]:
    reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"slowed": [said for bit, said in SLOWED.items() if reasons & bit]}


def pcie(nvml: Any, handle: Any) -> dict[str, Any]:
    return {
        "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "pcie_width_max": nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
    }


def links(nvml: Any, handle: Any) -> dict[str, Any]:
    found = []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            found.append(bool(nvml.nvmlDeviceGetNvLinkState(handle, number)))
        except nvml.NVMLError:
            break  # it has no such link, nor any beyond
    return {"links": found}


def fabric(nvml: Any, handle: Any) -> dict[str, Any]:
    found = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(found))
    state = FABRIC_STATES[found.state] if 0 <= found.state < len(FABRIC_STATES) else ""
    failed = state == "completed" and found.status != nvml.NVML_SUCCESS
    return {"fabric": state, "fabric_error": str(nvml.NVMLError(found.status)) if failed else ""}


def capability(nvml: Any, handle: Any) -> dict[str, Any]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return {"capability": f"{major}.{minor}"}


def recovery(nvml: Any, handle: Any) -> dict[str, Any]:
    value = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    known = value.nvmlReturn == nvml.NVML_SUCCESS
    return {"recovery": RECOVERIES.get(value.value.uiVal, "") if known else ""}


FIELDS: tuple[Callable[[Any, Any], dict[str, Any]], ...] = (
    *(name, uuid, bus, memory, processes, compute_mode, mig, ecc, ecc_errors, retired, remapped, slowed),
    *(pcie, links, fabric, capability, recovery),
)


def loaded() -> Iterator[str]:
    """The files that are mapped into this process under the library's name."""
    with open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "libnvidia-ml.so" in path:
                yield os.path.realpath(f"/{path}")


def main(seconds: int) -> None:
    signal.alarm(seconds)  # also where whoever asked has ended
    told: dict[str, Any] = {"library": None, "error": "", "devices": []}
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as err:
        told.update(error=str(err))
    else:
        told.update(library=next(loaded(), None))
        try:
            import pynvml
        except ImportError:
            told.update(error="nvidia-ml-py is not installed")
        else:
            try:
                told.update(ask(pynvml))
            except pynvml.NVMLError as err:
                told.update(error=text(pynvml.nvmlErrorString(err.value)))
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Worker that queries the NVIDIA driver's management library: a script in a process of its own, which can be ended.

A driver may never answer, and a library that does not fit it may crash: the lines until then count. One JSON object per
line goes to stdout, the first of them

    {"library": PATH | null, "error": TEXT, "no_libcuda": TEXT, "driver": TEXT, "cuda": "12.8" | null, "count": 8}

then one per device: a dict with the fields of ``distdoctor.model.facts.Device``, without unknown ones. ``library`` is
the file that was loaded, also if it then failed; ``error`` is empty if it answered, ``no_libcuda`` if the library by
which programs compute can be loaded. The constants are those of nvml.h; a function that an older driver lacks makes its
fields unknown.
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

LIBRARY, COMPUTES = "libnvidia-ml.so.1", "libcuda.so.1"
COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
FABRIC_STATES = ("", "not-started", "in-progress", "completed")
SLOWED = {0x08: "hardware", 0x20: "software-thermal", 0x40: "hardware-thermal", 0x80: "power-brake"}
RECOVERIES = {1: "reset", 2: "reboot", 3: "drain", 4: "drain", 6: "reset", 7: "reboot"}
"""NVML_GPU_RECOVERY_ACTION_*. 5 is of an IMEX domain, and not of the device."""
FABRIC_HEALTH = ((0, 1, "less bandwidth"), (4, 1, "a route is unhealthy"))
"""NVML_GPU_FABRIC_HEALTH_MASK_*: DEGRADED_BW and ROUTE_UNHEALTHY, with the shift of each, and its value for true."""
MAX_MEMORY = 1 << 48
"""Bytes: for unknown memory of a process the driver gives a number beyond all memory."""


def ask(nvml: Any) -> dict[str, Any]:
    """Return the library's facts of the driver, by nvidia-ml-py's module.

    Raises its NVMLError if it does not initialize.
    """
    nvml.nvmlInit()
    try:
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
        cuda = f"{number // 1000}.{number % 1000 // 10}"
    except nvml.NVMLError:
        cuda = None  # it looks into libcuda.so.1, which a container may lack
    return {"driver": text(nvml.nvmlSystemGetDriverVersion()), "cuda": cuda, "count": nvml.nvmlDeviceGetCount()}


def device(nvml: Any, index: int) -> dict[str, Any]:
    """Return all fields of one device."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as err:
        return {"index": index, "error": str(err)}
    values: dict[str, Any] = {"index": index}
    for fields in FIELDS:
        try:
            values.update(fields(nvml, handle))
        except nvml.NVMLError as err:
            if err.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                return {**values, "error": str(err)}
        except Exception:
            continue  # nvidia-ml-py and the library do not fit here, in one of many ways
    return values


def text(value: bytes | str) -> str:
    """Return text; nvidia-ml-py returned bytes up to version 11.515."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def name(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"name": text(nvml.nvmlDeviceGetName(handle))}


def uuid(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"uuid": text(nvml.nvmlDeviceGetUUID(handle))}


def bus(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"bus_id": text(nvml.nvmlDeviceGetPciInfo(handle).busId)}


def memory(nvml: Any, handle: Any) -> dict[str, Any]:
    memory_info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory": memory_info.total, "memory_used": memory_info.used}


def processes(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"processes": [process(entry) for entry in running(nvml, "Compute", handle)]}


def drawn(nvml: Any, handle: Any) -> dict[str, Any]:
    used = (entry.usedGpuMemory for entry in running(nvml, "Graphics", handle))
    return {"memory_drawn": sum(size for size in used if size is not None and size < MAX_MEMORY)}


def running(nvml: Any, kind: str, handle: Any) -> list[Any]:
    """Return the processes of a kind: drivers before 510 know the second version of that call alone."""
    for version in ("_v3", "_v2"):
        try:
            return list(getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses{version}")(handle))
        except nvml.NVMLError as err:
            if err.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
    return list(getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle))


def process(entry: Any) -> dict[str, Any]:
    """Return the process's fields; of an invisible one its number alone."""
    values: dict[str, Any] = {"pid": entry.pid}
    if entry.usedGpuMemory is not None and entry.usedGpuMemory < MAX_MEMORY:
        values["memory"] = entry.usedGpuMemory
    try:
        with open(f"/proc/{entry.pid}/comm", errors="replace") as comm:
            values["name"] = comm.read().strip()
        uid = os.stat(f"/proc/{entry.pid}").st_uid
    except OSError:
        return values
    try:
        values["user"] = pwd.getpwuid(uid).pw_name
    except KeyError:
        values["user"] = str(uid)
    return values


def persistence(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"persistence": bool(nvml.nvmlDeviceGetPersistenceMode(handle))}


def power(nvml: Any, handle: Any) -> dict[str, Any]:
    return {"power_limit": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000}


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


def sram(nvml: Any, handle: Any) -> dict[str, Any]:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return {"sram_worn": bool(status.bThresholdExceeded)}


def slowed(nvml: Any, handle: Any) -> dict[str, Any]:
    reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"slowed": [said for bit, said in SLOWED.items() if reasons & bit]}


def pcie(nvml: Any, handle: Any) -> dict[str, Any]:
    return {
        "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "pcie_width_max": nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
    }


def generation(nvml: Any, handle: Any) -> dict[str, Any]:
    return {
        "pcie_generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "pcie_generation_max": nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
    }


def performance(nvml: Any, handle: Any) -> dict[str, Any]:
    state = nvml.nvmlDeviceGetPerformanceState(handle)
    return {"performance": state} if state < nvml.NVML_PSTATE_UNKNOWN else {}


def links(nvml: Any, handle: Any) -> dict[str, Any]:
    up = []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            up.append(bool(nvml.nvmlDeviceGetNvLinkState(handle, number)))
        except nvml.NVMLError:
            break  # it has no such link, nor any beyond
    return {"links": up}


def recoveries(nvml: Any, handle: Any) -> dict[str, Any]:
    count = None
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            count = (count or 0) + nvml.nvmlDeviceGetNvLinkErrorCounter(
                handle, number, nvml.NVML_NVLINK_ERROR_DL_RECOVERY
            )
        except nvml.NVMLError:
            continue  # it has no such link, or that is down
    return {"link_recoveries": count}


def fabric(nvml: Any, handle: Any) -> dict[str, Any]:
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    state = FABRIC_STATES[info.state] if 0 <= info.state < len(FABRIC_STATES) else ""
    failed = state == "completed" and info.status != nvml.NVML_SUCCESS
    health = [said for shift, bad, said in FABRIC_HEALTH if info.healthMask >> shift & 3 == bad]
    error = str(nvml.NVMLError(info.status)) if failed else ""
    cluster = bytes(info.clusterUuid).hex() if any(info.clusterUuid) else ""
    return {"fabric": state, "fabric_error": error, "fabric_health": health, "fabric_cluster": cluster}


def capability(nvml: Any, handle: Any) -> dict[str, Any]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return {"capability": f"{major}.{minor}"}


def recovery(nvml: Any, handle: Any) -> dict[str, Any]:
    value = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    known = value.nvmlReturn == nvml.NVML_SUCCESS
    return {"recovery": RECOVERIES.get(value.value.uiVal, "") if known else ""}


FIELDS: tuple[Callable[[Any, Any], dict[str, Any]], ...] = (
    *(name, uuid, bus, memory, processes, drawn, persistence, power, compute_mode, mig, ecc, ecc_errors, retired),
    *(sram, remapped, slowed, pcie, generation, performance, links, recoveries, fabric, capability, recovery),
)


def loaded() -> Iterator[str]:
    """Yield the files that are mapped into this process under the library's name."""
    with open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "libnvidia-ml.so" in path:
                yield os.path.realpath(f"/{path}")


def unloadable(library: str) -> str:
    """Return the loader's error for ``library``; empty if it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as err:
        return str(err)
    return ""


def main(seconds: int) -> None:
    signal.alarm(seconds)  # also if the parent has ended
    facts: dict[str, Any] = {"library": None, "error": "", "no_libcuda": unloadable(COMPUTES), "count": 0}
    if why := unloadable(LIBRARY):
        write_now({**facts, "error": why})
        return
    facts.update(library=next(loaded(), None))
    try:
        import pynvml
    except ImportError:
        write_now({**facts, "error": "nvidia-ml-py is not installed"})
        return
    try:
        facts.update(ask(pynvml))
    except pynvml.NVMLError as err:
        facts.update(error=text(pynvml.nvmlErrorString(err.value)))
    write_now(facts)
    for index in range(facts["count"]):
        write_now(device(pynvml, index))


def write_now(values: dict[str, Any]) -> None:
    """Write at once: the next call may never end."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))

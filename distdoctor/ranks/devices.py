"""Devices of a rank's process: visibility, correct computation, and copies between peers."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distdoctor.ranks.groups import State


SIDE = 512
"""Rows of the matrices. Their entries are small whole numbers: every sum is exact in float32, and in TF32, too."""
MAX_ERROR = 300
COMPUTING = "distdoctor computes on"
"""Start of the line on stdout with the device under test and all results so far: of a product that never ends it is the
last one."""
MEMORY_POOLS = 115
TIMED_SIDE, PRODUCTS = 1024, 8
"""Rows of the matrices whose products are timed, and the number of products in one try."""
TIMED_SECONDS, LEAST_TRIES = 0.1, 3
"""Limits of all tries on one device: it takes some time until its clock is up."""


def visible(state: State, mine: int | None = None, compute: bool = False) -> dict[str, Any]:
    """Return every visible CUDA device, or in ``reason`` why there is none.

    ``mine``: the local rank whose device alone is to compute, None for all of them; ``compute``: whether they are
    to.
    """
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return {"visible": [], "reason": "this torch is a CPU build"}
    began = time.monotonic()
    available = torch.cuda.is_available()
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except Exception as err:
        available, why = False, str(err)
    else:
        why = "no device is available"
    started = round(time.monotonic() - began, 3)
    common = {"architectures": torch.cuda.get_arch_list(), "library": next(_libraries(), None), "started": started}
    if not available:
        return {"visible": [], "reason": reason(why), **common}
    devices: list[dict[str, Any]] = []
    # CUDA's own count: before it is initialized torch counts what NVML lists, also a device that CUDA cannot use.
    count = torch.cuda.device_count()
    for index in range(count):
        try:
            properties = torch.cuda.get_device_properties(index)
        except Exception as err:  # it does not answer any more
            devices.append({"index": index, "name": "", "error": str(err).partition("\n")[0][:MAX_ERROR]})
            continue
        devices.append(
            {
                "index": index,
                "name": properties.name,
                "uuid": str(getattr(properties, "uuid", "")),
                "capability": f"{properties.major}.{properties.minor}",
                "memory_pools": memory_pools(index),
            }
        )
    answer = {"visible": devices, "reason": None if devices else "no device is visible", **common}
    for device in devices if compute else ():
        if "error" not in device and (mine is None or mine % count == device["index"]):
            sys.stdout.write(f"{COMPUTING} {device['index']} {json.dumps(answer)}\n")
            sys.stdout.flush()
            device.update(_computed(device["index"]))
    return answer


def memory_pools(index: int) -> bool | None:
    """Return the driver's answer for a device that CUDA has initialized (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED of
    cuda.h)."""
    device, value = ctypes.c_int(), ctypes.c_int()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        known = cuda.cuDeviceGet(ctypes.byref(device), index) == 0
        known = known and cuda.cuDeviceGetAttribute(ctypes.byref(value), MEMORY_POOLS, device) == 0
    except (OSError, AttributeError):  # ROCm's has other names
        return None
    return bool(value.value) if known else None


def reason(text: str) -> str:
    """Return the reason for no device, from torch's exception: CUDA's own error, which follows torch's question
    ("Unexpected error from cudaGetDeviceCount(). Did you run ...? Error 802: system not yet initialized"), else the
    first sentence. The texts are those of c10/cuda/CUDAFunctions.cpp."""
    line = text.partition("\n")[0]
    number = re.search(r"\bError \d{1,4}: \S.*", line)
    return (number[0] if number else line.partition(". ")[0])[:MAX_ERROR]


def _computed(index: int) -> dict[str, Any]:
    """Compare a product of matrices with the processor's."""
    import torch

    numbers = torch.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 7
    try:
        there = numbers.to(torch.float32).to(f"cuda:{index}")
        product = (there @ there.T).cpu()
    except Exception as err:
        return {"error": str(err).partition("\n")[0][:MAX_ERROR]}
    right = torch.equal(product.to(torch.int64), numbers @ numbers.T)
    return {"computed": "right" if right else "wrong", "speed": _speed(index)}


def _speed(index: int) -> float | None:
    """Return products per second, of the best of several tries, by the device's own clock; None if they cannot be
    timed."""
    import torch

    try:
        with torch.cuda.device(index):
            event: Any = torch.cuda.Event
            before, after = event(enable_timing=True), event(enable_timing=True)
            matrix = torch.ones(TIMED_SIDE, TIMED_SIDE).to(f"cuda:{index}")
            best, began, tries = 0.0, time.monotonic(), 0
            while tries < LEAST_TRIES or time.monotonic() - began < TIMED_SECONDS:
                before.record()
                for _ in range(PRODUCTS):
                    matrix @ matrix
                after.record()
                after.synchronize()
                tries += 1
                best = max(best, PRODUCTS * 1000 / before.elapsed_time(after))
        return round(best, 1)
    except Exception:  # a build without timers, no memory left: whether it computes is known
        return None


def _libraries() -> Iterator[str]:
    """Yield the files of the driver's CUDA library that are mapped into this process."""
    with open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            path = "/" + line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith("libcuda.so"):
                yield path


# Copies between devices of which the driver says that they can reach each other.
#
# An IOMMU that translates, or ACS on a PCIe switch, redirects such writes: the driver says that it can, and the copy
# arrives as zeros or as the old content, without an error (pytorch#84803, #87363, #132397), or never ends
# (pytorch#1637). Torch copies that way if cudaDeviceCanAccessPeer allows it (ATen/cuda/PeerToPeerAccess.cpp).


ELEMENTS = 1 << 16
"""Number of 8-byte elements: more than what travels inside a command."""
SECONDS = 1.5
"""Seconds after which no further pair is begun."""
COPYING = "distdoctor copies"
"""Start of the line on stdout with the pair under test: of a copy that never ends it is the last one."""


def copy_between_peers(state: State) -> dict[str, Any]:
    """Return the fields of :class:`distdoctor.model.facts.PeerCopies`, but for a copy that does not end."""
    import torch

    count = torch.cuda.device_count()
    every = [(a, b) for a in range(count) for b in range(count) if a != b]
    pairs = [pair for pair in every if torch.cuda.can_device_access_peer(*pair)]
    began, tried, wrong, error = time.monotonic(), 0, [], ""
    for number, (source, target) in enumerate(pairs, start=1):
        if time.monotonic() - began > SECONDS:
            break
        sys.stdout.write(f"{COPYING} {source} {target}\n")
        sys.stdout.flush()
        # Other numbers in each copy: an earlier one's in that memory must not pass for this one.
        numbers = torch.arange(ELEMENTS) + number * ELEMENTS
        try:
            arrived = numbers.to(f"cuda:{source}").to(f"cuda:{target}").cpu()
        except Exception as err:
            error = error or f"{source} to {target}: {err}".partition("\n")[0][:MAX_ERROR]
            continue
        tried += 1
        if not torch.equal(arrived, numbers):
            wrong.append((source, target))
    refused = [pair for pair in every if pair not in pairs]
    return {"devices": count, "able": len(pairs), "refused": refused, "tried": tried, "wrong": wrong, "error": error}

"""The GPUs of a node that the job uses, as the driver and torch report them, and their NCCL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from distdoctor.check_api.text import together
from distdoctor.knowledge.settings import ALLOCATOR
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import NOT_ASKED, Device, DriverFacts, Gpu, GpuFacts, NcclLibrary

__all__ = [
    "Device",
    "Gpu",
    "NcclLibrary",
    "allocator_refused",
    "build_for",
    "computed_right",
    "cuda_short_of_addresses",
    "cut_up",
    "deviating_from_model",
    "device_of",
    "device_of_rank",
    "device_text",
    "devices_text",
    "driver",
    "gpu_reasons",
    "looked_at_gpus",
    "may_share",
    "nccl_made",
    "nccl_warned",
    "out_of_reach",
    "used_device_list",
    "used_devices",
    "used_gpus",
    "visible_gpus",
    "wants_gpus",
]
NO_DRIVER = DriverFacts()
_ALLOCATOR_SAYS = re.compile(
    r"ConfigTokenizer|[Aa]llocator (?:option|config)|expandable_segments|garbage_collect|max_split_size|roundup_power2"
    r"|pinned_|^sto(?:ull?|i|d|f)$"
)
"""Text in torch's errors about its allocator's settings (c10/core/AllocatorConfig.h and CUDAAllocatorConfig.cpp); for
an invalid number it is only the name of the C++ function."""
T = TypeVar("T", bound=Hashable)


def driver(node: Node) -> DriverFacts:
    """Return the facts of the driver and its GPUs; empty without a driver."""
    return node.facts.driver or NO_DRIVER


def build_for(node: Node) -> str:
    """Return the platform of a torch build for the node's GPUs, ``CUDA`` or ``ROCm``; empty if it has none."""
    if driver(node).files:
        return "CUDA"
    amds = node.facts.amd is not None and bool(node.facts.amd.cards)
    return "ROCm" if amds and not driver(node).on_bus else ""


def wants_gpus(node: Node) -> bool:
    """Return whether the job as planned computes on GPUs if the node has some."""
    return "nccl" in node.plan.backends(gpus=True)


def looked_at_gpus(node: Node) -> tuple[GpuFacts, ...]:
    """Return the GPU facts of each rank of the node that has some."""
    return tuple(rank.gpu for rank in node.facts.ranks if rank.gpu is not None)


def visible_gpus(node: Node) -> tuple[Gpu, ...]:
    """Return the devices that the node's ranks see through torch, each once."""
    return tuple(_by_name(node).values())


def used_gpus(node: Node) -> tuple[Gpu, ...]:
    """Return the visible devices that the ranks use, each the one of its LOCAL_RANK.

    The others may be of another kind, such as a display's, or another user's.
    """
    looked = [(rank.gpu, rank.local_rank) for rank in node.facts.ranks if rank.gpu is not None and rank.gpu.visible]
    taken = {_name(facts, facts.visible[place % len(facts.visible)]) for facts, place in looked}
    return tuple(gpu for name, gpu in _by_name(node).items() if name in taken)


def _by_name(node: Node) -> dict[str, Gpu]:
    by_name: dict[str, Gpu] = {}
    for facts in looked_at_gpus(node):
        for gpu in facts.visible:
            name = _name(facts, gpu)
            if gpu.computed or gpu.error or name not in by_name:  # one of several ranks computes on it
                by_name[name] = gpu
    return by_name


def _name(facts: GpuFacts, gpu: Gpu) -> str:
    return gpu.uuid or f"{facts.cuda_visible_devices}/{gpu.index}"


def gpu_reasons(node: Node) -> tuple[str, ...]:
    """Return the errors of torch or the driver for which ranks of the node see no device."""
    errors = (facts.reason or facts.error or "" for facts in looked_at_gpus(node))
    return tuple(dict.fromkeys(text for text in errors if text))


def allocator_refused(node: Node) -> str:
    """Return torch's error about its allocator settings on this node; empty without one, or without settings.

    Measured with torch 2.11 on an H100: the error comes when CUDA starts."""
    if not any(name in node.variables for name in ALLOCATOR):
        return ""
    return next((text for text in gpu_reasons(node) if _ALLOCATOR_SAYS.search(text)), "")


def cuda_short_of_addresses(node: Node) -> bool:
    """Return whether CUDA fails on this node because ``ulimit -v`` limits its address space.

    It maps all of the host's and the GPU's memory: with 15 GiB torch 2.11 on an H100 sees no GPU.
    """
    limit = node.limits.address_space
    reasons = [facts.reason or facts.error or "" for facts in looked_at_gpus(node) if not facts.visible]
    return limit is not None and limit >= 0 and any("out of memory" in text for text in reasons)


def used_devices(node: Node) -> tuple[Device, ...]:
    """Return the devices, as the driver reports them, that the ranks see; all of them if torch sees none.

    A rank's mask, and the scheduler, may leave it a part of the node's. torch gives the UUID from 2.4 on: before, that
    part is unknown, and nothing is returned.
    """
    visible = visible_gpus(node)
    uuids = {_bare(gpu.uuid) for gpu in visible if gpu.uuid}
    if (amd := node.facts.amd) is not None and not driver(node).devices:
        return amd.cards if visible and len(visible) == len(amd.cards) else ()  # ROCm's UUIDs are not the kernel's
    known = tuple(device for device in driver(node).devices if not device.error)
    if uuids:
        return tuple(device for device in known if _bare(device.uuid) in uuids)
    return () if 0 < len(visible) < len(known) else known


def used_device_list(node: Node) -> tuple[Device, ...]:
    """Return the driver's devices that the ranks use; all of them if torch gives no UUIDs."""
    used, ranks = used_devices(node), used_gpus(node)
    taken = {_bare(gpu.uuid) for gpu in ranks if gpu.uuid}
    named = any(device.uuid for device in used)
    if taken and not named and len(ranks) < len(used):
        return ()  # their devices are unknown
    return tuple(device for device in used if not taken or not named or _bare(device.uuid) in taken)


def computed_right(node: Node, device: Device) -> bool:
    """Return whether a rank computed correctly on this device; without UUIDs, whether every rank did."""
    visible = visible_gpus(node)
    if not any(gpu.uuid for gpu in visible):
        return bool(visible) and all(gpu.computed == "right" for gpu in visible)
    return any(gpu.computed == "right" and _bare(gpu.uuid) == _bare(device.uuid) for gpu in visible)


def cut_up(node: Node) -> tuple[Device, ...]:
    """Return the devices with MIG on, if torch sees parts of them.

    CUDA names those "... MIG 1g.10gb", and shows a process only one of them, without any whole device (NVIDIA, MIG User
    Guide, "CUDA Device Enumeration").
    """
    parts = any(" MIG " in gpu.name for gpu in visible_gpus(node))
    return tuple(device for device in driver(node).devices if device.mig) if parts else ()


def out_of_reach(node: Node) -> tuple[Device, ...]:
    """Return the devices that the driver lists and cannot reach, without those that belong to other users."""
    refused = (NOT_ASKED, "Insufficient Permissions")  # NVML_ERROR_NO_PERMISSION, in nvidia-ml-py's words
    return tuple(device for device in driver(node).devices if device.error and device.error not in refused)


def device_text(device: Device) -> str:
    """Return the name of a device for a sentence: the driver's number and the bus address, which never changes."""
    return f"GPU {device.index} ({device.bus_id})" if device.bus_id else f"GPU {device.index}"


def device_of(node: Node, gpu: Gpu) -> Device | None:
    """Return the driver's device for a device of torch; None if it is unknown which that is."""
    known = (device for device in driver(node).devices if gpu.uuid and _bare(device.uuid) == _bare(gpu.uuid))
    return next(known, None)


def device_of_rank(node: Node, rank: int) -> str:
    """Return the name of the GPU that a rank of the node uses, for a sentence; by its rank if it is unknown."""
    process = next((r for r in node.facts.ranks if r.rank == rank), None)
    if process is None or process.gpu is None or not process.gpu.visible:
        return f"the GPU of rank {rank}"
    gpu = process.gpu.visible[process.local_rank % len(process.gpu.visible)]
    device = device_of(node, gpu)
    return f"{device_text(device) if device else f'device {gpu.index}'} (rank {rank})"


def devices_text(devices: Iterable[Device]) -> str:
    """Return the names of several devices."""
    return together(map(device_text, devices))


def deviating_from_model(cluster: Cluster, value: Callable[[Device], T | None]) -> Iterator[tuple[Node, Device, T, T]]:
    """Yield used devices whose value differs from more than half of their model in the job, if it has three devices or
    more.

    Each with its node, its value and the usual one. A table of expected values per model would be wrong for some
    machine.
    """
    by_model: dict[str, list[tuple[Node, Device, T]]] = {}
    for node in cluster.nodes:
        for device in used_devices(node):
            measured = value(device)
            if measured is not None:
                by_model.setdefault(device.name, []).append((node, device, measured))
    for of_model in by_model.values():
        (usual, count), *_ = Counter(measured for _, _, measured in of_model).most_common()
        if count >= 3 and count * 2 > len(of_model):
            yield from ((node, device, measured, usual) for node, device, measured in of_model if measured != usual)


def may_share(node: Node) -> bool:
    """Return whether NCCL lets several ranks share one GPU here: from 2.30 on if configured (NCCL src/init.cc)."""
    version = [int(part) for part in (node.identity.nccl or "").split(".")[:2] if part.isdecimal()]
    return version >= [2, 30] and node.variables.get("NCCL_MULTI_RANK_GPU_ENABLE", "0") not in ("0", "")


def nccl_made(nodes: Iterable[Node]) -> bool:
    """Return whether the check's own NCCL group was made on all ranks of these nodes."""
    ended = [
        stage.status for node in nodes for rank in node.facts.ranks for stage in rank.stages if stage.stage == "nccl"
    ]
    return bool(ended) and all(status == "ok" for status in ended)


def nccl_warned(node: Node, pattern: str) -> tuple[str, ...]:
    """Return NCCL's warnings that match ``pattern`` on this node, from ranks whose group failed: lines of evidence,
    each once."""
    texts = (
        text
        for rank in node.facts.ranks
        if rank.nccl is not None and any(stage.stage == "nccl" and stage.status != "ok" for stage in rank.stages)
        for text in rank.nccl.warnings
        if re.search(pattern, text)
    )
    return tuple(f"{node.name}: {text}" for text in dict.fromkeys(texts))


def _bare(uuid: str) -> str:
    """Return a UUID without NVML's prefix ``GPU-``, which torch omits."""
    return uuid.removeprefix("GPU-")

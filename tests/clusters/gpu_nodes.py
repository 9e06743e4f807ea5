"""Nodes of GPUs: the driver's facts and torch's, healthy but for what is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import AmdFacts, Device, DriverFacts, Gpu, GpuFacts, NodeFacts
from tests.facts_builder import healthy, met, node, with_identity, with_plan

NAME, MEMORY, MODULE = "NVIDIA H100 80GB HBM3", 81559 << 20, "550.54.15"
Changes = dict[str, Any]


def device(index: int, host: int = 0, **changes: Any) -> Device:
    """One of them, as the driver shows it."""
    uuid = f"GPU-{host}-{index}"
    known: Changes = {
        "name": NAME,
        "uuid": uuid,
        "bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "memory": MEMORY,
        "memory_used": 1 << 20,
        "compute_mode": "default",
        "persistence": True,
        "power_limit": 700,
        "mig": False,
        "ecc": True,
        "ecc_uncorrected": 0,
        "remap_pending": False,
        "remap_failed": False,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "performance": 0,
        "links": (True,) * 18,
        "link_recoveries": 0,
        "fabric": "completed",
        "capability": "9.0",
    }
    return Device(index, **{**known, **changes})


def visible(index: int, host: int = 0, **changes: Any) -> Gpu:
    """The same as torch shows it."""
    known: Changes = {"uuid": f"{host}-{index}", "capability": "9.0", "computed": "right"}
    return Gpu(index, NAME, **{**known, **changes})


def with_node(
    facts: NodeFacts,
    count: int = 8,
    *,
    host: int = 0,
    devices: dict[int, Changes] | None = None,
    gpus: dict[int, Changes] | None = None,
    torch: Changes | None = None,
    driver: Changes | None = None,
    cuda: str | None = "12.8",
) -> NodeFacts:
    """The facts of a node with ``count`` GPUs; changes by device, as the driver and as torch shows it."""
    shown = tuple(device(n, host, **(devices or {}).get(n, {})) for n in range(count))
    seen = tuple(visible(n, host, **(gpus or {}).get(n, {})) for n in range(count))
    files = tuple(f"/dev/nvidia{n}" for n in range(count))
    of_driver: Changes = {"source": "nvml", "module": MODULE, "library": MODULE, "cuda": "12.8", "files": files}
    known = DriverFacts(**{**of_driver, "on_bus": count, "devices": shown, **(driver or {})})
    own: Changes = {
        "visible": seen,
        "architectures": ("sm_80", "sm_90", "compute_90"),
        "library": "/usr/lib/libcuda.so.1",
    }
    gpu = GpuFacts(**{**own, **(torch or {})})
    facts = with_identity(facts, cuda=cuda, backends=("gloo", "nccl"))
    return replace(facts, driver=known, ranks=tuple(replace(rank, gpu=gpu) for rank in facts.ranks))


def one(backend: str = "nccl", **changes: Any) -> tuple[NodeFacts, ...]:
    """One node of 8 ranks, each with a GPU."""
    facts = with_plan(node("host0", 0, of=1, nproc=8, ip="127.0.0.1", master="127.0.0.1"), backend=backend)
    return met(with_node(facts, **changes))


def of_amd(*cards: Device, backend: str = "nccl") -> tuple[NodeFacts, ...]:
    """One node of 8 ranks, each with a GPU of AMD's; these as the kernel shows them."""
    shown = [next((card for card in cards if card.index == n), Device(n, memory=192 << 30)) for n in range(8)]
    rocm: Changes = {"visible": tuple(visible(n, uuid=f"{n:032x}") for n in range(8)), "architectures": ("gfx942",)}
    (facts,) = one(backend, torch=rocm, cuda=None)
    return (replace(facts, driver=None, amd=AmdFacts(8, (), tuple(shown))),)


def several(*changes: Changes, backend: str = "nccl") -> tuple[NodeFacts, ...]:
    """Nodes of 2 ranks and 8 GPUs."""
    nodes = (with_plan(facts, backend=backend) for facts in healthy(len(changes)))
    return tuple(
        with_node(facts, host=n, **changed) for n, (facts, changed) in enumerate(zip(nodes, changes, strict=True))
    )


def several_of_amd(*changes: Changes) -> tuple[NodeFacts, ...]:
    """Nodes of 2 ranks and 8 GPUs of AMD's: changes of all cards of a node, and of what is told of them together."""
    nodes = []
    for n, (facts, changed) in enumerate(zip(several(*({} for _ in changes)), changes, strict=True)):
        of_card = {name: value for name, value in changed.items() if name not in ("module", "devices", "source")}
        card: Changes = {"name": "AMD Instinct MI300X", "memory": 192 << 30, "pcie_width": 16, **of_card}
        cards = tuple(Device(number, bus_id=f"0000:{number:02x}:00.0", **card) for number in range(8))
        amd = AmdFacts(
            changed.get("devices", 8), (), cards, changed.get("source", "amd-smi"), changed.get("module", "6.12")
        )
        seen = GpuFacts(
            tuple(visible(number, n, uuid=f"{number:032x}") for number in range(8)), architectures=("gfx942",)
        )
        ranks = tuple(replace(rank, gpu=seen) for rank in facts.ranks)
        nodes.append(replace(with_identity(facts, cuda=None), driver=None, amd=amd, ranks=ranks))
    return tuple(nodes)

"""Nodes of GPUs that are odd and healthy: no check has anything to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import DeviceProcess, NodeFacts
from tests.clusters.gpu_nodes import several, visible, with_node
from tests.facts_builder import judged, met, node, with_plan

NOT_SAID = {"ecc": None, "ecc_uncorrected": None, "links": (), "fabric": "", "persistence": None, "power_limit": None}
"""Values that the driver does not report for virtual and consumer GPUs."""
DISPLAY = {**NOT_SAID, "name": "NVIDIA GeForce GT 1030", "memory": 2 << 30, "memory_used": 600 << 20, "pcie_width": 4}
NO_CODE = {"capability": "6.1", "computed": "", "error": "CUDA error: no kernel image is available for execution"}
NO_NVML = {"source": "", "error": "libnvidia-ml.so.1: cannot open", "devices": (), "library": None, "cuda": None}
MIG = (replace(visible(0), uuid="aaaa", name="NVIDIA H100 MIG 1g.10gb"),)
MPS = (DeviceProcess(9, "nvidia-cuda-mps", "root", 1 << 26),)


def alone(ranks: int = 1, **changes: Any) -> tuple[NodeFacts, ...]:
    """One node of so many ranks, and as many GPUs unless another count is given."""
    planned = with_plan(node("host0", 0, of=1, nproc=ranks, ip="127.0.0.1", master="127.0.0.1"), backend="nccl")
    return met(with_node(planned, **{"count": ranks, **changes}))


NODES: dict[str, Callable[[], tuple[NodeFacts, ...]]] = {
    "a part of MIG": lambda: alone(
        devices={0: {"mig": True}}, torch={"visible": MIG, "cuda_visible_devices": "MIG-aa"}
    ),
    "MPS": lambda: alone(devices={0: {"compute_mode": "exclusive-process", "processes": MPS}}),
    "virtual": lambda: alone(devices={0: {**NOT_SAID, "pcie_width": None, "remap_pending": None}}),
    "no NVML": lambda: alone(driver={**NO_NVML, "on_bus": 0}),
    "no sign of a driver": lambda: tuple(replace(one, driver=None) for one in alone()),
    "a container with one of eight": lambda: alone(driver={"on_bus": 8, "files": ("/dev/nvidia5",)}),
    "beside the display's": lambda: alone(count=2, devices={1: DISPLAY}, gpus={1: NO_CODE}),
    "the display's own": lambda: alone(
        devices={0: {"memory": 4 << 30, "memory_used": 900 << 20, "memory_drawn": 700 << 20}}
    ),
    "two cards of a workstation": lambda: alone(2, devices={n: {**NOT_SAID, "pcie_width": 8} for n in range(2)}),
    "a virtual machine with one of an NVSwitch node": lambda: alone(
        devices={0: {"fabric": "not-started", "links": ()}}
    ),
    "parts by control groups": lambda: several(*({"count": 2, "driver": {"on_bus": 8}} for _ in range(2))),
}


@pytest.mark.parametrize("name", NODES)
def test_silent(name: str) -> None:
    assert [(finding.check, finding.summary) for finding in judged(*NODES[name]()).findings] == []

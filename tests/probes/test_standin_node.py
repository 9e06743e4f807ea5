"""A node of eight GPUs that a stand-in for the driver's library answers for, with one defect at a time: each is named
exactly, and the healthy node is silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.clusters.gpu_nodes import one
from tests.facts_builder import judged
from tests.helpers.standin_nvml import asked, compile_into, lay_out

UNTRIED = {n: {"computed": ""} for n in range(8)}
NONE = {"visible": (), "reason": "No CUDA GPUs are available"}
CASES = [
    ("", {}, None),
    ("3.remap_pending 1", {}, "gpu/hardware"),
    ("3.remap_failed 1", {}, "gpu/hardware"),
    ("3.retired 1", {}, "gpu/hardware"),
    ("3.ecc_errors 4", {}, "gpu/hardware"),
    ("3.unreachable 15", {}, "gpu/hardware"),
    ("3.unreachable 16", {}, "gpu/hardware"),  # "GPU requires restart", says nvidia-ml-py
    ("3.unreachable 999", {}, "gpu/hardware"),
    ("3.fabric_health 0x29", {}, "gpu/nvlink-down"),
    ("3.power 350000", {}, "gpu/throttled"),
    ("3.drawn 0x1000000000\n3.used 0x1000000000", {}, None),
    ("3.recovery 1", {}, "gpu/hardware"),
    ("3.slowed 0x40", {}, "gpu/throttled"),
    ("3.width 4", {}, "gpu/pcie-narrow"),
    ("3.links_down 2", {}, "gpu/nvlink-down"),
    (f"3.used {60 << 30}\n3.pid {1 << 22}", {}, "gpu/out-of-memory"),
    ("3.compute_mode 2", {"gpus": UNTRIED}, "gpu/busy"),
    (f"3.compute_mode 3\n3.pid {1 << 22}", {"gpus": UNTRIED}, "gpu/busy"),
    ("fabric 1", {"gpus": UNTRIED}, "gpu/fabric-manager-not-running"),
    ("init 18", {"torch": NONE}, "gpu/driver-library-mismatch"),
    ("cuda 11040", {"torch": {**NONE, "reason": "The NVIDIA driver on your system is too old"}}, "nccl/driver-too-old"),
]
NAMES = [case[0].replace("\n", ", ") or "healthy" for case in CASES]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("driver"))


@pytest.mark.parametrize(
    ("defects", "changes", "check"), CASES, ids=[case[0].replace("\n", ", ") or "healthy" for case in CASES]
)
def test_named_exactly(
    defects: str,
    changes: dict[str, object],
    check: str | None,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lay_out(tmp_path)
    driver = asked(library, tmp_path, defects, monkeypatch)
    (facts,) = one(**changes)  # type: ignore[arg-type]
    named = [replace(device, uuid=device.uuid and f"GPU-0-{device.index}") for device in driver.devices]
    facts = replace(facts, driver=replace(driver, devices=tuple(named)))
    assert [finding.check for finding in judged(facts).roots] == ([check] if check else [])

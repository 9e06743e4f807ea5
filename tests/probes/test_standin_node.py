"""A node of eight GPUs that a stand-in for the driver's library answers for, with one defect at a time: each is named
exactly, and the healthy node is silent. What torch and the kernel show of it is added where the defect is theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.facts import DriverFacts, GpudState, KernelLine, NodeFacts, PeerCopies
from tests.clusters.gpu_nodes import one, several, visible
from tests.facts_builder import judged
from tests.helpers.standin_nvml import asked, compile_into, lay_out

UNTRIED = {n: {"computed": ""} for n in range(8)}
NONE = {"visible": (), "reason": "No CUDA GPUs are available"}
NO_CODE = {
    n: {"capability": "12.0", "computed": "", "error": "CUDA error: no kernel image is available"} for n in range(8)
}
FOUR = tuple(visible(n) for n in range(4))
GPUD = (GpudState("error-xid", "Unhealthy", "XID 79", ("REBOOT_SYSTEM",)),)
CASES: list[tuple[str, dict[str, Any], str | None]] = [
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
    ("3.slowed 0x8", {}, "gpu/throttled"),
    ("3.slowed 0x20", {}, "gpu/throttled"),
    ("3.slowed 0x40", {}, "gpu/throttled"),
    ("3.slowed 0x80", {}, "gpu/throttled"),
    ("3.slowed 0x4", {}, None),  # its power limit: what every busy GPU says
    ("3.width 4", {}, "gpu/pcie-narrow"),
    ("3.generation 1", {}, "gpu/pcie-narrow"),
    ("3.generation 1\n3.performance 8", {}, None),  # it rests
    ("3.generation_max 3", {}, "gpu/pcie-narrow"),
    ("3.recoveries 2", {}, "gpu/nvlink-down"),
    ("3.fabric_health 0x1a", {}, "gpu/nvlink-down"),
    ("3.sram_worn 1", {}, "gpu/hardware"),
    ("3.fabric_status 999", {"gpus": UNTRIED}, "gpu/fabric-manager-not-running"),
    ("persistence 0", {"torch": {"started": 8.0}, "driver": {"seconds": 9.0}}, "gpu/driver-slow"),
    ("3.mig 1", {"gpus": {3: {"computed": "", "error": "CUDA error: invalid device ordinal"}}}, "gpu/cannot-compute"),
    ("3.links_down 2", {}, "gpu/nvlink-down"),
    (f"3.used {60 << 30}\n3.pid {1 << 22}", {}, "gpu/out-of-memory"),
    ("3.compute_mode 2", {"gpus": UNTRIED}, "gpu/busy"),
    (f"3.compute_mode 3\n3.pid {1 << 22}", {"gpus": UNTRIED}, "gpu/busy"),
    ("fabric 1", {"gpus": UNTRIED}, "gpu/fabric-manager-not-running"),
    ("init 18", {"torch": NONE}, "gpu/driver-library-mismatch"),
    ("cuda 11040", {"torch": {**NONE, "reason": "The NVIDIA driver on your system is too old"}}, "nccl/driver-too-old"),
]
OF_TORCH: list[tuple[str, dict[str, Any], str]] = [
    ("computes wrong", {"gpus": {3: {"computed": "wrong"}}}, "gpu/hardware"),
    ("computes slowly", {"gpus": {n: {"speed": 9e3 if n == 3 else 2e4} for n in range(8)}}, "gpu/slow"),
    ("raises", {"gpus": {3: {"computed": "", "error": "CUDA error: unspecified"}}}, "gpu/cannot-compute"),
    ("not built for it", {"gpus": NO_CODE}, "gpu/arch-not-in-build"),
    ("fewer than ranks", {"torch": {"visible": FOUR}}, "gpu/fewer-than-ranks"),
    ("an empty mask", {"torch": {**NONE, "cuda_visible_devices": ""}}, "gpu/mask-mismatch"),
    ("copies arrive wrong", {"peers": PeerCopies(8, 56, (), 56, ((3, 4),))}, "nccl/p2p-broken"),
    ("copies are refused", {"peers": PeerCopies(8, 54, ((3, 4), (4, 3)), 54)}, "nccl/p2p-broken"),
    ("an Xid", {"log": "79"}, "gpu/hardware"),
    ("gpud", {"driver": {"gpud": GPUD}}, "gpu/hardware"),
]
UNLIKE = ("mig 1", "ecc 0", "model 1", "memory 0x1000000000", "count 7", "module")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("driver"))


def node_of(said: DriverFacts, /, peers: PeerCopies | None = None, log: str = "", **changes: Any) -> NodeFacts:
    """The node's facts with what the stand-in said."""
    (facts,) = one(**changes)
    facts = replace(facts, driver=with_names(said, 0, **changes.get("driver", {})), peers=peers)
    if log and facts.host is not None:
        line = KernelLine("gpu/hardware", "cause", f"NVRM: Xid (PCI:0000:10:00): {log}", 10.0, {"xid": log})
        facts = replace(facts, host=replace(facts.host, kernel_log=(line,)))
    return facts


def with_names(said: DriverFacts, host: int, **changes: Any) -> DriverFacts:
    """With the UUIDs that the same devices have in torch's facts."""
    named = [replace(device, uuid=device.uuid and f"GPU-{host}-{device.index}") for device in said.devices]
    return replace(said, devices=tuple(named), **changes)


@pytest.mark.parametrize(
    ("defects", "changes", "check"), CASES, ids=[case[0].replace("\n", ", ") or "healthy" for case in CASES]
)
def test_named_exactly(
    defects: str,
    changes: dict[str, Any],
    check: str | None,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lay_out(tmp_path)
    facts = node_of(asked(library, tmp_path, defects, monkeypatch), **changes)
    assert [finding.check for finding in judged(facts).roots] == ([check] if check else [])


def test_what_torch_and_the_kernel_show(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path)
    healthy = asked(library, tmp_path, "", monkeypatch)
    for name, changes, check in OF_TORCH:
        found = [finding.check for finding in judged(node_of(healthy, **changes)).roots]
        assert found == [check], name


def test_a_node_that_is_unlike_the_others(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path)
    healthy = asked(library, tmp_path, "", monkeypatch)
    for defects in UNLIKE:
        if defects == "module":
            other = replace(healthy, module="535.129.03", library="535.129.03")
        else:
            other = asked(library, tmp_path, defects, monkeypatch)
        third = replace(several({}, {}, {})[2], driver=with_names(other, 2))
        nodes = (replace(one, driver=with_names(healthy, n)) for n, one in enumerate(several({}, {}, {})[:2]))
        (root,) = judged(*nodes, third).roots
        assert (root.check, root.nodes) == ("gpu/nodes-differ", ("host2",)), defects

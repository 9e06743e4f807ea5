"""The driver of GPUs, asked through its own library's interface: a stand-in answers, in C, as nvml.h says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from distdoctor.model.facts import NOT_ASKED, DriverFacts, DriverFile
from distdoctor.probes.gpu import driver
from tests.helpers.standin_nvml import asked, compile_into, lay_out

Node = Callable[..., DriverFacts]
SAMPLES = Path(__file__).parent / "standin"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def node(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    lay_out(tmp_path)
    return lambda defects="": asked(library, tmp_path, defects, monkeypatch)


def test_no_sign_of_a_driver(tmp_path: Path) -> None:
    assert asyncio.run(driver.probe_driver(tmp_path)) is None


def test_a_healthy_node_of_eight(node: Node) -> None:
    facts = node()
    assert (facts.source, facts.error, facts.module, facts.library) == ("nvml", "", "550.54.15", "550.54.15")
    assert (facts.cuda, facts.on_bus, len(facts.files), facts.unusable) == ("12.4", 8, 8, ())
    assert [device.index for device in facts.devices] == list(range(8))
    first = facts.devices[0]
    assert (first.name, first.bus_id, first.capability) == ("NVIDIA H100 80GB HBM3", "00000000:10:00.0", "9.0")
    assert (first.memory, first.memory_used, first.processes) == (81559 << 20, 1 << 20, ())
    assert (first.compute_mode, first.mig, first.ecc) == ("default", False, True)
    assert (first.ecc_uncorrected, first.remap_pending, first.remap_failed) == (0, False, False)
    assert (first.retired_pending, first.slowed, first.recovery, first.error) == (None, (), "", "")
    assert (first.persistence, first.power_limit, first.memory_drawn, first.fabric_health) == (True, 700, 0, ())
    assert (first.pcie_width, first.pcie_width_max) == (16, 16)
    assert (first.pcie_generation, first.pcie_generation_max, first.performance) == (5, 5, 0)
    assert first.link_recoveries == 0
    assert (first.links, first.fabric, first.fabric_error) == ((True,) * 18, "completed", "")


DEFECTS: list[tuple[str, str, object]] = [
    ("lost 1", "error", "GPU is lost"),
    ("reset 1", "error", "GPU requires restart"),
    ("unreachable 15", "error", "GPU is lost"),
    ("compute_mode 3", "compute_mode", "exclusive-process"),
    ("compute_mode 2", "compute_mode", "prohibited"),
    ("mig 1", "mig", True),
    ("ecc 0", "ecc", False),
    ("ecc_errors 2", "ecc_uncorrected", 2),
    ("retired 1", "retired_pending", True),
    ("sram_worn 1", "sram_worn", True),
    ("remap_pending 1", "remap_pending", True),
    ("remap_failed 1", "remap_failed", True),
    ("slowed 0x48", "slowed", ("hardware", "hardware-thermal")),
    ("slowed 0x4", "slowed", ()),  # its power limit: what every busy GPU says
    ("width 8", "pcie_width", 8),
    ("generation 1", "pcie_generation", 1),
    ("generation_max 3", "pcie_generation_max", 3),
    ("performance 8", "performance", 8),
    ("performance 32", "performance", None),
    ("recoveries 3", "link_recoveries", 3),
    ("links_down 2", "links", (False, False, *[True] * 16)),
    ("links 0", "links", ()),
    ("fabric 2", "fabric", "in-progress"),
    ("fabric_status 999", "fabric_error", "Unknown Error"),
    ("fabric_health 0x29", "fabric_health", ("less bandwidth",)),
    ("fabric_health 0x1a", "fabric_health", ("a route is unhealthy",)),
    ("persistence 0", "persistence", False),
    ("cluster 0xab", "fabric_cluster", "ab" * 16),
    ("power 350000", "power_limit", 350),
    ("drawn 0x100000", "memory_drawn", 1 << 20),
    ("unreachable 16", "error", "GPU requires restart"),
    ("recovery 1", "recovery", "reset"),
]


def test_a_defect_each(node: Node) -> None:
    facts = node(f"count {len(DEFECTS)}\n" + "".join(f"{n}.{defect}\n" for n, (defect, _, _) in enumerate(DEFECTS)))
    for device, (defect, field, value) in zip(facts.devices, DEFECTS, strict=True):
        assert getattr(device, field) == value, defect
        assert device.error == "" or field == "error"


def test_who_uses_it(node: Node) -> None:
    facts = node(f"2.pid {os.getpid()}\n2.used {40 << 30}\n5.pid {1 << 22}\n")
    (one,), (unseen,) = facts.devices[2].processes, facts.devices[5].processes
    assert (one.pid, one.memory, one.name != "", one.user != "") == (os.getpid(), 40 << 30, True, True)
    assert (unseen.pid, unseen.name, unseen.user) == (1 << 22, "", "")


def test_a_driver_that_is_older_than_nvidia_ml_py(node: Node) -> None:
    facts = node(f"old 1\n2.pid {1 << 22}\n")
    assert [len(device.processes) for device in facts.devices] == [0, 0, 1, 0, 0, 0, 0, 0]


def test_a_container_without_the_library_that_computes(node: Node) -> None:
    facts = node("cuda 0\n")
    assert (facts.source, facts.cuda, len(facts.devices)) == ("nvml", None, 8)
    assert "libcuda.so.1: cannot open" in facts.no_libcuda


def test_a_device_that_does_not_answer(node: Node) -> None:
    facts = node("5.stuck 1\n")
    said = [device.error for device in facts.devices]
    assert said == [*[""] * 5, "no answer within 12 s", NOT_ASKED, NOT_ASKED]


def test_a_library_that_does_not_fit_the_module(node: Node, tmp_path: Path) -> None:
    facts = node("init 18\n")
    assert (facts.source, facts.error, facts.library) == ("", "Driver/library version mismatch", "550.54.15")


def test_a_library_that_crashes(node: Node) -> None:
    assert node("crash 1\n").error == "what asked it was ended by signal 6"


def test_a_driver_that_never_answers(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "DRIVER_SECONDS", 1)
    facts = node("hang 1\n")
    assert "within 1 s" in facts.error or "signal 14" in facts.error
    assert facts.module == "550.54.15"


def test_files_that_this_user_may_not_use(node: Node, tmp_path: Path) -> None:
    (tmp_path / "dev/nvidia-uvm").unlink()
    assert node().unusable == (DriverFile("/dev/nvidia-uvm", "ENOENT"),)


def test_gpus_without_a_driver(tmp_path: Path) -> None:
    lay_out(tmp_path, 2)
    (tmp_path / "proc/driver/nvidia/version").unlink()
    for path in (tmp_path / "dev").iterdir():
        path.unlink()
    facts = asyncio.run(driver.probe_driver(tmp_path))
    assert facts is not None
    assert (facts.on_bus, facts.module, facts.files, facts.source) == (2, None, (), "")


def test_the_open_module_says_its_version_in_other_words(tmp_path: Path) -> None:
    lay_out(tmp_path, 1)
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(line)
    assert driver.module_version(tmp_path) == "570.86.15"


AGGREGATE = "<aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate>"
POWER = "<gpu_power_readings><current_power_limit>72.00 W</current_power_limit></gpu_power_readings>"


class TestCommand:
    """nvidia-smi -q -x, where there is no nvidia-ml-py."""

    def test_healthy(self) -> None:
        version, cuda, devices = driver.read_nvidia_smi((SAMPLES / "healthy.xml").read_text())
        assert (version, cuda, len(devices)) == ("555.42.06", "12.5", 1)
        one = devices[0]
        assert (one.name, one.uuid[:12], one.bus_id) == ("NVIDIA L4", "GPU-c5533cd4", "00000000:01:00.0")
        assert (one.memory, one.memory_used, one.processes) == (23034 << 20, 1 << 20, ())
        assert (one.compute_mode, one.mig, one.ecc) == ("default", None, True)
        assert (one.ecc_uncorrected, one.remap_pending, one.remap_failed) == (0, False, False)
        assert (one.retired_pending, one.slowed, one.fabric, one.recovery) == (None, (), "", "")
        assert (one.pcie_width, one.pcie_width_max, one.persistence, one.sram_worn) == (16, 16, False, None)
        assert (one.pcie_generation, one.pcie_generation_max, one.performance) == (4, 4, 8)

    @pytest.mark.parametrize(
        ("was", "now", "field", "value"),
        [
            ("<dram_uncorrectable>0", "<dram_uncorrectable>3", "ecc_uncorrected", 3),
            ("<persistence_mode>Disabled", "<persistence_mode>Enabled", "persistence", True),
            ("<volatile>", AGGREGATE + "<volatile>", "sram_worn", True),
            ("<fabric>", POWER + "<fabric>", "power_limit", 72),
            ("<remapped_row_pending>No", "<remapped_row_pending>Yes", "remap_pending", True),
            ("<current_link_width>16x", "<current_link_width>8x", "pcie_width", 8),
            ("<current_link_gen>4", "<current_link_gen>1", "pcie_generation", 1),
            ("<performance_state>P8", "<performance_state>P0", "performance", 0),
            ("<compute_mode>Default", "<compute_mode>Exclusive_Process", "compute_mode", "exclusive-process"),
            ("hw_slowdown>Not Active", "hw_slowdown>Active", "slowed", ("hardware",)),
            ("<product_name>NVIDIA L4", "<product_name>[GPU is lost]", "error", "GPU is lost"),
            ("<product_name>NVIDIA L4", "<product_name>GPU requires reset", "error", "GPU requires reset"),
            ("<fabric><state>N/A", "<fabric><state>In Progress", "fabric", "in-progress"),
            ("<current_ecc>Enabled", "<current_ecc>ERR!", "ecc", None),
            ("<remapped_row_pending>No", "<remapped_row_pending>[Unknown Error]", "remap_pending", None),
        ],
    )
    def test_defects(self, was: str, now: str, field: str, value: object) -> None:
        text = (SAMPLES / "healthy.xml").read_text()
        assert was in text
        (one,) = driver.read_nvidia_smi(text.replace(was, now, 1))[2]
        assert getattr(one, field) == value

    def test_who_only_draws_is_not_among_those_who_compute(self) -> None:
        def process(pid: int, kind: str) -> str:
            used = "<used_memory>100 MiB</used_memory>"
            name = f"<process_name>/usr/bin/p{pid}</process_name>"
            return f"<process_info><pid>{pid}</pid><type>{kind}</type>{name}{used}</process_info>"

        text = (SAMPLES / "healthy.xml").read_text()
        listed = "".join(map(process, (1, 2, 3, 4), ("G", "C", "C+G", "M+C")))
        start, end = text.index("<processes"), text.index("</gpu>")
        (one,) = driver.read_nvidia_smi(f"{text[:start]}<processes>{listed}</processes>{text[end:]}")[2]
        assert [(process.pid, process.name) for process in one.processes] == [(2, "p2"), (3, "p3"), (4, "p4")]
        assert one.memory_drawn == 100 << 20

    def test_warnings_around_the_xml_are_passed_over(self) -> None:
        text = (SAMPLES / "healthy.xml").read_text()
        assert driver.read_nvidia_smi(
            f"{text}\nWARNING: infoROM is corrupted at gpu 0000:10:00.0\n"
        ) == driver.read_nvidia_smi(text)

    @pytest.mark.parametrize("text", ["", "Failed to initialize NVML", "<a", "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"])
    def test_what_is_none_of_its_xml(self, text: str) -> None:
        with pytest.raises(driver.BadOutput):
            driver.read_nvidia_smi(text)

    def test_it_is_asked_where_the_library_is_not_to_be_had(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lay_out(tmp_path, 1)
        command = tmp_path / "nvidia-smi"
        command.write_text(f"#!/bin/sh\ncat {SAMPLES}/healthy.xml\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        facts = asyncio.run(driver.probe_driver(tmp_path))
        assert facts is not None
        assert (facts.source, facts.error, facts.cuda, len(facts.devices)) == ("nvidia-smi", "", "12.5", 1)


def test_the_channels_of_an_nvlink_domain(tmp_path: Path) -> None:
    lay_out(tmp_path, 1)
    (tmp_path / "dev/nvidia-caps-imex-channels").mkdir()
    (tmp_path / "dev/nvidia-caps-imex-channels/channel0").touch()
    facts = asyncio.run(driver.probe_driver(tmp_path))
    assert facts is not None and facts.imex_channels == 1


def test_how_the_iommu_treats_the_gpus(tmp_path: Path) -> None:
    lay_out(tmp_path, 3)
    assert driver.iommu(tmp_path) == ()
    for number, kind in enumerate(("DMA-FQ", "identity", "DMA-FQ")):
        group = tmp_path / f"sys/bus/pci/devices/0000:{0x10 + number:02x}:00.0/iommu_group"
        group.mkdir()
        (group / "type").write_text(f"{kind}\n")
    assert driver.iommu(tmp_path) == ("DMA-FQ", "identity")


@pytest.mark.parametrize(
    ("modules", "loaded"), [(("nvidia",), False), (("nvidia", "nvidia_peermem"), True), ((), None)]
)
def test_whether_adapters_are_given_the_memory_of_gpus(
    tmp_path: Path, modules: tuple[str, ...], loaded: bool | None
) -> None:
    for name in modules:
        (tmp_path / "sys/module" / name).mkdir(parents=True)
    assert driver.peermem(tmp_path) is loaded

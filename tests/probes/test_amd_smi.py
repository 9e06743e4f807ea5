"""amd-smi and rocm-smi: programs in their place print what their documentation says they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.facts import AmdFacts, Device
from distdoctor.probes.gpu import amd

BUS = ("0000:05:00.0", "0000:26:00.0")
BY_KERNEL = AmdFacts(2, (), tuple(Device(n, bus_id=bus, memory=192 << 30) for n, bus in enumerate(BUS)))
MODEL = "AMD Instinct MI300X"
Install = Callable[[str, str], None]


def static(number: int, **bus: Any) -> dict[str, Any]:
    link = {"max_pcie_width": 16, "max_pcie_speed": {"value": 32, "unit": "GT/s"}, **bus}
    return {
        "gpu": number,
        "asic": {"market_name": MODEL, "asic_serial": "0x1", "target_graphics_version": "gfx942"},
        "bus": {"bdf": BUS[number].upper(), **link},
        "limit": {"socket_power": {"value": 750, "unit": "W"}},
        "driver": {"name": "amdgpu", "version": "6.12.12"},
    }


def metric(number: int, **changes: Any) -> dict[str, Any]:
    throttle = {"ppt_violation_status": "ACTIVE", "hbm_thermal_violation_status": "NOT ACTIVE"}
    return {
        "gpu": number,
        "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}},
        "ecc": {"total_correctable_count": 4, "total_uncorrectable_count": 0},
        "throttle": throttle,
        **changes,
    }


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A program of that name whose first word after it chooses what is printed."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return put


def amd_smi_saying(install: Install, first: Any, second: Any) -> AmdFacts:
    install("amd-smi", f"case $1 in static) echo '{json.dumps(first)}';; metric) echo '{json.dumps(second)}';; esac")
    return asyncio.run(amd.amd_smi_values(BY_KERNEL))


@pytest.mark.parametrize("wrapped", [True, False])
def test_what_it_says_of_each(install: Install, wrapped: bool) -> None:
    of_static, of_metric = [static(0), static(1)], [metric(0), metric(1)]
    both = ({"gpu_data": of_static}, {"gpu_data": of_metric}) if wrapped else (of_static, of_metric)
    facts = amd_smi_saying(install, *both)
    assert (facts.source, facts.module, facts.devices) == ("amd-smi", "6.12.12", 2)
    second = Device(
        1,
        MODEL,
        bus_id=BUS[1],
        memory=192 << 30,
        power_limit=750,
        ecc_uncorrected=0,
        pcie_width=16,
        pcie_width_max=16,
        pcie_generation=5,
        pcie_generation_max=5,
    )
    assert facts.cards[1] == second


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"ecc": {"total_uncorrectable_count": 3}}, "ecc_uncorrected", 3),
        ({"pcie": {"width": 8, "speed": {"value": 2.5, "unit": "GT/s"}}}, "pcie_width", 8),
        ({"pcie": {"width": 8, "speed": {"value": 2.5, "unit": "GT/s"}}}, "pcie_generation", 1),
        ({"pcie": {"width": "N/A", "speed": "N/A"}}, "pcie_width", None),
        ({"throttle": {"hbm_thermal_violation_status": "ACTIVE"}}, "slowed", ("hardware-thermal",)),
        ({"throttle": "N/A", "ecc": "N/A"}, "ecc_uncorrected", None),
    ],
)
def test_a_defect_each(install: Install, changes: dict[str, Any], field: str, value: object) -> None:
    facts = amd_smi_saying(install, [static(0), static(1)], [metric(0), metric(1, **changes)])
    assert getattr(facts.cards[1], field) == value
    assert facts.cards[0].pcie_width == 16


@pytest.mark.parametrize(
    "script", ["exit 255", "echo 'ERROR: no GPU'", "echo '[1, 2]'", "echo '{\"gpu_data\": 7}'", "echo '[{}]'"]
)
def test_what_is_none_of_its_answers(install: Install, script: str) -> None:
    install("amd-smi", script)
    assert asyncio.run(amd.amd_smi_values(BY_KERNEL)).cards == BY_KERNEL.cards


def test_a_warning_before_its_answer(install: Install) -> None:
    said = json.dumps([static(0), static(1)])
    install("amd-smi", f"echo 'WARNING: user is missing the render group'; echo '{said}'")
    assert [card.name for card in asyncio.run(amd.amd_smi_values(BY_KERNEL)).cards] == [MODEL, MODEL]


def test_the_older_command(install: Install) -> None:
    card = {"Card Series": "Instinct MI210", "PCI Bus": BUS[0].upper(), "VRAM Total Used Memory (B)": "297709568"}
    install("rocm-smi", f"echo '{json.dumps({'card0': card, 'system': {'Driver version': '6.7.0'}})}'")
    facts = asyncio.run(amd.amd_smi_values(BY_KERNEL))
    assert (facts.source, facts.module) == ("rocm-smi", "6.7.0")
    assert (facts.cards[0].name, facts.cards[0].memory_used) == ("Instinct MI210", 297709568)
    assert facts.cards[1] == BY_KERNEL.cards[1]


def test_neither_is_here(install: Install) -> None:
    assert asyncio.run(amd.amd_smi_values(BY_KERNEL)) == BY_KERNEL

"""Bridges that redirect, from configuration spaces as PCIe lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.probes.gpu.driver import redirecting_bridges

AER = 0x0001


def space(*capabilities: tuple[int, int]) -> bytes:
    """4 KiB with these extended capabilities: the ID, and what is in the register at 6."""
    config = bytearray(4096)
    for number, (identity, control) in enumerate(capabilities):
        place = 0x100 + 0x40 * number
        following = place + 0x40 if number + 1 < len(capabilities) else 0
        config[place : place + 4] = (following << 20 | 1 << 16 | identity).to_bytes(4, "little")
        config[place + 6 : place + 8] = control.to_bytes(2, "little")
    return bytes(config)


def gpu_below(root: Path, *bridges: bytes) -> Path:
    """The folder of a GPU below these, the uppermost first, as /sys/bus/pci/devices links to it."""
    folder = root / "sys/devices/pci0000:00"
    for number, config in enumerate(bridges):
        folder /= f"0000:{number:02x}:00.0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config").write_bytes(config)
    gpu = folder / "0000:41:00.0"
    gpu.mkdir(parents=True)
    (gpu / "config").write_bytes(space((0x0D, 0x1D)))  # its own is no bridge above it
    link = root / "sys/bus/pci/devices/0000:41:00.0"
    link.parent.mkdir(parents=True)
    link.symlink_to(gpu)
    return link


@pytest.mark.parametrize(
    ("bridges", "count"),
    [
        ([space((AER, 0), (0x0D, 0x1D))], 1),
        ([space((0x0D, 0x1D)), space((AER, 0)), space((0x0D, 0x0F))], 2),
        ([space((0x0D, 0x01))], 0),  # it only looks whether the sender is who it says
        ([space((AER, 0xFFFF))], 0),
        ([space((0x0D, 0x1D)), space()[:64]], None),  # what a user is shown
        ([], None),
    ],
)
def test_bridges_above_a_gpu(bridges: list[bytes], count: int | None, tmp_path: Path) -> None:
    assert redirecting_bridges([gpu_below(tmp_path, *bridges)]) == count


def test_a_list_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    config = bytearray(space((AER, 0)))
    config[0x100:0x104] = (0x100 << 20 | AER).to_bytes(4, "little")
    assert redirecting_bridges([gpu_below(tmp_path, bytes(config))]) == 0

"""AMD's GPUs, as the kernel shows them, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

from distdoctor.model.facts import AmdFacts, Device, DriverFile
from distdoctor.probes.gpu.amd import probe

PROCESSOR = "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n"
GPU = "cpu_cores_count 0\nsimd_count 880\nmem_banks_count 1\ndrm_render_minor {minor}\n"


def lay_out(root: Path, *files: str) -> None:
    """A processor and two GPUs, and of their files these."""
    for number, text in enumerate((PROCESSOR, GPU.format(minor=128), GPU.format(minor=136))):
        folder = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(text)
    for name in files:
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_all_are_there_and_open(tmp_path: Path) -> None:
    lay_out(tmp_path, "kfd", "dri/renderD128", "dri/renderD136")
    assert probe(tmp_path) == AmdFacts(2, (), (Device(0), Device(1)))


def test_what_amdgpu_says_of_their_memory(tmp_path: Path) -> None:
    lay_out(tmp_path, "kfd", "dri/renderD128", "dri/renderD136")
    device = tmp_path / "sys/devices/pci0000:c0/0000:c1:00.0"
    (device / "ras").mkdir(parents=True)
    (device / "mem_info_vram_total").write_text("206141652992\n")
    (device / "mem_info_vram_used").write_text("297709568\n")
    (device / "ras/umc_err_count").write_text("ue: 3\nce: 0\nde: 0\n")
    (tmp_path / "sys/class/drm/renderD136").mkdir(parents=True)
    (tmp_path / "sys/class/drm/renderD136/device").symlink_to(device)
    seen = probe(tmp_path)
    assert seen is not None
    used = Device(1, bus_id="0000:c1:00.0", memory=206141652992, memory_used=297709568, ecc_uncorrected=3)
    assert seen.cards == (Device(0), used)


def test_what_a_container_was_not_given(tmp_path: Path) -> None:
    lay_out(tmp_path, "dri/renderD128")
    missing = (DriverFile("/dev/kfd", "ENOENT"), DriverFile("/dev/dri/renderD136", "ENOENT"))
    assert probe(tmp_path) == AmdFacts(2, missing, (Device(0),))


def test_no_such_gpu(tmp_path: Path) -> None:
    assert probe(tmp_path) is None

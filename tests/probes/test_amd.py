"""AMD's GPUs, as the kernel shows them, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

from distdoctor.model.facts import AmdFacts, DriverFile
from distdoctor.probes.amd import probe

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
    assert probe(tmp_path) == AmdFacts(2)


def test_what_a_container_was_not_given(tmp_path: Path) -> None:
    lay_out(tmp_path, "dri/renderD128")
    missing = (DriverFile("/dev/kfd", "ENOENT"), DriverFile("/dev/dri/renderD136", "ENOENT"))
    assert probe(tmp_path) == AmdFacts(2, missing)


def test_no_such_gpu(tmp_path: Path) -> None:
    assert probe(tmp_path) is None

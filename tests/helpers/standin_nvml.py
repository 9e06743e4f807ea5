"""A node of GPUs that is not there: a library in the place of the driver's, and the driver's files, in a folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from distdoctor.model.facts import DriverFacts
from distdoctor.probes.gpu import driver

SOURCE = Path(__file__).parents[1] / "probes/standin/nvml.c"
VERSION = "550.54.15"
COMPILER = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def compile_into(folder: Path) -> Path:
    """The folder of the library, under the names by which a driver's is found. Skips the test without a compiler."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    library = folder / f"libnvidia-ml.so.{VERSION}"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    (folder / "libnvidia-ml.so.1").symlink_to(library.name)
    return folder


def lay_out(root: Path, count: int = 8, module: str = VERSION) -> None:
    """The files of a driver below ``root``: its version in /proc, its devices in /dev, these on the PCI bus."""
    proc, dev, bus = root / "proc/driver/nvidia", root / "dev", root / "sys/bus/pci/devices"
    for folder in (proc, dev, bus):
        folder.mkdir(parents=True, exist_ok=True)
    line = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {module}  Tue Mar  5 22:23:56 UTC 2024\n"
    (proc / "version").write_text(line)
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{n}" for n in range(count))):
        (dev / name).touch()
    for number in range(count):
        device = bus / f"0000:{0x10 + number:02x}:00.0"
        device.mkdir()
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")


def asked(library: Path, root: Path, defects: str, monkeypatch: pytest.MonkeyPatch) -> DriverFacts:
    """Return what the probe says of that node with these defects, in the words of the stand-in."""
    plan = root / "defects"
    plan.write_text(defects)
    monkeypatch.setenv("STANDIN_NVML", str(plan))
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join([str(library), os.environ.get("LD_LIBRARY_PATH", "")]))
    found = asyncio.run(driver.probe_driver(root))
    assert found is not None
    return found

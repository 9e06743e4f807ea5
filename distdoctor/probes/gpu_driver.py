"""The NVIDIA driver of this host: its files, and what it says of its devices. No CUDA call is made."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from distdoctor.model.error_text import shortened
from distdoctor.model.facts import NOT_ASKED, BadFacts, Device, DriverFacts, DriverFile, decode
from distdoctor.probes import acs, gpud, nvidia_smi, nvml
from distdoctor.probes.threads import in_thread, in_time

SECONDS = 12
"""For one answer: without persistence mode, a driver that nobody uses begins anew for each who asks, with some seconds
for each device."""
NVIDIA, DISPLAYS = "0x10de", ("0x0300", "0x0302")
"""The PCI vendor, and the first digits of the classes of its GPUs (VGA and 3D controllers)."""
CONTROL_FILES = ("nvidiactl", "nvidia-uvm")
"""What CUDA opens beside the devices. To open them wakes no device up."""
PEERMEM = ("nvidia_peermem", "nv_peer_mem")
IMEX_CHANNELS = "dev/nvidia-caps-imex-channels"
MAX_TEXT = 300
MAX_BYTES = 1 << 22
NO_ANSWER = "no answer"


async def probe(root: Path = Path("/")) -> DriverFacts | None:
    """What can be seen of the driver and its devices; None where there is no sign of either."""
    module, files, on_bus = module_version(root), device_files(root), devices_on_bus(root)
    if not (module or files or on_bus):
        return None
    closed = tuple(unusable(root, files))
    channels = sum(1 for _ in (root / IMEX_CHANNELS).glob("channel*"))
    facts = DriverFacts(
        module=module,
        files=files,
        on_bus=on_bus,
        unusable=closed,
        iommu=iommu(root),
        acs=acs.redirecting(_on_bus(root)),
        imex_channels=channels,
        peermem=peermem(root),
    )
    if not (module or files):
        return facts
    watched = asyncio.ensure_future(in_time(gpud.probe, gpud.SECONDS))
    return replace(await _asked(facts), gpud=await watched)


def module_version(root: Path) -> str | None:
    """The version of the kernel's module: ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct ...``,
    of the open one ``... Open Kernel Module for x86_64  550.54.15  Release Build ...``."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"Kernel Module\b[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else None


def device_files(root: Path) -> tuple[str, ...]:
    """/dev/nvidia0 and so on, by number."""
    names = (path.name for path in (root / "dev").glob("nvidia[0-9]*"))
    return tuple(f"/dev/nvidia{n}" for n in sorted(int(name[6:]) for name in names if name[6:].isdigit()))


def devices_on_bus(root: Path) -> int:
    """How many NVIDIA GPUs are on the PCI bus, whether or not there is a driver for them."""
    return sum(1 for _ in _on_bus(root))


def iommu(root: Path) -> tuple[str, ...]:
    """How the IOMMU treats them: the types of the groups that they are in."""
    types = set()
    for device in _on_bus(root):
        try:
            types.add((device / "iommu_group/type").read_text().strip()[:16])
        except OSError:
            continue  # there is none, or an older kernel
    return tuple(sorted(types))


def peermem(root: Path) -> bool | None:
    """Whether a module for GPUDirect RDMA is loaded; None where /sys shows no modules."""
    modules = root / "sys/module"
    return any((modules / name).is_dir() for name in PEERMEM) if modules.is_dir() else None


def _on_bus(root: Path) -> Iterator[Path]:
    for vendor in (root / "sys/bus/pci/devices").glob("*/vendor"):
        try:
            if vendor.read_text().strip() == NVIDIA and vendor.with_name("class").read_text().startswith(DISPLAYS):
                yield vendor.parent
        except OSError:
            continue


def unusable(root: Path, files: Sequence[str]) -> list[DriverFile]:
    """The driver's files that this user cannot use. What a cgroup keeps from the job (SLURM's ConstrainDevices does,
    with the devices of others) is not among them."""
    found = []
    for path in files:
        if not os.access(root / path[1:], os.R_OK | os.W_OK):
            found.append(DriverFile(path, "EACCES"))
    for name in CONTROL_FILES:
        try:
            os.close(os.open(root / "dev" / name, os.O_RDWR | os.O_CLOEXEC))
        except OSError as err:
            found.append(DriverFile(f"/dev/{name}", errno.errorcode.get(err.errno or 0, "")))
    return found


async def _asked(facts: DriverFacts) -> DriverFacts:
    """With what the library says, or else the command."""
    began = time.monotonic()
    said, trouble = await output([sys.executable, "-I", nvml.__file__, str(SECONDS)])
    facts = replace(facts, seconds=round(time.monotonic() - began, 3))
    try:
        facts = _told(facts, said, trouble)
    except (ValueError, KeyError, TypeError, AttributeError, BadFacts) as err:
        facts = replace(facts, error=f"nvml: {type(err).__name__}: {err}"[:MAX_TEXT])
    command = shutil.which(nvidia_smi.COMMAND[0])
    if facts.source or command is None or trouble.startswith(NO_ANSWER):
        return facts  # what asks the same driver would wait as long
    said, trouble = await output([command, *nvidia_smi.COMMAND[1:]])
    try:
        _, cuda, devices = nvidia_smi.read(said)
    except nvidia_smi.BadOutput:
        # It has the library's words for what is wrong, and prints them where the XML would be.
        words = shortened(trouble or said.strip(), MAX_TEXT)
        return replace(facts, error=words) if words else facts
    return replace(facts, source="nvidia-smi", error="", cuda=cuda, devices=devices)


def _told(facts: DriverFacts, said: str, trouble: str) -> DriverFacts:
    """With what the library said, up to where it gave no answer."""
    first, *lines = [line for line in said.splitlines(keepends=True) if line.endswith("\n")] or [""]
    if not first:
        return replace(facts, error=trouble or "what asked it ended without a word")
    head = json.loads(first)
    library = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", head["library"] or "")
    version, error = library[1] if library else None, head["error"][:MAX_TEXT]
    facts = replace(facts, library=version, error=error, no_libcuda=head["no_libcuda"][:MAX_TEXT])
    if facts.error:
        return facts
    devices = [decode(line.encode(), Device) for line in lines]
    for index in range(len(devices), head["count"]):
        devices.append(Device(index, error=(trouble or "no word of it") if index == len(lines) else NOT_ASKED))
    return replace(facts, source="nvml", cuda=head["cuda"], devices=tuple(devices))


async def output(command: list[str]) -> tuple[str, str]:
    """What it printed on stdout, and why that is not all. One that does not end is killed and left alone: a process
    that a driver holds in the kernel cannot be waited for."""
    with os.fdopen(os.memfd_create("distdoctor:gpu"), "rb") as out:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as err:
            return "", f"{command[0]}: {err.strerror}"
        trouble = ""
        try:
            await in_thread(process.wait, SECONDS)
        except asyncio.TimeoutError:
            trouble = f"{NO_ANSWER} within {SECONDS} s"
        finally:
            if process.poll() is None:
                process.kill()
        status = process.returncode
        if status == -signal.SIGALRM:
            trouble = f"{NO_ANSWER} within {SECONDS} s"
        elif status is not None and status < 0 and not trouble:
            trouble = f"what asked it was ended by signal {-status}"
        return os.pread(out.fileno(), MAX_BYTES, 0).decode(errors="replace"), trouble

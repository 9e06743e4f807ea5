"""The InfiniBand and RoCE ports of this host, from /sys/class/infiniband and /dev/infiniband. No device is opened for
more than to see whether it can be."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
from pathlib import Path
from typing import Literal

from distdoctor.model.facts import Gid, RdmaFacts, RdmaPort
from distdoctor.model.sanitize import fit
from distdoctor.probes import proc

SECONDS = 2.0
"""For all of it: behind these files is the firmware of the adapters."""
MAX_PORTS = 64
GIDS = 32
"""Entries read of a table that may have 256: addresses stand at its beginning."""


def probe(gid_index: int | None = None, root: Path = Path("/")) -> RdmaFacts | None:
    """What is there; None where no device is. ``gid_index``: an entry to read, wherever it stands."""
    folder = root / "sys/class/infiniband"
    try:
        devices = sorted(os.listdir(folder), key=_by_number)
    except OSError:
        return None
    ports = [
        _port(folder / device / "ports" / number, device, int(number), gid_index)
        for device in devices
        for number in sorted(proc.names(folder / device / "ports"), key=_by_number)
        if number.isdigit()
    ]
    if not devices:
        return None
    files = sorted((name for name in proc.names(root / "dev/infiniband") if name.startswith("uverbs")), key=_by_number)
    paths = tuple(f"/dev/infiniband/{name}" for name in files)
    return RdmaFacts(tuple(ports[:MAX_PORTS]), paths, dict(_unusable(root, paths)))


def _port(path: Path, device: str, number: int, gid_index: int | None) -> RdmaPort:
    rate = re.match(r"[\d.]+", proc.text(path / "rate"))
    layer = proc.text(path / "link_layer")
    return RdmaPort(
        fit(device),
        number,
        _word(path / "state"),
        _word(path / "phys_state"),
        "InfiniBand" if layer == "InfiniBand" else "Ethernet" if layer == "Ethernet" else "",
        float(rate[0]) if rate else None,
        _gids(path, gid_index),
    )


def _gids(path: Path, wanted: int | None) -> tuple[Gid, ...]:
    """The entries that are set. The kernel shows one that is not as zeros; where a container's network has no part in
    it, reading fails."""
    indices = {int(name) for name in proc.names(path / "gids") if name.isdigit()}
    found = []
    for index in sorted(i for i in indices if i < GIDS or i == wanted):
        try:
            address = ipaddress.IPv6Address(proc.text(path / "gids" / str(index)))
        except ValueError:
            continue
        if int(address) in (0, 0xFE80 << 112):
            continue
        version = _version(proc.text(path / "gid_attrs/types" / str(index)))
        told = f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
        found.append(Gid(index, told, version, fit(proc.text(path / "gid_attrs/ndevs" / str(index)))))
    return tuple(found)


def _version(text: str) -> Literal["1", "2", ""]:
    return "2" if text == "RoCE v2" else "1" if text in ("IB/RoCE v1", "RoCE v1") else ""


def _unusable(root: Path, paths: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for path in paths:
        try:
            os.close(os.open(root / path[1:], os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as err:
            found.append((path, errno.errorcode.get(err.errno or 0, "")))
    return found


def _word(path: Path) -> str:
    """``ACTIVE`` of ``4: ACTIVE``."""
    return fit(proc.text(path).partition(": ")[2])


def _by_number(name: str) -> list[tuple[int, str]]:
    """mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]

"""Files of NCCL (topology, graph, settings), and RDMA ports.

Topology: NCCL_TOPO_FILE, else the default file of virtual machines; NCCL_GRAPH_FILE has the paths between the GPUs.
Source: NCCL src/graph/topo.cc (``ncclTopoGetSystem``), search.cc (``ncclTopoCompute``), xml.cc.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from distdoctor.knowledge.nccl import NEWEST, Version, refusal
from distdoctor.model.facts import Gid, RdmaFacts, RdmaPort, TopologyFile
from distdoctor.model.text import fit
from distdoctor.probes.host import proc

TOPOLOGY_VARIABLE = "NCCL_TOPO_FILE"
GRAPH_VARIABLE = "NCCL_GRAPH_FILE"
USUAL_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"
MAX_TOPOLOGY_BYTES = 1 << 22
"""Limit; a machine of 16 GPUs has some 20 kB."""


def probe_topology(variables: Mapping[str, str], usual: str = USUAL_TOPOLOGY) -> TopologyFile | None:
    """Return the topology file, with NCCL's reason to refuse it; None if there is none and none is named."""
    path = variables.get(TOPOLOGY_VARIABLE)
    topology = _read_topology(usual if path is None else path, "system")
    if path is None:
        return None if topology.missing else replace(topology, variable=False)
    return topology


def probe_graph(variables: Mapping[str, str]) -> TopologyFile | None:
    """Return the graph file, with NCCL's reason to refuse it; None if none is named."""
    path = variables.get(GRAPH_VARIABLE)
    return None if path is None else _read_topology(path, "graphs")


def _read_topology(path: str, root: str) -> TopologyFile:
    try:
        # O_NONBLOCK: a FIFO or a device must not block.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(MAX_TOPOLOGY_BYTES + 1) or b""
    except OSError as err:
        return TopologyFile(fit(path), missing=errno.errorcode.get(err.errno or 0, "unknown"))
    refused = fit(refusal(text.decode(errors="replace"), root)) if len(text) <= MAX_TOPOLOGY_BYTES else ""
    return TopologyFile(fit(path), refused=refused)


# Settings files of NCCL: NCCL_CONF_FILE, or .nccl.conf in the user's home, then /etc/nccl.conf.
#
# Source: NCCL src/misc/param.cc (``initEnvFunc``, ``setEnvFile``). NCCL_CONF_FILE is read from 2.23 on. The home is
# that of getpwuid() up to 2.29, and $HOME after it, which also accepts a Windows line end. Variables of the environment
# and of an earlier file win: setenv() does not overwrite. A line is NAME=VALUE, taken as it stands, blanks too; one
# that begins with # is none. tests/recorded/nccl.json has the results of eight real NCCL versions on such files.


NAMED_FILE: Version = (2, 23)
HOME_VARIABLE: Version = (2, 30)
SYSTEM = "/etc/nccl.conf"
MAX_SETTINGS_BYTES = 1 << 16
MAX_VALUE = 1023


def settings_in_files(
    env: Mapping[str, str], system: str = SYSTEM, nccl: Version = NEWEST
) -> dict[str, tuple[str, str]]:
    """Return name -> (value, file) as an NCCL of this version takes them from files, without variables of the
    environment."""
    settings: dict[str, tuple[str, str]] = {}
    for path in settings_files(env, system, nccl):
        for name, value in _lines(path, windows=nccl >= HOME_VARIABLE):
            if name not in env:
                settings.setdefault(name, (value, path))
    return settings


def settings_files(env: Mapping[str, str], system: str = SYSTEM, nccl: Version = NEWEST) -> tuple[str, ...]:
    """Return the files in the order in which NCCL reads them."""
    named = env.get("NCCL_CONF_FILE") if nccl >= NAMED_FILE else None
    return named or _users(env, nccl), system


def _users(env: Mapping[str, str], nccl: Version) -> str:
    if nccl >= HOME_VARIABLE:
        return f"{env['HOME']}/.nccl.conf" if "HOME" in env else ""
    try:
        return os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".nccl.conf")
    except KeyError:  # a container's user need not be in /etc/passwd
        return ""


def _lines(path: str, windows: bool) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each line. ``windows``: a Windows line end is one."""
    try:
        # O_NONBLOCK: a FIFO or a device must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            text = os.fsdecode(file.read(MAX_SETTINGS_BYTES) or b"")
    except OSError:
        return
    for line in text.split("\n"):
        name, sign, value = line.removesuffix("\r" if windows else "").partition("=")
        if sign and not line.startswith("#"):
            yield name, value[:MAX_VALUE]


# InfiniBand and RoCE ports of this host, from /sys/class/infiniband and /dev/infiniband. A device is opened only to
# test the permission.


RDMA_SECONDS = 2.0
"""Limit of all reads: the firmware of the adapters answers them."""
MAX_PORTS = 64
GIDS = 32
"""Entries read of a table that may have 256: addresses are at its beginning."""


def probe_rdma(gid_index: int | None = None, root: Path = Path("/")) -> RdmaFacts | None:
    """Return the RDMA devices; None without any. ``gid_index``: a further entry to read."""
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
    """Return the entries that are set. The kernel shows an unset one as zeros; an entry of another network namespace is
    unreadable."""
    indices = {int(name) for name in proc.names(path / "gids") if name.isdigit()}
    gids = []
    for index in sorted(i for i in indices if i < GIDS or i == wanted):
        try:
            address = ipaddress.IPv6Address(proc.text(path / "gids" / str(index)))
        except ValueError:
            continue
        if int(address) in (0, 0xFE80 << 112):
            continue
        version = _version(proc.text(path / "gid_attrs/types" / str(index)))
        text = f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
        gids.append(Gid(index, text, version, fit(proc.text(path / "gid_attrs/ndevs" / str(index)))))
    return tuple(gids)


def _version(text: str) -> Literal["1", "2", ""]:
    return "2" if text == "RoCE v2" else "1" if text in ("IB/RoCE v1", "RoCE v1") else ""


def _unusable(root: Path, paths: tuple[str, ...]) -> list[tuple[str, str]]:
    denied = []
    for path in paths:
        try:
            os.close(os.open(root / path[1:], os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as err:
            denied.append((path, errno.errorcode.get(err.errno or 0, "")))
    return denied


def _word(path: Path) -> str:
    """Return ``ACTIVE`` of ``4: ACTIVE``."""
    return fit(proc.text(path).partition(": ")[2])


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sort key that puts mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]

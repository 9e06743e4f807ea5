"""What NCCL finds on a host beside its GPUs: InfiniBand and RoCE ports, and a file that tells it the topology."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table: an address that the port's connections may use."""

    index: int
    address: str
    """As an IPv6 address, shortened: ``fe80::...`` link-local, ``::ffff:10.1.2.3`` of an IPv4 address."""
    version: Literal["1", "2", ""] = ""
    """Of RoCE; empty where the kernel does not say. An InfiniBand port's entries are told as version 1."""
    interface: str = ""
    """The network interface that the address is of; empty on InfiniBand."""


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device, as /sys/class/infiniband shows it. An empty text, None: not told."""

    device: str
    port: int
    state: str = ""
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``: NCCL uses the first alone."""
    physical: str = ""
    """``LinkUp``, ``Polling``, ``Disabled`` and so on."""
    link_layer: Literal["InfiniBand", "Ethernet", ""] = ""
    """Ethernet: RoCE."""
    rate: float | None = None
    """Gb/s."""
    gids: tuple[Gid, ...] = ()
    """The entries that are set, of the first 32 and of that of NCCL_IB_GID_INDEX."""

    @property
    def name(self) -> str:
        """As NCCL_IB_HCA would name it."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True)
class RdmaFacts:
    """The RDMA devices of a host. Only where /sys shows any."""

    ports: tuple[RdmaPort, ...] = ()
    files: tuple[str, ...] = ()
    """/dev/infiniband/uverbs0 and so on: what a program opens to use a device."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Of these, those that this user cannot open, and the errno's name."""


@dataclass(frozen=True)
class TopologyFile:
    """The file that NCCL reads the topology of the machine from, or the ways between its GPUs (NCCL_GRAPH_FILE)."""

    path: str
    variable: bool = True
    """A variable names it; else it is where NCCL looks by itself."""
    missing: str = ""
    """The errno's name where it cannot be read: NCCL goes on without a topology, and ends without a graph."""
    refused: str = ""
    """Why NCCL's reader stops at it, and its init with it; empty where it does not."""

"""Ranks: their devices, how their stages ended, what they got done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

StageStatus = Literal["ok", "failed", "skipped", "error"]


PRODUCT_BEGUN = "a product of matrices was begun"


@dataclass(frozen=True)
class Gpu:
    """One visible device of one rank, as torch.cuda lists it."""

    index: int
    name: str
    uuid: str = ""
    capability: str = ""
    """The compute capability, as ``9.0``."""
    computed: Literal["", "right", "wrong"] = ""
    """Whether a product of matrices came out right on it; empty where none was made."""
    error: str = ""
    """What it raised instead."""
    speed: float | None = None
    """Products of matrices per second, of the best of several tries; None where none was timed."""
    memory_pools: bool | None = None
    """Whether CUDA can make memory pools of it, which a virtual GPU may not have; None where it does not say."""

    @property
    def went_no_further(self) -> bool:
        """Return whether it kept its process from going on, so that nothing is known of the devices after it."""
        return self.error.startswith(PRODUCT_BEGUN)


@dataclass(frozen=True)
class GpuFacts:
    """The devices one process can see. ``reason`` says why there are none (no CUDA build, no driver, empty mask)."""

    visible: tuple[Gpu, ...] = ()
    reason: str | None = None
    cuda_visible_devices: str | None = None
    error: str | None = None
    architectures: tuple[str, ...] = ()
    """What this torch has code for (torch.cuda.get_arch_list()): ``sm_90``, ``compute_90``."""
    library: str | None = None
    """The file of libcuda.so.1 that was loaded."""
    started: float | None = None
    """Seconds until CUDA could be used, or said that it cannot."""


@dataclass(frozen=True)
class NcclLog:
    """What a rank's NCCL said while the check made its group (NCCL_DEBUG=INFO). Empty: it said no such thing."""

    version: str = ""
    interface: str = ""
    """Of the connections by which the ranks find each other, with its address: ``eth0:10.0.0.1``."""
    network: str = ""
    """What carries data between nodes: ``IB``, ``Socket``, or a plugin's name for itself."""
    devices: tuple[str, ...] = ()
    """What that network found: ``mlx5_0:1/RoCE``, ``eth0:10.0.0.1``."""
    channels: dict[str, int] = field(default_factory=dict)
    """How many of this rank's channels go which way: ``P2P/CUMEM``, ``SHM``, ``NET/IB``, ``NET/IB/GDRDMA``."""
    notes: tuple[str, ...] = ()
    """Why it did not take what it looked for: a plugin or a library that could not be loaded."""
    warnings: tuple[str, ...] = ()
    """Its WARN lines, the first ones, as they are but for what is before the file's name."""


@dataclass(frozen=True)
class RankStage:
    """How one stage ended for one rank."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    error: str | None = None
    """The exception's text, or what was done to the rank (``killed after 20 s``)."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Plain values of that stage: gloo: ``address``, ``port``; collective: ``wrong``: names of wrong results; ..."""


@dataclass(frozen=True)
class Work:
    """How much a rank got done beside everything else on its host (``distdoctor.ranks.groups`` measures it)."""

    rate: float
    """Pieces of the same small work done per second, on one thread."""
    cpu: float
    """The share of one processor that the thread got meanwhile, 0 to 1."""
    processors: int
    """How many it may run on, of ``cores`` that the host has."""
    cores: int
    quota: float | None = None
    """How many processors its container may use; None where there is no limit or none is seen."""
    load: float = 0.0
    """The host's load average of the last minute."""


@dataclass(frozen=True)
class RankFacts:
    """One rank: who it is and how its stages went. ``rank`` is None where it is not known (yet, or RANK is invalid)."""

    rank: int | None
    local_rank: int
    pid: int | None = None
    gpu: GpuFacts | None = None
    stages: tuple[RankStage, ...] = ()
    work: Work | None = None
    """Measured after the collectives, where there are other ranks to compare with."""
    nccl: NcclLog | None = None
    """None where no NCCL group was tried, or where its library said nothing."""


# GPUs as their driver shows them: one record for the node, whatever a rank may see of it.


ComputeMode = Literal["default", "exclusive-thread", "prohibited", "exclusive-process"]

NOT_ASKED = "not asked"


@dataclass(frozen=True)
class DeviceProcess:
    """A process that computes on a device. Its command line is not kept: people put tokens there."""

    pid: int
    name: str = ""
    """Empty where the process is not to be seen from here, as one of another container."""
    user: str = ""
    memory: int | None = None
    """Bytes of the device's memory."""


@dataclass(frozen=True)
class Device:
    """One GPU. None, or an empty text: the driver does not say, or the device knows no such thing."""

    index: int
    """The driver's: in the order of the PCI bus."""
    name: str = ""
    uuid: str = ""
    bus_id: str = ""
    """``00000000:4F:00.0``."""
    error: str = ""
    """Why the driver gives no access to it, as "GPU is lost"; then nothing else is known. NOT_ASKED: the driver gave no
    answer for one before it."""
    memory: int | None = None
    """Bytes."""
    memory_used: int | None = None
    """Bytes in use before any rank of the check ran; the driver's own reserve is among them on some devices."""
    memory_drawn: int | None = None
    """Bytes of it that processes have that draw on a display."""
    processes: tuple[DeviceProcess, ...] = ()
    compute_mode: ComputeMode | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded, or the device reset."""
    retired_pending: bool | None = None
    """Memory pages are to be retired, which a reset does."""
    sram_worn: bool | None = None
    """Uncorrected errors of the memory within the chip are more than the driver's threshold: it is to be replaced."""
    remap_pending: bool | None = None
    """Rows of the memory are to be remapped, which a reset does."""
    remap_failed: bool | None = None
    """No row is left to remap to."""
    slowed: tuple[str, ...] = ()
    """Why its clock is lowered, of the reasons that are none of idleness, a limit that was set, or usual power
    management: ``hardware``, ``hardware-thermal``, ``power-brake``, ``software-thermal``."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    """Of what the device and the place it is plugged into can do together."""
    pcie_generation: int | None = None
    """At this moment: a device that rests may lower it."""
    pcie_generation_max: int | None = None
    """As ``pcie_width_max``."""
    performance: int | None = None
    """Its performance state: 0 is the highest, and one that rests may have a lower one, up to 15."""
    links: tuple[bool, ...] = ()
    """Whether each NVLink is active; empty where it has none."""
    link_recoveries: int | None = None
    """How often one of them had to be trained anew since the driver was loaded; None where it has none."""
    fabric: Literal["", "not-started", "in-progress", "completed"] = ""
    """Whether it has been registered with the NVSwitch fabric; empty for a device that needs none."""
    fabric_error: str = ""
    """Why that failed, where it is completed and failed."""
    fabric_health: tuple[str, ...] = ()
    """What the fabric itself finds wrong with this device's way to it."""
    fabric_cluster: str = ""
    """The NVLink domain that it belongs to, of several hosts; empty where it belongs to none."""
    persistence: bool | None = None
    """Whether the driver keeps it ready while nobody uses it."""
    power_limit: int | None = None
    """Watts that it may take, by what is set now."""
    capability: str = ""
    """The compute capability, as ``9.0``."""
    recovery: str = ""
    """What the driver itself wants done: ``reset``, ``reboot``, ``drain``; empty for nothing."""


@dataclass(frozen=True)
class PeerCopies:
    """What arrived of what each of a node's devices copied to each other one, by their numbers as torch counts them."""

    devices: int = 0
    able: int = 0
    """Pairs, each in one direction, of which the driver says that the one can reach the other's memory."""
    refused: tuple[tuple[int, int], ...] = ()
    """From, to: those of which it says that it cannot."""
    tried: int = 0
    """Of these, as many as there was time for."""
    wrong: tuple[tuple[int, int], ...] = ()
    """From, to: what arrived was something else."""
    endless: tuple[int, int] | None = None
    """From, to: the copy did not end."""
    error: str = ""
    """What the first raised that did; that pair is not among the tried ones."""


@dataclass(frozen=True)
class DriverFile:
    """A device file of the driver that this user cannot use."""

    path: str
    error: str
    """The errno's name."""


@dataclass(frozen=True)
class AmdFacts:
    """AMD's GPUs of a node, as the kernel shows them. Only where it shows any."""

    devices: int = 0
    """What a container is not given may be among them."""
    unusable: tuple[DriverFile, ...] = ()
    """/dev/kfd and the devices' own files that are not here (``ENOENT``), or that this user cannot open."""
    cards: tuple[Device, ...] = ()
    """Those that this user can open, by their place in the kernel's list."""
    source: Literal["amd-smi", "rocm-smi", ""] = ""
    """Which command told more of them than the kernel does; empty where none did."""
    module: str = ""
    """The version of the kernel's driver, by that command."""


@dataclass(frozen=True)
class GpudState:
    """What gpud, a program that watches GPUs, finds wrong with one of its subjects."""

    component: str
    """``error-xid``, ``remapped-rows``, ``infiniband``."""
    health: Literal["Unhealthy", "Degraded"]
    reason: str = ""
    actions: tuple[str, ...] = ()
    """What it suggests: ``REBOOT_SYSTEM``, ``HARDWARE_INSPECTION``, ``CHECK_USER_APP_AND_GPU``."""


@dataclass(frozen=True)
class DriverFacts:
    """The NVIDIA driver of a node, and its devices. Only where there is any sign of one."""

    source: Literal["nvml", "nvidia-smi", ""] = ""
    """What was asked: the driver's management library, else its command; empty where neither answered."""
    error: str = ""
    """Then why: the library's or the command's own words."""
    module: str | None = None
    """The version of the kernel's module (/proc/driver/nvidia/version); None where none is loaded."""
    library: str | None = None
    """The version of libnvidia-ml.so.1 that a program here loads, by the name of the file that it links to; None where
    there is none, or where the name does not say."""
    seconds: float | None = None
    """Until the driver had answered."""
    no_libcuda: str = ""
    """Why libcuda.so.1, by which programs compute, cannot be loaded here, in the loader's words; empty where it can."""
    cuda: str | None = None
    """The newest CUDA that the driver says it supports, as ``12.8``."""
    files: tuple[str, ...] = ()
    """The devices' files: /dev/nvidia0 and so on."""
    imex_channels: int | None = None
    """Files in /dev/nvidia-caps-imex-channels, by which processes share memory over an NVLink domain."""
    on_bus: int = 0
    """How many GPUs are on the PCI bus, whether or not they are given to this container."""
    unusable: tuple[DriverFile, ...] = ()
    iommu: tuple[str, ...] = ()
    """How the IOMMU treats the GPUs, each kind once: ``DMA``, ``DMA-FQ`` (it translates), ``identity`` (it lets all
    through), as in ABI/testing/sysfs-kernel-iommu_groups of the kernel. Empty where there is none, or it is not told.
    """
    acs: int | None = None
    """How many PCIe bridges above the GPUs redirect what devices write to each other (ACS); None where that cannot be
    read, which takes root, or where no bridge is seen."""
    peermem: bool | None = None
    """Whether the module is loaded that gives network adapters the GPUs' memory (nvidia_peermem, once nv_peer_mem);
    with the open kernel modules NCCL may do without (DMA-BUF)."""
    devices: tuple[Device, ...] = ()
    gpud: tuple[GpudState, ...] | None = None
    """What gpud on this host finds wrong; None where none answers."""


# What NCCL finds on a host beside its GPUs: InfiniBand and RoCE ports, and a file that tells it the topology.


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

"""Facts of ranks and devices: stages, work, GPUs, their drivers, RDMA ports and NCCL's files."""

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
    """Compute capability, as ``9.0``."""
    computed: Literal["", "right", "wrong"] = ""
    """Correctness of a product of matrices on it; empty if none was made."""
    error: str = ""
    """Error of the product."""
    speed: float | None = None
    """Products of matrices per second, of the best of several tries; None if none was timed."""
    memory_pools: bool | None = None
    """True if CUDA can make memory pools of it, which a virtual GPU may lack; None if it does not say."""

    @property
    def went_no_further(self) -> bool:
        """True if it stopped or ended its process, so that nothing is known of the devices after it."""
        return self.error.startswith(PRODUCT_BEGUN)


@dataclass(frozen=True)
class GpuFacts:
    """Devices one process can see. ``reason`` says why there are none (no CUDA build, no driver, empty mask)."""

    visible: tuple[Gpu, ...] = ()
    reason: str | None = None
    cuda_visible_devices: str | None = None
    error: str | None = None
    architectures: tuple[str, ...] = ()
    """Architectures this torch has code for (torch.cuda.get_arch_list()): ``sm_90``, ``compute_90``."""
    library: str | None = None
    """File of libcuda.so.1 that was loaded."""
    started: float | None = None
    """Seconds until CUDA was usable, or said that it is not."""


@dataclass(frozen=True)
class NcclLog:
    """Settings that a rank's NCCL logged while it created its group (NCCL_DEBUG=INFO). Empty: it logged no such
    thing."""

    version: str = ""
    interface: str = ""
    """Interface of the connections by which the ranks find each other, with its address: ``eth0:10.0.0.1``."""
    network: str = ""
    """Carrier of data between nodes: ``IB``, ``Socket``, or a plugin's name for itself."""
    devices: tuple[str, ...] = ()
    """Devices of that network: ``mlx5_0:1/RoCE``, ``eth0:10.0.0.1``."""
    channels: dict[str, int] = field(default_factory=dict)
    """Transport -> number of this rank's channels: ``P2P/CUMEM``, ``SHM``, ``NET/IB``, ``NET/IB/GDRDMA``."""
    notes: tuple[str, ...] = ()
    """Reasons why it did not take what it looked for: a plugin or a library that could not be loaded."""
    warnings: tuple[str, ...] = ()
    """Its first WARN lines, from the file's name on."""


@dataclass(frozen=True)
class RankStage:
    """End of one stage for one rank."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    error: str | None = None
    """Text of the exception, or what was done to the rank (``killed after 20 s``)."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Plain values of that stage: gloo: ``address``, ``port``; collective: ``wrong``: names of wrong results; ..."""


@dataclass(frozen=True)
class Work:
    """Work of a rank beside everything else on its host (``distdoctor.ranks.groups`` measures it)."""

    rate: float
    """Pieces of the same small work done per second, on one thread."""
    cpu: float
    """Share of one processor that the thread got meanwhile, 0 to 1."""
    processors: int
    """Number of processors it may run on, of the host's ``cores``."""
    cores: int
    quota: float | None = None
    """Number of processors its container may use; None without a visible limit."""
    load: float = 0.0
    """Host's load average of the last minute."""


@dataclass(frozen=True)
class RankFacts:
    """One rank: its numbers, devices and stages. ``rank`` is None if unknown (yet, or RANK is invalid)."""

    rank: int | None
    local_rank: int
    pid: int | None = None
    gpu: GpuFacts | None = None
    stages: tuple[RankStage, ...] = ()
    work: Work | None = None
    """Measured after the collectives, if there are other ranks to compare with."""
    nccl: NcclLog | None = None
    """None if no NCCL group was tried, or its library logged nothing."""


# GPUs as their driver shows them: one record for the node, whatever its ranks see.


ComputeMode = Literal["default", "exclusive-thread", "prohibited", "exclusive-process"]

NOT_ASKED = "not asked"


@dataclass(frozen=True)
class DeviceProcess:
    """Process that computes on a device. Its command line is not kept: people put tokens there."""

    pid: int
    name: str = ""
    """Empty if the process is invisible here, as one of another container."""
    user: str = ""
    memory: int | None = None
    """Bytes of the device's memory."""


@dataclass(frozen=True)
class Device:
    """One GPU. None, or an empty text: the driver does not say, or the device has no such thing."""

    index: int
    """Index of the driver: in the order of the PCI bus."""
    name: str = ""
    uuid: str = ""
    bus_id: str = ""
    """PCI address: ``00000000:4F:00.0``."""
    error: str = ""
    """Reason of the driver for no access to it, as "GPU is lost"; then nothing else is known. NOT_ASKED: the driver
    gave no answer for one before it."""
    memory: int | None = None
    """Memory in bytes."""
    memory_used: int | None = None
    """Bytes in use before any rank of the check ran; the driver's own reserve is among them on some devices."""
    memory_drawn: int | None = None
    """Bytes in use by processes that draw on a display."""
    processes: tuple[DeviceProcess, ...] = ()
    compute_mode: ComputeMode | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded, or the device reset."""
    retired_pending: bool | None = None
    """True if a reset will retire memory pages."""
    sram_worn: bool | None = None
    """True if uncorrected errors of the on-chip memory exceed the driver's threshold: the device is to be replaced."""
    remap_pending: bool | None = None
    """True if a reset will remap rows of the memory."""
    remap_failed: bool | None = None
    """True if no row is left to remap to."""
    slowed: tuple[str, ...] = ()
    """Reasons of a lowered clock, without idleness, a limit that was set, and usual power management: ``hardware``,
    ``hardware-thermal``, ``power-brake``, ``software-thermal``."""
    pcie_width: int | None = None
    """Lanes in use."""
    pcie_width_max: int | None = None
    """Lanes that the device and its slot support together."""
    pcie_generation: int | None = None
    """Current PCIe generation: an idle device may lower it."""
    pcie_generation_max: int | None = None
    """As ``pcie_width_max``."""
    performance: int | None = None
    """Performance state: 0 is the highest, and an idle device may have a lower one, up to 15."""
    links: tuple[bool, ...] = ()
    """True for each active NVLink; empty if it has none."""
    link_recoveries: int | None = None
    """Number of retrainings of its NVLinks since the driver was loaded; None if it has none."""
    fabric: Literal["", "not-started", "in-progress", "completed"] = ""
    """State of its registration with the NVSwitch fabric; empty for a device that needs none."""
    fabric_error: str = ""
    """Error of a completed registration that failed."""
    fabric_health: tuple[str, ...] = ()
    """Faults of this device's connection, by the fabric itself."""
    fabric_cluster: str = ""
    """NVLink domain that it belongs to, of several hosts; empty if it belongs to none."""
    persistence: bool | None = None
    """True if the driver keeps it ready while nobody uses it."""
    power_limit: int | None = None
    """Current power limit in watts."""
    capability: str = ""
    """Compute capability, as ``9.0``."""
    recovery: str = ""
    """Recovery that the driver asks for: ``reset``, ``reboot``, ``drain``; empty for none."""


@dataclass(frozen=True)
class PeerCopies:
    """Result of copies from each of a node's devices to each other one, by their numbers in torch."""

    devices: int = 0
    able: int = 0
    """Directed pairs of which the driver says that the one can reach the other's memory."""
    refused: tuple[tuple[int, int], ...] = ()
    """(from, to) of which it says that it cannot."""
    tried: int = 0
    """Number of able pairs tried in the time."""
    wrong: tuple[tuple[int, int], ...] = ()
    """(from, to) whose copy had a wrong content."""
    endless: tuple[int, int] | None = None
    """(from, to) whose copy did not end."""
    error: str = ""
    """First exception of a copy; its pair is not among the tried ones."""


@dataclass(frozen=True)
class DriverFile:
    """Device file of the driver that this user cannot use."""

    path: str
    error: str
    """Name of the errno."""


@dataclass(frozen=True)
class AmdFacts:
    """AMD's GPUs of a node, as the kernel shows them. Only if it shows any."""

    devices: int = 0
    """Number of GPUs; some of them may not be given to this container."""
    unusable: tuple[DriverFile, ...] = ()
    """/dev/kfd and the devices' own files that are not here (``ENOENT``), or that this user cannot open."""
    cards: tuple[Device, ...] = ()
    """GPUs that this user can open, by their order in the kernel's list."""
    source: Literal["amd-smi", "rocm-smi", ""] = ""
    """Command that added to the kernel's facts; empty if none did."""
    module: str = ""
    """Version of the kernel's driver, by that command."""


@dataclass(frozen=True)
class GpudState:
    """Fault of one component, by gpud, a program that watches GPUs."""

    component: str
    """``error-xid``, ``remapped-rows``, ``infiniband``."""
    health: Literal["Unhealthy", "Degraded"]
    reason: str = ""
    actions: tuple[str, ...] = ()
    """Suggestions of gpud: ``REBOOT_SYSTEM``, ``HARDWARE_INSPECTION``, ``CHECK_USER_APP_AND_GPU``."""


@dataclass(frozen=True)
class DriverFacts:
    """NVIDIA driver of a node, and its devices. Only with any sign of one."""

    source: Literal["nvml", "nvidia-smi", ""] = ""
    """Source of the answers: the driver's management library, else its command; empty if neither answered."""
    error: str = ""
    """Error of the library or the command, without an answer."""
    module: str | None = None
    """Version of the kernel's module (/proc/driver/nvidia/version); None if none is loaded."""
    library: str | None = None
    """Version of the libnvidia-ml.so.1 that a program here loads, by the name of its link's target; None if there is
    none, or the name does not say."""
    seconds: float | None = None
    """Seconds until the driver had answered."""
    no_libcuda: str = ""
    """Error of loading libcuda.so.1, by which programs compute, in the loader's words; empty if it loads."""
    cuda: str | None = None
    """Newest CUDA that the driver supports by its own word, as ``12.8``."""
    files: tuple[str, ...] = ()
    """Files of the devices: /dev/nvidia0 and so on."""
    imex_channels: int | None = None
    """Files in /dev/nvidia-caps-imex-channels, by which processes share memory over an NVLink domain."""
    on_bus: int = 0
    """Number of GPUs on the PCI bus, whether or not they are given to this container."""
    unusable: tuple[DriverFile, ...] = ()
    iommu: tuple[str, ...] = ()
    """Modes of the IOMMU for the GPUs, each once: ``DMA``, ``DMA-FQ`` (it translates), ``identity`` (it passes all), as
    in ABI/testing/sysfs-kernel-iommu_groups of the kernel. Empty without one, or if unknown."""
    acs: int | None = None
    """Number of PCIe bridges above the GPUs that redirect peer-to-peer writes (ACS); None if unreadable, which takes
    root, or without a visible bridge."""
    peermem: bool | None = None
    """True if the module is loaded that gives network adapters the GPUs' memory (nvidia_peermem, once nv_peer_mem);
    with the open kernel modules NCCL may do without (DMA-BUF)."""
    devices: tuple[Device, ...] = ()
    gpud: tuple[GpudState, ...] | None = None
    """Faults that gpud on this host reports; None if none answers."""


# Inputs of NCCL on a host beside its GPUs: InfiniBand and RoCE ports, and topology files.


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table: an address that the port's connections may use."""

    index: int
    address: str
    """IPv6 notation, shortened: ``fe80::...`` link-local, ``::ffff:10.1.2.3`` of an IPv4 address."""
    version: Literal["1", "2", ""] = ""
    """RoCE version; empty if the kernel does not say. An InfiniBand port's entries have version 1."""
    interface: str = ""
    """Network interface of the address; empty on InfiniBand."""


@dataclass(frozen=True)
class RdmaPort:
    """Port of an RDMA device, as /sys/class/infiniband shows it. An empty text, None: unknown."""

    device: str
    port: int
    state: str = ""
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``: NCCL uses the first alone."""
    physical: str = ""
    """``LinkUp``, ``Polling``, ``Disabled`` and so on."""
    link_layer: Literal["InfiniBand", "Ethernet", ""] = ""
    """Ethernet: RoCE."""
    rate: float | None = None
    """Rate in Gb/s."""
    gids: tuple[Gid, ...] = ()
    """Entries that are set, of the first 32 and of that of NCCL_IB_GID_INDEX."""

    @property
    def name(self) -> str:
        """Name as in NCCL_IB_HCA."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True)
class RdmaFacts:
    """RDMA devices of a host. Only if /sys shows any."""

    ports: tuple[RdmaPort, ...] = ()
    files: tuple[str, ...] = ()
    """/dev/infiniband/uverbs0 and so on, which a program opens to use a device."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Files of these that this user cannot open -> name of the errno."""


@dataclass(frozen=True)
class TopologyFile:
    """File from which NCCL reads the topology of the machine, or the paths between its GPUs (NCCL_GRAPH_FILE)."""

    path: str
    variable: bool = True
    """True if a variable names it; else it is NCCL's default."""
    missing: str = ""
    """Name of the errno if it cannot be read: NCCL goes on without a topology, and ends without a graph."""
    refused: str = ""
    """Error at which NCCL's reader stops, and its init with it; empty without one."""

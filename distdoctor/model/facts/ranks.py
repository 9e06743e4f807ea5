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
        """Whether it kept its process from going on, so that nothing is known of the devices after it."""
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
    """How much a rank got done beside everything else on its host (``distdoctor.ranks.work`` measures it)."""

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

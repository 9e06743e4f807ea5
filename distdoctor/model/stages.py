"""The ladder: the names of the stages, in the order in which they are run."""

from __future__ import annotations

STAGES: tuple[str, ...] = (
    "environment",
    "host",
    "gpu",
    "network",
    "store",
    "mesh",
    "gloo",
    "nccl",
    "barrier",
    "collective",
)
"""Every stage, lowest first. Fixed: users name them with ``--until``."""

ABOUT: dict[str, str] = {
    "environment": "launch variables, and the plan they make",
    "host": "names, limits, shared memory, clock",
    "gpu": "the devices that the ranks see",
    "network": "MASTER_ADDR and the way there, what answers on MASTER_PORT",
    "store": "the nodes meet; every rank uses PyTorch's store",
    "mesh": "connections between all nodes, on the ports that backends use",
    "gloo": "the gloo process group",
    "nccl": "the NCCL process group",
    "barrier": "which ranks are missing",
    "collective": "right results, and who is slow",
}
"""What each stage looks at, in a few words."""

ALONE: tuple[str, ...] = STAGES[:4]
"""The stages that each node climbs by itself, before the nodes meet."""


def position(stage: str) -> int:
    """How high on the ladder ``stage`` is, 0 being the lowest. Raises ValueError if it is no stage."""
    return STAGES.index(stage)


def needs_torch(until: str) -> bool:
    """Whether climbing as high as ``until`` takes torch."""
    return position(until) > position(ALONE[-1])

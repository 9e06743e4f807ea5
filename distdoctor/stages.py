"""The ladder: the names of the stages, in the order in which they are climbed."""

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

ALONE: tuple[str, ...] = STAGES[:4]
"""The stages that each node climbs by itself, before the nodes meet."""


def position(stage: str) -> int:
    """How high on the ladder ``stage`` is, 0 being the lowest. Raises ValueError if it is no stage."""
    return STAGES.index(stage)


def needs_torch(until: str) -> bool:
    """Whether climbing as high as ``until`` takes torch."""
    return position(until) > position(ALONE[-1])

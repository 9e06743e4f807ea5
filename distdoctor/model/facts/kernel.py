"""What the kernel wrote to its log."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KernelLine:
    """A line of the kernel's log that a check knows (its ``LOG``)."""

    check: str
    shows: str
    """What it shows of that, as of other logs."""
    text: str
    at: float = 0.0
    """When it was written, in seconds since the epoch by this host's clock."""
    values: dict[str, str] = field(default_factory=dict)
    """What its expression names, as ``pid``."""

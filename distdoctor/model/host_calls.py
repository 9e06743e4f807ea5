"""Results of the commands on the hosts of a remote run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HostTransport = Literal["ssh", "srun", "kubectl", "ray", "here"]
"""Connection by which a command reaches a host."""
CallOutcome = Literal["told", "unreached", "absent", "silent", "lost", "failed", "stopped"]
"""``told``: its facts arrived. ``unreached``: no command could be started there. ``absent``: there is no distdoctor.
``silent``: it did not respond in time. ``lost``: the connection ended while it was at work. ``failed``: it ended by
itself, without facts. ``stopped``: it had not ended when the run was interrupted here."""


@dataclass(frozen=True)
class HostCall:
    """One host, as the machine that sent the command saw it."""

    host: str
    """Name as it was given: a hostname, an address, a pod."""
    node_rank: int
    way: HostTransport
    outcome: CallOutcome
    status: int | None = None
    """Exit status of the local command that connects (ssh: 255 is its own)."""
    said: tuple[str, ...] = ()
    """Last lines of its stderr; of a login that began no check also those of its stdout."""
    distdoctor: str = ""
    """Version there, empty if unknown."""
    seconds: float = 0.0
    """Seconds from the start to its end."""

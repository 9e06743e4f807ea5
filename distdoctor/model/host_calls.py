"""What became of the command that was sent to each host of a run from one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Way = Literal["ssh", "srun", "kubectl", "here"]
"""By what a command gets to a host."""
CallOutcome = Literal["told", "unreached", "absent", "silent", "lost", "failed", "stopped"]
"""``told``: its facts came back. ``unreached``: no command could be started there. ``absent``: there is no distdoctor.
``silent``: nothing was heard of it in time. ``lost``: it was at work when the way to it ended. ``failed``: it ended by
itself, without facts. ``stopped``: it had not ended when the run was broken off here."""


@dataclass(frozen=True)
class HostCall:
    """One host, as the place that the command was sent from saw it."""

    host: str
    """As it was given: a name, an address, a pod."""
    node_rank: int
    way: Way
    outcome: CallOutcome
    status: int | None = None
    """The exit status of what was started here to get there (ssh: 255 is its own)."""
    said: tuple[str, ...] = ()
    """The last lines on its stderr; of a login that began no check also those on its stdout."""
    distdoctor: str = ""
    """The version there, empty where that is not known."""
    seconds: float = 0.0
    """From the start to its end."""

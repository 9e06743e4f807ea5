"""Where in a job a rank can be, as ``knowledge/place_of`` finds it."""

from __future__ import annotations

from dataclasses import dataclass

from distdoctor.model.facts.job import Frame

STARTING, STOPPED, ENDED = "starting", "stopped", "ended"
MASTER, HOSTING, STORE = "connecting to the store", "hosting the store", "in the store"
PEERS, GROUP = "connecting to peers", "making a group"
COLLECTIVE, CODE, LOADER = "in a collective", "in its own code", "waiting for data"
THEIR_CODE = "in their own code"
KEY = "waiting for a key of the store"
"""In the job's own code, for what another rank writes there: ``store.wait()``, ``store.get()``."""
REMOTE = "in a remote call"
"""Where it waits for what it has called on another rank, or for all remote calls to be done (torch.distributed.rpc)."""
BEHIND = "waiting for a lock that another rank has"
COMPILING, SAVING, LOCK, DEVICE = "compiling", "writing a checkpoint", "waiting for a lock file", "waiting for a device"
FILE_LOCK, MEMORY = "waiting for a file lock", "waiting for memory"
UNSEEN = "where this user may not see it"
"""It sleeps, and of none of its threads is shown in what: for want of rights, or in a sandbox as gVisor."""
OWN = (CODE, LOADER, SAVING, COMPILING, STARTING, FILE_LOCK, DEVICE, MEMORY)
"""Where a rank is by itself."""
MESSAGE = "wait() for a message, or for a lock"
"""Where C++ waits for one rank, below the job's own code; so looks ``acquire(timeout=...)`` of a lock."""
ONLY_MESSAGE = "wait() for a message"
"""The same, where what it waits for is seen to be no lock."""
OR_LOCK = "for a collective, or for a lock"
"""Why it waits in a function of the job's own that has both, of which C++ and Python wait in the same way."""
TOGETHER = (MASTER, HOSTING, STORE, KEY, PEERS, GROUP, COLLECTIVE, REMOTE, BEHIND)
"""Where a rank waits for others, and nothing moves in it meanwhile."""


@dataclass(frozen=True)
class Place:
    """Where a rank is."""

    kind: str
    call: str = ""
    """The collective, or the function of torch.distributed."""
    frame: Frame | None = None
    """The innermost line of the job's own code."""
    why: str = ""
    """What it waits for there, as far as it is seen: ``reads /mnt/x``, ``sleeps``."""
    sure: bool = True
    """False where only /proc told, and other places look the same."""
    child: int | None = None
    """The process of its own that waits there, and it for that one."""
    spins: bool = False
    """It waits there with a processor busy, as for a GPU: that this works is no progress."""
    communicators: tuple[str, ...] = ()
    """Those of NCCL in which it waits, where that is known."""

    def said(self, several: bool = False) -> str:
        """In words; ``several``: of more than one rank."""
        kind = THEIR_CODE if several and self.kind == CODE else self.kind
        parts = [f"in {self.call}" if self.call and self.kind in (COLLECTIVE, GROUP) else kind]
        if self.frame is not None:
            parts.append(f"at {self.frame.file}:{self.frame.line}")
        if self.why:
            parts.append(f"({self.why})")
        return " ".join(parts)

"""A row of the table of logs: a real job, what is wrong with it, and what its logs can show of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.lab.faults import nothing
from tests.lab.harness.launch import Fault

Style = Literal["torchrun", "c10d", "env", "spawn", "launch"]
"""torchrun, static and with the c10d rendezvous; env: one rank on each host, started by hand with RANK and the like;
spawn: torch.multiprocessing.spawn on one host; launch: the deprecated torch.distributed.launch."""
UNKNOWN = "cannot-tell"
"""The logs show that something failed, not what."""
HEALTHY = ""
"""Nothing failed: there is no finding."""


@dataclass(frozen=True)
class Job:
    """One job that is run, and whose logs are kept."""

    name: str
    script: str = ""
    """Arguments of train.py."""
    check: str = HEALTHY
    """What the logs of those hosts prove that are named in ``seen``: the id of a check, or one of those above."""
    rank: int | None = None
    """The rank that failed first, where it can be known."""
    host: str = ""
    """The host that the failure is on."""
    seen: Sequence[int] | None = None
    """The hosts whose own log shows ``check``; None: all. What the others show is ``elsewhere``."""
    elsewhere: str = UNKNOWN
    may_be: Sequence[str] = ()
    """Checks of which at least one has to be among the candidates where the logs of all do not tell."""
    fair: Sequence[str] = ()
    """What else would be as fair an answer as ``check``."""
    fault: Fault = nothing
    style: Style = "torchrun"
    hosts: int = 2
    nproc: int = 1
    flags: Mapping[str, str] = field(default_factory=dict)
    """Further flags of torchrun."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    program: str = "train.py"
    tree: str = ""
    """What ``--log-dir`` keeps: ``-r`` (instead of the console) or ``-t`` (beside it)."""
    when: str = ""
    """Once a line with this text is there, ``then`` is done."""
    then: Literal["", "TERM", "INT", "HUP", "KILL", "cut"] = ""
    """A signal to the launcher of ``signalled``, or cut: the logs are kept as they are while the job runs."""
    signalled: int = 0
    torch: str = ""
    """The torch that it is run with, where it is not the one that is installed: on loopback, without the lab."""
    cgroup: bool = False
    """It is run in the memory cgroup of ``memory.py``, and what the kernel writes of that is kept."""
    limit: float = 100.0
    """Seconds after which what still runs is ended, and the log with it."""

    @property
    def shows(self) -> frozenset[int]:
        """The hosts whose own log shows ``check``."""
        return frozenset(range(self.hosts) if self.seen is None else self.seen)

    @property
    def answers(self) -> frozenset[str]:
        """Return what may be said of the logs of all hosts."""
        return frozenset((self.check, *self.fair))

    def of_host(self, index: int) -> frozenset[str]:
        """Return what may be said of the log of this host alone."""
        return self.answers if index in self.shows else frozenset((self.elsewhere,))

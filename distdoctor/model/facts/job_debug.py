"""What a job tells of itself where it was started with something to ask: flight recorders, NCCL's RAS.

None of it clears a hang: both have called jobs healthy that hung.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecordedCall:
    """One collective of one group, as one rank recorded it."""

    number: int
    """Its place in the order in which this rank called them."""
    operation: str
    sizes: str = ""
    done: bool = False
    frame: str = ""
    """The line of code that called it, where that was recorded."""
    age: float | None = None
    """Seconds since it was called, by two hosts' clocks; None where that was not recorded."""


@dataclass(frozen=True)
class RecorderView:
    """The newest calls of one rank in one group."""

    group: str
    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True)
class WorkerServer:
    """The server inside one rank that torch.distributed.debug starts."""

    rank: int
    url: str
    """Of a flight recorder that the rank wrote to a file: ``file:`` and its path."""
    answers: bool = False
    """It answered a ping: the process runs, whatever its main thread does."""
    recorders: tuple[RecorderView, ...] = ()
    problem: str = ""
    """Why nothing was told, where nothing was."""


@dataclass(frozen=True)
class RasRank:
    """A rank of a communicator that RAS names."""

    rank: int
    """In its communicator."""
    pid: int
    host: str
    """The address by which NCCL knows its host."""
    launched: int = 0
    """How many collectives of the kind it has called, where it is named for that."""


@dataclass(frozen=True)
class RasCount:
    """How far the ranks of one communicator are in one kind of collective, where they differ."""

    communicator: str
    """Its hash."""
    operation: str
    """As torch.distributed calls it: all_reduce."""
    ranks: tuple[RasRank, ...] = ()
    """Those that are named: all whose count few others have."""
    others: int = 0
    """How many more it has, which are not named."""
    others_launched: int | None = None
    """How far these are; None where they differ, or there are none."""

    @property
    def behind(self) -> int:
        """How far the last is."""
        rest = [self.others_launched] if self.others_launched is not None else []
        return min([*(one.launched for one in self.ranks), *rest], default=0)


@dataclass(frozen=True)
class RasView:
    """What NCCL's RAS says, asked on one host, of all communicators of the job."""

    address: str
    port: int
    answers: bool = False
    version: str = ""
    errors: tuple[str, ...] = ()
    """The paragraphs under its heading ``Errors``, each one line."""
    warnings: tuple[str, ...] = ()
    counts: tuple[RasCount, ...] = ()
    """What of these tells how many collectives each rank has called."""
    missing: tuple[RasRank, ...] = ()
    """The ranks of the communicator of all that did not answer."""
    bereft: tuple[int, ...] = ()
    """The processes to which NCCL says that one of their communicator is gone."""
    whole: bool = False
    """It said all that it had to say."""
    problem: str = ""

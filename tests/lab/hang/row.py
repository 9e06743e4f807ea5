"""The table of hung jobs: a job, what holds it, and what ``distdoctor hang`` must say of it on which host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.lab.harness.launch import Fault

if TYPE_CHECKING:
    from tests.lab.hang.running import Running

Act = Callable[["Running"], None]
"""Something done to a job that runs: its rank is stopped, a host of it is started, a filter is taken away."""
FORKING = ("fork", "engine", "cores", "frontend", "schedulers", "actors")
Launcher = Literal[
    "env", "static", "c10d", "spawn", "accelerate", "fork", "engine", "cores", "frontend", "schedulers", "actors"
]
"""env: each rank by its own command with RANK and the like. static, c10d: torchrun. fork: one command per host, which
forks its ranks and gives them their numbers without any variable. spawn: one command that starts them by
torch.multiprocessing.spawn; accelerate: ``accelerate launch``; both on one host. The others fork, with the titles and
the queues of engines: vLLM's core above its workers, a core above each worker, cores that have no workers yet below a
frontend, SGLang's schedulers, Ray's actors."""


@dataclass(frozen=True)
class Look:
    """What must be said on one host."""

    on: int
    check: str = ""
    """The only root of severity fail, with ``late`` of severity warn; empty where there is to be none."""
    ranks: Sequence[int] | None = None
    """The ranks it must blame; None where no number can be known from there."""
    hosts: Sequence[str] = ()
    """The hosts it must blame."""
    ask: Sequence[str] = ()
    """It cannot be known from here: the hosts to ask. The report is then neither a pass nor a failure."""
    waits_for: Sequence[int] = ()
    """The ranks for which it must warn that the others wait: they move, or wait for a peer outside the job."""
    late: bool = False
    """The check must warn, and not fail: what has not joined may still join."""
    flags: Sequence[str] = ()
    nothing: bool = False
    """There is no job on that host."""


@dataclass(frozen=True)
class Row:
    """One place where a job is held, and what must be said of it there."""

    name: str
    step: str
    """The step of the program (see there) at which it is held."""
    looks: tuple[Look, ...]
    together: Look | None = None
    """What must be said of all that these looks saved, judged on the host that is told."""
    before: Act | None = None
    """What is done once all ranks have come to this step."""
    after: Act | None = None
    """What lets it go on, beside the key of its step."""
    moves: bool = False
    """It is healthy: it works, or waits for what will come in its time."""
    busy: bool = False
    """A rank of it computes and does not come further, which cannot be told from a long step."""
    at_once: bool = False
    """It is looked at as soon as it is started."""
    last: bool = False
    """The job cannot be completed any more."""
    held: Sequence[int] | None = None
    """The ranks that come as far as this step; all of the job unless told."""
    gone: Sequence[int] = ()
    """The ranks that have ended, by what was done or by the step itself."""


@dataclass(frozen=True)
class Job:
    """A job that is held at one place after the other; it goes on from each, and must end well after the last."""

    name: str
    rows: tuple[Row | str, ...]
    """A word alone is a step at which nobody looks."""
    launcher: Launcher = "env"
    hosts: int = 2
    nproc: int = 2
    fault: Fault | None = None
    """What is wrong with the hosts before it is started."""
    late: Sequence[int] = ()
    """The hosts that a row starts."""
    subnets: Sequence[str] = ("10.77.0.0/24",)
    numbers: Sequence[int] = ()
    """What each process, host by host, is told of RANK, where that is wrong."""
    node_ranks: Sequence[int] = ()
    """What each host's torchrun is told of --node-rank, where that is wrong."""
    ids: Sequence[str] = ()
    """What each host's torchrun is told of --rdzv-id, where they differ."""
    worlds: Sequence[int] = ()
    """What each host is told of WORLD_SIZE, where that is wrong."""

    @property
    def world(self) -> int:
        """Its ranks."""
        return self.hosts * self.nproc

    @property
    def steps(self) -> list[str]:
        """The plan that its ranks get."""
        return [row if isinstance(row, str) else row.step for row in self.rows]

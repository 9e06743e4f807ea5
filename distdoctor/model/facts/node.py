"""Everything that one started process saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.facts.host import HostFacts, Identity
from distdoctor.model.facts.job import JobFacts
from distdoctor.model.facts.network import MeshFacts, NetworkFacts
from distdoctor.model.facts.ranks import (
    AmdFacts,
    DriverFacts,
    PeerCopies,
    RankFacts,
    RdmaFacts,
    StageStatus,
    TopologyFile,
)
from distdoctor.model.plan import Plan

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Caller:
    """A process that node 0 did not let in, by its own account: nothing of it is authenticated."""

    host: str
    address: str
    token: Literal["missing", "unexpected", "different"]
    """How its token differs from that of the run, as in ``MeetingFacts.token``."""


@dataclass(frozen=True)
class MeetingFacts:
    """How the meeting of the nodes went, as this process saw it."""

    joined: bool = False
    ours: bool | None = None
    """Whether the store reached carries the doctor's marker; None where no store was reached."""
    hosted: bool = False
    """This process hosts the store (it is node 0)."""
    waited: float = 0.0
    wait_limit: float = 0.0
    ended: bool = False
    """True once waiting is over (everyone came, or the limit was reached, or waiting cannot cure it)."""
    cut_short: bool = False
    """Node 0 did not wait to the limit, since what had come makes the job fail already: who is missing may be late."""
    arrived: tuple[str, ...] = ()
    """Node 0's roll call: the keys (``hostname pid``) of the processes that came."""
    expected: int = 0
    """How many nodes (once per node) or ranks (once per rank) node 0 waited for."""
    counts: Literal["nodes", "ranks"] = "nodes"
    lost: tuple[str, ...] = ()
    """Keys of processes that came and then went silent before the end."""
    host_lost: bool = False
    """Node 0's store went away before the report; where this process has not ``joined``, before it was counted."""
    left: str = ""
    """The signal that interrupted this process after it had come (``SIGTERM``), of which it told the others. Empty: it
    was not, or that is not known."""
    store_there: bool = False
    """But another connection to it was accepted then, and it is the same store."""
    store_silent: bool = False
    """Or another connection was made then, and its host's kernel took what was asked, and no answer came."""
    token: Literal["", "agreed", "missing", "unexpected", "different"] = ""
    """Whether this process has the run's token: ``agreed``; ``missing`` here; ``unexpected``: only here; ``different``
    from that of the run. Empty where there is none."""
    callers: tuple[Caller, ...] = ()
    """On node 0: the processes that it did not let in, because of their tokens."""
    speaks: str = ""
    """The version of the distdoctor that wrote the mark on the store, where this one does not understand it."""
    forged: tuple[str, ...] = ()
    """What was found in the store under this run's keys that its processes have not written."""
    late: int | None = None
    """How many processes had met, where this one came when node 0's report was written, or as many as were planned had
    begun without it."""
    unled: float = 0.0
    """Seconds beyond the time of node 0's last order in which it gave no further one, though its store answered; 0
    where the end was not waited for in vain, or no order had come."""
    verdict: Literal["", "pass", "warn", "fail", "incomplete"] = ""
    """What node 0 said, which had the facts of all who came; empty where it said nothing here."""
    visitors: int = 0
    """How many processes came to the store that this node hosts, to which MASTER_ADDR does not lead it itself."""


STOOD_STILL = "it did not come to its end in time, and its process is there: it was stopped, or gets no processor"


@dataclass(frozen=True)
class StageFacts:
    """How one stage ended on one node."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    """The stage whose failure is why this one was not run."""

    @property
    def stood_still(self) -> bool:
        """Return whether node 0 waited for its end in vain, though the process was there."""
        return self.status == "error" and self.reason == STOOD_STILL


@dataclass(frozen=True)
class Trial:
    """A fix that is only environment, tried on the spot in new processes of all ranks."""

    check: str
    option: int
    env: dict[str, dict[str, str | None]]
    """Per node name: the variables set (null: unset)."""
    stages: tuple[str, ...]
    passed: bool
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class SmallerGroup:
    """A process group of some nodes alone, made where that of all could not be."""

    nodes: tuple[str, ...]
    """Keys of the processes whose ranks were in it."""
    passed: bool
    error: str = ""
    ranks: tuple[int, ...] = ()
    """Of ranks tried apart, those that were in it: of one node, or one of each of two, which ``nodes`` need not tell.
    Empty: all of those processes."""


@dataclass(frozen=True)
class NodeFacts:
    """Everything one started process saw. See the module's text."""

    identity: Identity
    plan: Plan
    variables: dict[str, str] = field(default_factory=dict)
    """The launch and backend variables that were set, by an allow-list of names; also those that NCCL reads of a file.
    """
    variable_files: dict[str, str] = field(default_factory=dict)
    """Of the latter: the file each came from."""
    site_variables: tuple[str, ...] = ()
    """Names outside the allow-list that checks of a site declare (``VARIABLES``). They were collected here: one that is
    not in ``variables`` was not set."""
    near_misses: tuple[str, ...] = ()
    """Names (never values) of variables that look like a known one misspelled."""
    node_rank: int | None = None
    """The node rank after the meeting (assigned or declared); None where it never met the others."""
    host: HostFacts | None = None
    driver: DriverFacts | None = None
    """The GPUs' driver; None where there is no sign of one, or where it was not looked for."""
    amd: AmdFacts | None = None
    """AMD's; None where the kernel shows none, or where they were not looked for."""
    peers: PeerCopies | None = None
    """What the node's GPUs copy to each other; None where that was not tried."""
    rdma: RdmaFacts | None = None
    """InfiniBand and RoCE; None where there is none, or where it was not looked for."""
    topology: TopologyFile | None = None
    """NCCL's; None where there is none, or where it was not looked for."""
    graph: TopologyFile | None = None
    """The file that NCCL_GRAPH_FILE names; None where it names none, or where it was not looked for."""
    network: NetworkFacts | None = None
    meeting: MeetingFacts | None = None
    mesh: MeshFacts | None = None
    ranks: tuple[RankFacts, ...] = ()
    stages: tuple[StageFacts, ...] = ()
    trials: tuple[Trial, ...] = ()
    groups: tuple[SmallerGroup, ...] = ()
    """In the order in which they were tried: of node 0, the NCCL groups of fewer nodes; of a node on which even its own
    could not be made, those of its own ranks."""
    jobs: tuple[JobFacts, ...] = ()
    """Jobs that ran here while this was looked at; empty where none was looked for."""
    started_at: float = 0.0
    """Seconds since the epoch, by this host's clock."""
    until: str = ""
    """The last stage that was to be climbed; empty where that was not written down (0.1.0)."""
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> str:
        """Return what identifies this process among those that met: ``hostname pid``, with its namespace's number."""
        return f"{self.identity.hostname} {self.identity.pid} {self.identity.netns}"

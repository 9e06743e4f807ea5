"""All facts of one started process."""

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
    """Process that node 0 refused, by its own account: nothing of it is authenticated."""

    host: str
    address: str
    token: Literal["missing", "unexpected", "different"]
    """Difference of its token from that of the run, as in ``MeetingFacts.token``."""


@dataclass(frozen=True)
class RendezvousFacts:
    """Facts of the rendezvous of the nodes, as this process saw it."""

    joined: bool = False
    ours: bool | None = None
    """True if the store that was reached carries distdoctor's marker; None if none was reached."""
    hosted: bool = False
    """True if this process hosts the store (it is node 0)."""
    waited: float = 0.0
    wait_limit: float = 0.0
    ended: bool = False
    """True once waiting is over (everyone joined, the limit was reached, or the failure is permanent)."""
    cut_short: bool = False
    """True if node 0 did not wait to the limit, since the joined nodes already make the job fail: missing ones may be
    late."""
    arrived: tuple[str, ...] = ()
    """Node 0's roll call: the keys (``hostname pid``) of the processes that joined."""
    expected: int = 0
    """Number of nodes (once per node) or ranks (once per rank) that node 0 waited for."""
    counts: Literal["nodes", "ranks"] = "nodes"
    lost: tuple[str, ...] = ()
    """Keys of processes that joined and then stopped responding before the end."""
    host_lost: bool = False
    """True if node 0's store went away before the report; without ``joined``, before this process was counted."""
    left: str = ""
    """Signal that interrupted this process after it had joined (``SIGTERM``), as it reported to the others. Empty:
    none, or unknown."""
    store_there: bool = False
    """With ``host_lost``: True if another connection to it was accepted then, and it is the same store."""
    store_silent: bool = False
    """With ``host_lost``: True if another connection was made then, its host's kernel took the request, and no answer
    arrived."""
    store_unanswered: bool = False
    """With ``host_lost``: True if nobody answered another connection then: its host is down, or the path is cut."""
    token: Literal["", "agreed", "missing", "unexpected", "different"] = ""
    """State of this process's token: ``agreed``; ``missing`` here; ``unexpected``: only here; ``different`` from that
    of the run. Empty without tokens."""
    callers: tuple[Caller, ...] = ()
    """On node 0: the processes that it refused because of their tokens."""
    speaks: str = ""
    """Version of the distdoctor that wrote the marker in the store, if this one does not understand it."""
    forged: tuple[str, ...] = ()
    """Values in the store under this run's keys that its processes have not written."""
    late: int | None = None
    """Number of processes that had joined, if this one joined after node 0's report, or as many as were planned had
    begun without it."""
    unled: float = 0.0
    """Seconds beyond the time of node 0's last command without a further one, though its store answered; 0 if the end
    was not waited for in vain, or no command had arrived."""
    verdict: Literal["", "pass", "warn", "fail", "incomplete"] = ""
    """Verdict of node 0, which had the facts of all joined nodes; empty if it did not reach this process."""
    visitors: int = 0
    """Number of processes that joined the store of this node, although MASTER_ADDR does not lead it to itself."""


STOOD_STILL = "it did not come to its end in time, and its process is there: it was stopped, or gets no processor"


@dataclass(frozen=True)
class StageFacts:
    """End of one stage on one node."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    """Stage whose failure is why this one did not run."""

    @property
    def stood_still(self) -> bool:
        """True if node 0 waited for its end in vain, though the process was there."""
        return self.status == "error" and self.reason == STOOD_STILL


@dataclass(frozen=True)
class Trial:
    """Fix that only sets variables, tried during the run in new processes of all ranks."""

    check: str
    option: int
    env: dict[str, dict[str, str | None]]
    """Node name -> variables set (null: unset)."""
    stages: tuple[str, ...]
    passed: bool
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class SmallerGroup:
    """Process group of some nodes alone, tried because that of all failed."""

    nodes: tuple[str, ...]
    """Keys of the processes whose ranks were in it."""
    passed: bool
    error: str = ""
    ranks: tuple[int, ...] = ()
    """Ranks in it, if ranks were tried apart: of one node, or one of each of two, which ``nodes`` need not show. Empty:
    all of those processes."""


@dataclass(frozen=True)
class NodeFacts:
    """All facts of one started process. See the module's text."""

    identity: Identity
    plan: Plan
    variables: dict[str, str] = field(default_factory=dict)
    """Launch and backend variables that were set, by an allow-list of names; also those that NCCL reads from a file."""
    variable_files: dict[str, str] = field(default_factory=dict)
    """Variables of NCCL's files -> the file."""
    site_variables: tuple[str, ...] = ()
    """Names outside the allow-list that checks of a site declare (``VARIABLES``). They were collected here: one that is
    not in ``variables`` was unset."""
    near_misses: tuple[str, ...] = ()
    """Names (never values) of variables that look like a known one misspelled."""
    node_rank: int | None = None
    """Node rank after the rendezvous (assigned or declared); None if it never joined the others."""
    host: HostFacts | None = None
    driver: DriverFacts | None = None
    """GPUs' driver; None without a sign of one, or if not probed."""
    amd: AmdFacts | None = None
    """AMD's GPUs; None if the kernel shows none, or if not probed."""
    peers: PeerCopies | None = None
    """Copies between the node's GPUs; None if not tried."""
    rdma: RdmaFacts | None = None
    """InfiniBand and RoCE; None without any, or if not probed."""
    topology: TopologyFile | None = None
    """Topology file of NCCL; None without one, or if not probed."""
    graph: TopologyFile | None = None
    """File of NCCL_GRAPH_FILE; None if it names none, or if not probed."""
    network: NetworkFacts | None = None
    meeting: RendezvousFacts | None = None
    mesh: MeshFacts | None = None
    ranks: tuple[RankFacts, ...] = ()
    stages: tuple[StageFacts, ...] = ()
    trials: tuple[Trial, ...] = ()
    groups: tuple[SmallerGroup, ...] = ()
    """In the order in which they were tried: on node 0, the NCCL groups of fewer nodes; on a node on which even its own
    failed, those of its own ranks."""
    jobs: tuple[JobFacts, ...] = ()
    """Jobs that ran here during the look; empty if none was looked for."""
    started_at: float = 0.0
    """Seconds since the epoch, by this host's clock."""
    until: str = ""
    """Last stage that was to run; empty if not recorded (0.1.0)."""
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> str:
        """Key of this process among the joined ones: ``hostname pid``, with its namespace's number."""
        return f"{self.identity.hostname} {self.identity.pid} {self.identity.netns}"

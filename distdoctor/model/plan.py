"""The plan: what the job would be, and where each value of it came from. ``distdoctor.plan.resolve`` makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

DEFAULT_PORT = 29500
DEFAULT_RANKS_WITHOUT_GPU = 2
RDZV_BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
"""What torchrun knows by itself (torch/distributed/elastic/rendezvous/registry.py)."""
BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl", "hccl")


@dataclass(frozen=True)
class PlanProblem:
    """A launch variable that is missing or makes no sense. ``value`` is None where it is missing."""

    variable: str
    value: str | None
    why: str
    suggestion: str | None = None
    """The value meant, where it can be told from the one given."""
    unset: bool = False
    """Whether the job runs without it: what is then taken for it is what most jobs have."""
    local: bool = False
    """Whether it numbers the ranks of one node: torch makes its groups without it, a script picks its GPU by it."""
    starts: bool = False
    """Whether the process groups are made all the same, and what was meant by it does not come about."""


@dataclass(frozen=True)
class Plan:
    """What the job would be."""

    started: Literal["node", "rank"] = "node"
    """Once per node (the doctor forks the node's ranks) or once per rank (this process is one rank)."""
    nnodes: int | None = 1
    """None where it cannot be told (RANK set by hand without LOCAL_WORLD_SIZE)."""
    min_nodes: int | None = None
    """The nodes with which an elastic job (--nnodes MIN:MAX) starts; None for any other job."""
    nproc_per_node: int | None = DEFAULT_RANKS_WITHOUT_GPU
    node_rank: int | None = None
    """None: assigned at the meeting; the owner of MASTER_ADDR is 0."""
    rank: int | None = None
    """This process's own rank; only once per rank, None where RANK is missing or invalid."""
    local_rank: int | None = None
    world_size: int | None = None
    """None where it depends on nodes that are not known yet, or is missing or invalid."""
    master_addr: str | None = None
    master_port: int = DEFAULT_PORT
    backend: str = "auto"
    agent_store: bool = False
    """torchrun's agent hosts the store on MASTER_PORT, the ranks are its clients."""
    run_id: str = "none"
    rdzv_backend: str = "static"
    local_addr: str = ""
    """What torchrun's agent calls this node with the c10d rendezvous; empty: what getfqdn() says."""
    is_host: bool | None = None
    """Whether the agent is to host the c10d rendezvous (--rdzv-conf is_host=...); None: torchrun finds out."""
    join_timeout: int | None = None
    """Seconds for which torchrun's agent waits for the others with the c10d rendezvous (--rdzv-conf join_timeout=...);
    None: 600, its own."""
    init_method: str | None = None
    """``env://`` where None; else what init_process_group(init_method=...) gets: ``tcp://HOST:PORT`` or ``file://PATH``."""
    restart: int = 0
    launcher: str = ""
    """Who started this process as one of several, in words; empty where nobody is known to have."""
    task: int | None = None
    """This process's number among those whose output the launcher makes one; None where each has its own."""
    first: str = ""
    """Where the launcher put the first of those, by its own word; kept by the second."""
    everywhere: str = ""
    """What to put before the line, where this is a batch script and the line starts something on this node alone."""
    note: str = ""
    """What is to be known of how the launcher's variables were read."""
    beside: str = ""
    """What says that several torchruns or ranks were started, of which this one takes itself for the whole job."""
    together: dict[str, str] = field(default_factory=dict)
    """The flags, as far as they are known, with which all of those would be one job."""
    roster: tuple[str, ...] = ()
    """The launcher's names of the nodes, in the order of their ranks; kept by rank 0's process."""
    tasks: tuple[int, ...] = ()
    """How many processes the launcher started on each of them."""
    announce: bool = False
    """Several nodes and no master known: this node is 0 and prints the line for the others."""
    sources: dict[str, str] = field(default_factory=dict)
    """Field name -> the flag or variable it came from, or ``default``."""
    problems: tuple[PlanProblem, ...] = ()

    def backends(self, gpus: bool) -> tuple[str, ...]:
        """The process groups that init_process_group() would make. ``gpus``: whether this node has visible devices.

        ``auto`` is init_process_group() without a backend: gloo for CPU tensors and, where there are devices, nccl
        for CUDA tensors (torch/distributed/distributed_c10d.py, ``BackendConfig``).
        """
        if self.backend == "auto":
            return ("gloo", "nccl") if gpus else ("gloo",)
        return tuple(dict.fromkeys(part.rpartition(":")[2] for part in self.backend.split(",")))

    @property
    def broken(self) -> tuple[PlanProblem, ...]:
        """Those of the problems by which the process groups cannot be made."""
        return tuple(problem for problem in self.problems if not problem.local)

    @property
    def one_node(self) -> bool:
        """Return whether the job is one node: nobody is to come from another."""
        return self.nnodes == 1 or self.world_size == 1

    @property
    def opens_store(self) -> bool:
        """Return whether this is node 0 by its own plan: its rank 0 hosts the store, wherever MASTER_ADDR leads."""
        if self.agent_store:
            return False
        return self.rank == 0 if self.started == "rank" else self.node_rank == 0

    def may_open_store(self, master_is_own: bool | None) -> bool:
        """Return whether the owner of MASTER_ADDR, as no node rank says otherwise, becomes node 0."""
        return self.started == "node" and self.node_rank is None and bool(master_is_own)

    @property
    def gloo_planned(self) -> bool:
        """Return whether the job makes a gloo group; with ``auto`` it always does."""
        return "gloo" in self.backends(gpus=False)

"""Plan of the job, with the source of each value. ``distdoctor.plan.resolve`` makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.device_mesh import lengths_of

DEFAULT_PORT = 29500
DEFAULT_RANKS_WITHOUT_GPU = 2
RDZV_BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
"""Backends that torchrun has by itself (torch/distributed/elastic/rendezvous/registry.py)."""
BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl", "hccl")


@dataclass(frozen=True)
class PlanProblem:
    """Launch variable that is missing or makes no sense. ``value`` is None if it is missing."""

    variable: str
    value: str | None
    why: str
    suggestion: str | None = None
    """Intended value, if it can be derived from the given one."""
    unset: bool = False
    """True if the job runs without it: its default is what most jobs have."""
    local: bool = False
    """True if it numbers the ranks of one node: torch makes its groups without it, a script picks its GPU by it."""
    starts: bool = False
    """True if the process groups are made all the same, without the intended effect."""


@dataclass(frozen=True)
class EnginePort:
    """Port that an engine of the job binds on this node, beside that of the store."""

    port: int
    setting: str
    """Option or variable from which it comes."""
    use: str
    given: bool = False
    """True if the line or the environment sets it; else it is the engine's default."""


@dataclass(frozen=True)
class EngineServer:
    """Server outside the job's ranks that each rank of an engine asks at its start."""

    host: str
    port: int
    use: str
    setting: str
    """Option or variable from which the address comes, or the key of a file."""
    one_of: bool = False
    """True if the setting names several servers, of which one is enough."""
    needed: bool = True
    """False if the engine runs without it, as without a cache."""


@dataclass(frozen=True)
class Plan:
    """Plan of the job."""

    started: Literal["node", "rank"] = "node"
    """Once per node (distdoctor forks the node's ranks) or once per rank (this process is one rank)."""
    nnodes: int | None = 1
    """Number of nodes; None if unknown (RANK set by hand without LOCAL_WORLD_SIZE)."""
    min_nodes: int | None = None
    """Number of nodes with which an elastic job (--nnodes MIN:MAX) starts; None for any other job."""
    nproc_per_node: int | None = DEFAULT_RANKS_WITHOUT_GPU
    node_rank: int | None = None
    """None: assigned at the rendezvous; the owner of MASTER_ADDR is 0."""
    rank: int | None = None
    """This process's own rank; only once per rank, None if RANK is missing or invalid."""
    local_rank: int | None = None
    world_size: int | None = None
    """None if it depends on nodes that are not known yet, or is missing or invalid."""
    master_addr: str | None = None
    master_port: int = DEFAULT_PORT
    backend: str = "auto"
    mesh: tuple[tuple[str, int], ...] = ()
    """Dimensions of the job's device mesh with their sizes, the outermost first; empty: none is known."""
    mesh_order: tuple[str, ...] = ()
    """Groups that the job creates itself, in its order: a dimension, or NAME=DIMENSION+DIMENSION; empty: those of a
    DeviceMesh."""
    groups: int = 0
    """Number of groups of all ranks that the job creates after the default group and the mesh."""
    agent_store: bool = False
    """True if torchrun's agent hosts the store on MASTER_PORT, and the ranks are its clients."""
    run_id: str = "none"
    rdzv_backend: str = "static"
    local_addr: str = ""
    """Name of this node by torchrun's agent with the c10d rendezvous; empty: what getfqdn() returns."""
    is_host: bool | None = None
    """True if the agent is to host the c10d rendezvous (--rdzv-conf is_host=...); None: torchrun finds out."""
    join_timeout: int | None = None
    """Seconds for which torchrun's agent waits for the others with the c10d rendezvous (--rdzv-conf join_timeout=...);
    None: 600, its default."""
    init_method: str | None = None
    """Argument of init_process_group(init_method=...): ``tcp://HOST:PORT`` or ``file://PATH``; None: ``env://``."""
    restart: int = 0
    launcher: str = ""
    """Launcher that started this process as one of several, in words; empty if none is known."""
    task: int | None = None
    """Number of this process among those that share the launcher's output; None if each has its own."""
    first: str = ""
    """Node of the first of those, by the launcher; kept by the second."""
    everywhere: str = ""
    """Command prefix for all nodes, if this is a batch script and the line would start something on this node alone."""
    note: str = ""
    """Note on how the launcher's variables were read."""
    beside: str = ""
    """Evidence that several torchruns or ranks were started, of which this one takes itself for the whole job."""
    together: dict[str, str] = field(default_factory=dict)
    """Flags, as far as known, with which all of those would be one job."""
    roster: tuple[str, ...] = ()
    """Launcher's names of the nodes, in the order of their ranks; kept by rank 0's process."""
    tasks: tuple[int, ...] = ()
    """Number of processes that the launcher started on each of them."""
    announce: bool = False
    """True with several nodes and no known master: this node is 0 and prints the line for the others."""
    sources: dict[str, str] = field(default_factory=dict)
    """Field name -> the flag or variable it came from, or ``default``."""
    problems: tuple[PlanProblem, ...] = ()
    log_dir: str = ""
    """Folder for the ranks' logs (torchrun --log-dir); empty: torchrun makes one among the temporary files."""
    engine: str = ""
    """Inference engine or framework whose start line made this plan; empty for all other jobs."""
    ports: tuple[EnginePort, ...] = ()
    """Ports that it binds on this node."""
    servers: tuple[EngineServer, ...] = ()
    """Servers that its ranks on this node ask at their start."""
    shell: dict[str, str] = field(default_factory=dict)
    """Settings of the shell that started the run, which Ray's worker on this node does not have, or has otherwise."""

    def backends(self, gpus: bool) -> tuple[str, ...]:
        """Return the process groups that init_process_group() would make. ``gpus``: this node has visible devices.

        ``auto`` is init_process_group() without a backend: gloo for CPU tensors and, with devices, nccl for CUDA
        tensors (torch/distributed/distributed_c10d.py, ``BackendConfig``).
        """
        if self.backend == "auto":
            return ("gloo", "nccl") if gpus else ("gloo",)
        return tuple(dict.fromkeys(part.rpartition(":")[2] for part in self.backend.split(",")))

    @property
    def broken(self) -> tuple[PlanProblem, ...]:
        """Return the problems that keep the process groups from being made."""
        return tuple(problem for problem in self.problems if not (problem.local or problem.starts))

    @property
    def one_node(self) -> bool:
        """Return whether the job is one node."""
        return self.nnodes == 1 or self.world_size == 1

    @property
    def opens_store(self) -> bool:
        """Return whether this is node 0 by its own plan: its rank 0 hosts the store, wherever MASTER_ADDR leads."""
        if self.agent_store:
            return False
        return self.rank == 0 if self.started == "rank" else self.node_rank == 0

    def may_open_store(self, master_is_own: bool | None) -> bool:
        """Return whether this node becomes node 0 as the owner of MASTER_ADDR, because no node rank says otherwise."""
        return self.started == "node" and self.node_rank is None and bool(master_is_own)

    @property
    def gloo_planned(self) -> bool:
        """Return whether the job makes a gloo group; with ``auto`` it always does."""
        return "gloo" in self.backends(gpus=False)

    def gloo_group_sizes(self, world: int | None = None) -> list[int]:
        """Return the sizes of the gloo groups of each rank, without the default one. ``world``: number of ranks, by
        default that of the plan."""
        world = world or self.world_size or 1
        return lengths_of(self.mesh, self.groups, world, self.mesh_order) if self.gloo_planned else []

"""Running or hanging job: its processes on this host, the position of each, and their changes between two looks.

All of it was read from /proc and, if permitted, by py-spy; nothing was sent to a process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.facts.host import BuildLock
from distdoctor.model.facts.network import Contact

Role = Literal["agent", "launcher", "helper", "rank", "loader", "child"]
"""Role of a process of the job, in this order: torchrun's agent; another process that starts ranks, such as the core of
an engine; one that serves an engine's ranks, such as its detokenizer. Then a rank; a worker of a DataLoader; any other
process below one of these."""

SERVES = "connections to port "
"""Start of :attr:`JobThread.reads` for a thread that waits until somebody connects to a TCP port."""


@dataclass(frozen=True)
class Socket:
    """One TCP socket of a process (proc_net_tcp(5))."""

    state: str
    """State as the kernel calls it: ``LISTEN``, ``SYN_SENT``, ``ESTABLISHED``, ``CLOSE_WAIT``, ..."""
    local: str
    local_port: int
    remote: str = ""
    remote_port: int = 0
    unacknowledged: int = 0
    """Bytes in the queue to the other side."""
    retransmits: int = 0
    """Number of retransmissions of the data that is being sent."""


@dataclass(frozen=True)
class CallArguments:
    """Arguments of a function of torch.distributed that identify its peers; or of filelock; or the waitable objects of
    the job's own function."""

    group: str = ""
    """Name of the group that it makes; empty if it makes none."""
    ranks: tuple[int, ...] = ()
    """Global ranks of that group; empty if it makes none, or they are too many to be shown."""
    peer: int | None = None
    """Its ``src`` or ``dst``: the global rank that sends, receives or is the root."""
    init_method: str = ""
    """Init method, as ``file:///shared/x``; empty if none is given."""
    lock: str = ""
    """File that filelock is to lock; empty if unknown, or for another function."""
    soft: bool = False
    """True if the file's existence is the lock (filelock's ``SoftFileLock``), not a kernel lock on it."""
    world_size: int | None = None
    """Clients for which the store that it makes waits (torch/distributed/rendezvous.py); None for other functions."""
    has: Literal["", "work", "lock", "either", "store"] = ""
    """For the job's own code: a ``Work`` of torch.distributed, or a lock, or both; or neither of them, but a store of
    torch.distributed. Empty if it has none of these, or is not the job's own."""


@dataclass(frozen=True)
class Frame:
    """Line of code in which a thread is."""

    function: str
    file: str
    line: int = 0
    own: bool = False
    """True for the job's own code, not torch's, Python's or that of an installed package."""
    given: CallArguments | None = field(default=None, compare=False)
    """None for any other function, or if unreadable. Two frames are the same position whatever it is."""


@dataclass(frozen=True)
class FileLock:
    """Lock on a file that a thread waits for."""

    path: str
    holders: dict[int, str] = field(default_factory=dict)
    """Holders by the kernel's list (/proc/locks): process -> its name. Empty if no process of this host holds it, or
    that is invisible."""
    age: float | None = None
    """For a lock that is the file itself: seconds since the file was written. None for any other."""


@dataclass(frozen=True)
class Answerer:
    """Process of this host at the other end of a TCP connection on which a thread waits for an answer."""

    pid: int
    name: str
    busy: float = 0.0
    """Share of a processor that it and the processes below it used, or waited for, while watched: 1.0 is a whole
    one."""


@dataclass(frozen=True)
class Peer:
    """Process of this host that shares memory with another, or has the other end of its Unix sockets."""

    pid: int
    name: str
    """Title that an engine gave it, else its name."""
    memory: int = 0
    """Number of pieces of memory that both have mapped as shared."""
    sockets: int = 0
    """Number of connected Unix sockets between them."""


@dataclass(frozen=True)
class JobThread:
    """One thread of a process."""

    tid: int
    name: str
    """Its own name, as ``pt_gloo_runloop``."""
    state: str = ""
    """Letter of /proc/PID/stat: R runs, S sleeps, D waits for a device, T stopped, Z ended."""
    waits_in: str = ""
    """Function of the kernel in which it sleeps (wchan); empty if it does not, or that is not shown."""
    call: str = ""
    """System call in which it is, as ``futex``; empty if it is in none, or that is not shown."""
    timed: bool | None = None
    """For a futex: True if it waits for a limited time. None for anything else."""
    limit: float | None = None
    """For a main thread in poll(2): seconds after which that call gives up. None without a limit, or if unknown."""
    age: float | None = None
    """For a thread of torch.distributed: seconds since it was started. None for other threads, or if unknown."""
    reads: str = ""
    """File that it reads, writes or polls, as the link in /proc/PID/fd; for a TCP connection with its other end, as
    ``socket:[17] to 10.0.0.1:80``, and for a pipe that it is its output. For a main thread that serves a port:
    ``connections to port 8000``."""
    frames: tuple[Frame, ...] = ()
    """Python's frames (with py-spy --native also others), the innermost first; empty if unavailable."""
    lock: FileLock | None = None
    """For a main thread: the lock on a file that it waits for. None if it waits for none, or that is unknown."""
    left: float | None = None
    """For a main thread: seconds left of its sleep (/proc/PID/mem); None if it does not sleep, or that is unknown."""
    other_ends: tuple[int, ...] = ()
    """For a rank's main thread that waits at a pipe: the job's other processes on this host that have its other end."""
    asks: Answerer | None = None
    """For the main thread of a rank, or of a process below one: the process that is to answer it. None if it waits for
    no answer, or no process of this host has the other end."""


@dataclass(frozen=True)
class ProcessChanges:
    """Changes between two looks at a process, ``seconds`` apart."""

    seconds: float
    cpu: float = 0.0
    """Seconds of processor time, of all its threads."""
    main_cpu: float = 0.0
    """Seconds of processor time of its main thread."""
    read: int = 0
    """Bytes that it read, from files, pipes and sockets."""
    written: int = 0
    switches: int = 0
    """Number of times its main thread gave up the processor to wait."""
    stack: bool | None = None
    """True if the Python stack of its main thread changed; None without two stacks."""
    calls: bool | None = None
    """True if its main thread was in another system call; None if that is not shown."""
    paths: int | None = None
    """Number of different paths, from function to function, in the stacks of its main thread; None if it was not
    sampled so often."""
    fed: int = 0
    """Number of its other threads that wait for data, and got some."""
    exchanged: int = 0
    """Bytes that gloo's own threads read and wrote, if these have names (after torch 2.9). Received bytes are not
    counted (recv(2)), only sent ones."""
    ended: int = 0
    """Number of processes below it that have ended."""
    woke: tuple[int, ...] = ()
    """Its other threads that ran, except torch's own."""


@dataclass(frozen=True)
class JobProcess:
    """One process of the job. Values that were unreadable for lack of rights are None."""

    pid: int
    parent: int
    role: Role
    name: str = ""
    state: str = ""
    """Letter as in :class:`JobThread`."""
    user: str = ""
    age: float = 0.0
    """Seconds since it was started."""
    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    restart: int = 0
    """Number of restarts by its agent."""
    variables: dict[str, str] = field(default_factory=dict)
    """Launch and backend variables it was started with, by the allow-list of names."""
    torch: str | None = None
    """Version of the torch that it has loaded; empty if unknown; None if it has loaded none."""
    threads: tuple[JobThread, ...] = ()
    """Threads, the main thread first."""
    sockets: tuple[Socket, ...] | None = None
    files: tuple[str, ...] = ()
    """Files of its output, and lock files that it has open."""
    readable: bool = True
    """False if this user may not look into it: then only its name, state and threads' names are known."""
    idle: float | None = None
    """Seconds for which its main thread had not run at the first look: a wait is at least that long. None if the kernel
    does not say (/proc/PID/sched)."""
    stack_error: str = ""
    """Reason for missing frames, if there are none."""
    moved: ProcessChanges | None = None
    frozen: str = ""
    """Control group with which it is frozen, as a paused container; empty if it is not."""
    title: str = ""
    """Title that an engine gave it, such as ``VLLM::Worker_TP1``; empty for a plain command line."""
    peers: tuple[Peer, ...] | None = None
    """Processes that may answer it through shared memory or Unix sockets; None unless it waits at a queue, or if
    unreadable."""

    @property
    def main(self) -> JobThread | None:
        """Main thread of the process."""
        return self.threads[0] if self.threads else None


@dataclass(frozen=True)
class JobFacts:
    """One host's part of one job."""

    id: str
    """Key of the job on this host: its run id, or its rendezvous."""
    launcher: str = ""
    """``torchrun``, ``env`` (the variables were set by hand or by a script), ``fork`` (one script starts the ranks),
    ``ray`` (Ray Train)."""
    run_id: str = ""
    master_addr: str = ""
    master_port: int | None = None
    rdzv_backend: str = ""
    """torchrun's ``static`` or ``c10d``; empty without torchrun."""
    rdzv_endpoint: str = ""
    join_timeout: float | None = None
    """Seconds for which its agents wait for each other; None without torchrun. Older facts lack it for a static
    rendezvous."""
    connect_timeout: float | None = None
    """Seconds for which its agents try to connect to the store where they join; None without torchrun."""
    nnodes: int | None = None
    """Number of planned nodes, by its command lines or variables."""
    nproc_per_node: str = ""
    """Ranks per node by torchrun or the variables: a number, or ``gpu``, ``cpu`` or ``auto``; empty if unknown."""
    node_rank: int | None = None
    world_size: int | None = None
    netns: str = ""
    """Network namespace of its processes."""
    processes: tuple[JobProcess, ...] = ()
    stores: tuple[StoreView, ...] = ()
    """Content of the stores of the job: the one at which its agents join first, if there are two."""
    further_stores: tuple[StoreView, ...] = ()
    """Content of the other stores that its processes serve on this host."""
    servers: tuple[WorkerServer, ...] = ()
    """Answers of the servers of torch.distributed.debug, if the job has them."""
    ras: RasView | None = None
    """Answer of NCCL's RAS, if it listens here."""
    ray: RayView | None = None
    """Content of Ray's files, if Ray started the job."""
    locks: tuple[BuildLock, ...] = ()
    """Locks in folders where its ranks build extensions."""
    ended: tuple[int, ...] = ()
    """Processes that have ended and that nobody has reaped, of the same parent and name as ranks of the job."""
    strangers: tuple[int, ...] = ()
    """Ranks that wrote into the store that they listen at an address of this host, on a port where a process listens
    that was not found to belong to the job."""
    seconds: float = 0.0
    """Seconds between the two looks; 0 if there was one."""
    notes: tuple[str, ...] = ()
    """Notes on what was invisible, and the remedy."""

    @property
    def ranks(self) -> tuple[JobProcess, ...]:
        return tuple(process for process in self.processes if process.role == "rank")


# Answers of a job that was started with something to ask: flight recorders, NCCL's RAS. None of it clears a hang: both
# have called jobs healthy that hung.


@dataclass(frozen=True)
class RecordedCall:
    """One collective of one group, as one rank recorded it."""

    number: int
    """Position in the order in which this rank called them."""
    operation: str
    sizes: str = ""
    done: bool = False
    frame: str = ""
    """Line of code that called it, if recorded."""
    age: float | None = None
    """Seconds since it was called, by two hosts' clocks; None if not recorded."""


@dataclass(frozen=True)
class RecorderView:
    """Newest calls of one rank in one group."""

    group: str
    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True)
class WorkerServer:
    """Server inside one rank that torch.distributed.debug starts."""

    rank: int
    url: str
    """URL; for a flight recorder that the rank wrote to a file: ``file:`` and its path."""
    answers: bool = False
    """True if it answered a ping: the process runs, whatever its main thread does."""
    recorders: tuple[RecorderView, ...] = ()
    problem: str = ""
    """Reason for a missing answer."""


@dataclass(frozen=True)
class RasRank:
    """Rank of a communicator that RAS names."""

    rank: int
    """Rank in its communicator."""
    pid: int
    host: str
    """Address by which NCCL knows its host."""
    launched: int = 0
    """Number of collectives of the kind it has called, if it is named for that."""


@dataclass(frozen=True)
class RasCount:
    """Progress of the ranks of one communicator in one kind of collective, if it differs."""

    communicator: str
    """Hash of the communicator."""
    operation: str
    """Name in torch.distributed: all_reduce."""
    ranks: tuple[RasRank, ...] = ()
    """Ranks that are named: all whose count few others have."""
    others: int = 0
    """Number of further ranks, which are not named."""
    others_launched: int | None = None
    """Count of these; None if they differ, or there are none."""

    @property
    def behind(self) -> int:
        """Lowest count of the named ranks."""
        rest = [self.others_launched] if self.others_launched is not None else []
        return min([*(rank.launched for rank in self.ranks), *rest], default=0)


@dataclass(frozen=True)
class RasView:
    """Answer of NCCL's RAS on one host, about all communicators of the job."""

    address: str
    port: int
    answers: bool = False
    version: str = ""
    errors: tuple[str, ...] = ()
    """Paragraphs under its heading ``Errors``, each one line."""
    warnings: tuple[str, ...] = ()
    counts: tuple[RasCount, ...] = ()
    """Counts of collectives by rank."""
    missing: tuple[RasRank, ...] = ()
    """Ranks of the communicator of all that did not answer."""
    bereft: tuple[int, ...] = ()
    """Processes of which one communicator is gone, by NCCL."""
    whole: bool = False
    """True if the answer is complete."""
    problem: str = ""


# Content of a job's store, as a read-only client sees it: who wrote that it is there, and with which numbers. Whoever
# reaches a store can write into it: these are cleaned and bounded values that somebody wrote, no more.


StoreState = Literal["read", "partly", "silent", "closed", "foreign", "unreached"]
"""``read``: a TCPStore, read whole. ``partly``: a TCPStore; time ran out, or the connection ended, before all was read.
``silent``: it accepts connections and sends nothing. ``closed``: it closes the connection. ``foreign``: another
service. ``unreached``: no connection, or no address of that name (``contact`` and ``problems`` have the reason)."""
MOST_MEMBERS = 1024
"""Limit of the members of one group with an address."""


@dataclass(frozen=True)
class Member:
    """One rank's own record when it joined a group."""

    rank: int
    host: str = ""
    """Its hostname by its own host; empty if it was not read or not written."""
    address: str = ""
    """Address at which its gloo listens for the others; empty as above."""
    port: int | None = None
    world: int | None = None
    """Size of the group as it believes; None if it did not write it."""


@dataclass(frozen=True)
class GroupView:
    """One process group on one kind of device: the ranks that wrote that they are there."""

    path: str
    """Names of the groups from the default one down, as in the store: ``default_pg/0``, ``default_pg/0//1``."""
    device: str = "cpu"
    joined: tuple[int, ...] = ()
    """Ranks of this group that wrote their addresses, in order. With NCCL no rank writes any."""
    members: tuple[Member, ...] = ()
    """Records of these, of the first MOST_MEMBERS that were read."""
    communicators: int = 0
    """For NCCL: number of communicators that were begun (their first ranks wrote an id)."""
    timed_out: bool = False
    """True if NCCL's watchdog wrote that an operation timed out or failed."""
    attempt: int | None = None
    """Restart that these ranks belong to, if the keys say (torchrun of torch 2.1 to 2.5)."""

    @property
    def default(self) -> bool:
        """True if this is the group that init_process_group makes."""
        return "//" not in self.path

    @property
    def worlds(self) -> dict[int, tuple[int, ...]]:
        """Sizes of the group as its members believe, with the ranks that do; the most common first."""
        counted = Counter(member.world for member in self.members if member.world is not None)
        return {
            size: tuple(member.rank for member in self.members if member.world == size)
            for size, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        }

    @property
    def world(self) -> int | None:
        """Number of ranks in the group, as most of its members believe."""
        return next(iter(self.worlds), None)


@dataclass(frozen=True)
class AgentView:
    """One torchrun agent, that is: one node of the job."""

    node: int | None = None
    """Its node rank, once known."""
    ranks: int | None = None
    """Number of ranks it starts."""
    first_rank: int | None = None
    """Lowest rank that it was assigned."""
    world: int | None = None
    """Number of ranks that all agents start, by its assignment."""
    host: str = ""
    """Its own name of its host (only with the c10d rendezvous)."""
    pid: int | None = None
    heartbeat_age: float | None = None
    """Seconds since its last heartbeat, by this host's clock; torchrun sends one every 5 s."""


@dataclass(frozen=True)
class RendezvousView:
    """State of torchrun's c10d rendezvous."""

    run_id: str
    round: int | None = None
    """Round, from 0; one higher after each restart. None if no agent joined yet or the state was unreadable."""
    complete: bool = False
    closed: bool = False
    agents: tuple[AgentView, ...] = ()
    """Agents that joined this round; their node ranks only if it is complete."""
    waiting: tuple[AgentView, ...] = ()
    """Agents that were too late for this round and wait for the next."""
    master: str = ""
    """``host:port`` of the store at which the ranks join, as announced."""
    problem: str = ""
    """Reason for an unreadable state."""


@dataclass(frozen=True)
class StoreView:
    """Answer of one store. Nothing was written to it, and no counter in it was raised."""

    host: str
    port: int
    state: StoreState = "unreached"
    contact: Contact | None = None
    sample: str = ""
    """Start of another service's answer."""
    generation: str = ""
    """torch versions with its protocol: ``2.10+``, ``2.5-2.9``, ``2.2-2.4``, ``<=2.1``; empty if unknown."""
    keys: int | None = None
    clients: int | None = None
    """Number of clients that joined knowing their total, over all restarts: ranks, and torchrun's agents if they use
    the same store. None if none has."""
    agents: tuple[AgentView, ...] = ()
    """torchrun's agents, as they assign the ranks in this store."""
    groups: tuple[GroupView, ...] = ()
    private_groups: tuple[GroupView, ...] = ()
    """Groups that the program made on a store itself, by their prefixes."""
    served_by: int | None = None
    """Process of the job on this host that serves it; None if none does, or unknown."""
    rendezvous: tuple[RendezvousView, ...] = ()
    barriers: dict[str, int] = field(default_factory=dict)
    """Barriers over the store: group -> number of arrived ranks."""
    debug_servers: dict[int, str] = field(default_factory=dict)
    """rank -> URL of its worker server, if torch.distributed.debug runs."""
    leaving: int = 0
    """Number of agents that wrote that they are done."""
    hosted_by: Literal["", "rank 0", "agent"] = ""
    """Process that serves the store, if known."""
    expected_world: int | None = None
    """Number of ranks in the job, as the asking process knew."""
    via: str = ""
    """``host:port`` of the rendezvous that named this store; empty if it was asked for."""
    complete_list: bool = False
    """True if every key was seen; else only those with predictable names."""
    problems: tuple[str, ...] = ()
    """Unreadable parts, and the reason."""
    seconds: float = 0.0
    """Seconds that reading took."""

    def rendezvous_of(self, run_id: str) -> tuple[RendezvousView, ...]:
        """Return the rendezvous of the job with this id; all if it is not among them."""
        return tuple(meeting for meeting in self.rendezvous if meeting.run_id == run_id) or self.rendezvous

    @property
    def known(self) -> bool:
        """True if it is a TCPStore that answered."""
        return self.state in ("read", "partly")

    @property
    def default_group(self) -> GroupView | None:
        """Group of init_process_group on the newest attempt; of several, the one with the most members."""
        defaults = [group for group in self.groups if group.default]
        return max(defaults, key=lambda group: (group.attempt or 0, len(group.joined)), default=None)

    @property
    def world(self) -> int | None:
        """Number of ranks in the job: as was asked for, as torchrun assigned, or as the ranks believe."""
        if self.expected_world:
            return self.expected_world
        shared = Counter(agent.world for agent in self.agents if agent.world)
        if shared:
            return shared.most_common(1)[0][0]
        group = self.default_group
        return group.world if group else None

    @property
    def arrived(self) -> int | None:
        """Number of ranks that joined the store, over all restarts; None if other clients are indistinguishable."""
        group = self.default_group
        if self.clients is None:
            return None
        if self.via:  # the agents joined elsewhere
            return self.clients
        if self.hosted_by == "agent" and not self.agents and not (group and group.joined):
            return None
        return max(0, self.clients - len(self.agents))

    @property
    def rank_0_waits(self) -> bool:
        """True if rank 0 serves the store and still counts joining ranks: it writes its address only when all have
        joined."""
        group, arrived = self.default_group, self.arrived
        joined = group.joined if group else ()
        agents_here = not self.via and (self.agents or self.rendezvous)  # else they joined elsewhere
        if self.hosted_by == "agent" or agents_here or arrived is None or 0 in joined:
            return False
        # Alone, a client may as well be the agent of torchrun's first node.
        return arrived > len(joined) and not self.restarted and bool(joined or self.hosted_by)

    @property
    def restarted(self) -> bool:
        """True if more ranks joined than the job has: some joined twice, and values may be old."""
        return self.arrived is not None and self.world is not None and self.arrived > self.world

    @property
    def joined(self) -> tuple[int, ...]:
        """Ranks that are known to be in init_process_group, or past it."""
        group = self.default_group
        return tuple(sorted({*(group.joined if group else ()), *((0,) if self.rank_0_waits else ())}))

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that are known not to have joined; empty also if that is unknown, see ``tells_missing``."""
        if not self.tells_missing or self.world is None:
            return ()
        here = set(self.joined)
        return tuple(rank for rank in range(self.world) if rank not in here)

    @property
    def tells_missing(self) -> bool:
        """True if the store shows which ranks are missing.

        It does not with NCCL alone, where no rank writes anything, after a restart, or if it was not read whole.
        """
        if self.state != "read" or self.restarted or self.world is None:
            return False
        group = self.default_group
        if group is not None and group.joined:
            return group.joined[-1] < self.world
        return self.hosted_by == "rank 0" and self.arrived == 1

    def node_of(self, rank: int) -> int | None:
        """Return the node rank of the agent that starts ``rank``, if the agents wrote it."""
        for agent in self.agents:
            if agent.first_rank is not None and 0 <= rank - agent.first_rank < (agent.ranks or 0):
                return agent.node
        return None

    def host_of(self, rank: int) -> str:
        """Return the hostname of ``rank``: as it wrote, or as others of its node did; empty if unknown."""
        group = self.default_group
        written = {member.rank: member.host for member in (group.members if group else ()) if member.host}
        if rank in written:
            return written[rank]
        node = self.node_of(rank)
        if node is None:
            return ""
        named = [agent.host for agent in self.agents if agent.node == node and agent.host]
        same_node = [host for other, host in written.items() if self.node_of(other) == node]
        return next(iter([*named, *same_node]), "")


# Ray on one host: the processes of a job of Ray Train, and requests that its cluster cannot place. From process titles
# and the files of Ray's session; Ray itself is not asked.


@dataclass(frozen=True)
class RayBundle:
    """Resources that must be free on one node at once."""

    amounts: dict[str, float]
    """``{"GPU": 1.0}``."""
    count: int = 1
    """Number of bundles like this."""


@dataclass(frozen=True)
class RayDemand:
    """Resources that wait to be placed: a placement group, or tasks and actors of one kind."""

    bundles: tuple[RayBundle, ...]
    strategy: str = ""
    """``PACK``, ``SPREAD``, ``STRICT_PACK`` or ``STRICT_SPREAD`` of a placement group; empty for tasks and actors."""

    @property
    def count(self) -> int:
        """Number of its bundles."""
        return sum(bundle.count for bundle in self.bundles)

    def total(self, resource: str) -> float:
        """Return the amount of a resource that all its bundles need."""
        return sum(bundle.count * bundle.amounts.get(resource, 0.0) for bundle in self.bundles)


@dataclass(frozen=True)
class RayView:
    """One job of Ray on this host."""

    session: str
    """Name of Ray's session, the folder with its logs."""
    driver: int | None = None
    """Process that called ``fit()``; None if it is on another host."""
    address: str = ""
    """Address where nodes join the cluster, as ``10.0.0.1:6379``."""
    status: bool = False
    """True if the autoscaler's last status was read (monitor.log, which is on the head node)."""
    demands: tuple[RayDemand, ...] = ()
    resources: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Resource -> used and total amount in the whole cluster."""
    nodes: int = 0
    """Nodes of the cluster."""
    starting: tuple[str, ...] = ()
    """Nodes that the autoscaler starts now, as it says."""
    impossible: bool = False
    """True if the autoscaler said lately that no kind of node that it has can hold a request."""
    workers: dict[int, str] = field(default_factory=dict)
    """Rank -> address of its node, as Ray Train logged them when it started the workers last."""

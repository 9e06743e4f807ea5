"""A job that runs, or hangs, now: its processes on this host, where each of them is, and what moved meanwhile.

All of it was read from /proc and, where it may be used, by py-spy; nothing was sent to a process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.facts.host import BuildLock
from distdoctor.model.facts.network import Contact

Role = Literal["agent", "launcher", "rank", "loader", "child"]
"""torchrun's agent; what else starts ranks (a script that forks or spawns them); a rank; a worker of a DataLoader; any
other process below one of these."""

SERVES = "connections to port "
"""How :attr:`JobThread.reads` begins of a thread that waits until somebody connects to a TCP port."""


@dataclass(frozen=True)
class Socket:
    """One TCP socket of a process (proc_net_tcp(5))."""

    state: str
    """As the kernel calls it: ``LISTEN``, ``SYN_SENT``, ``ESTABLISHED``, ``CLOSE_WAIT``, ..."""
    local: str
    local_port: int
    remote: str = ""
    remote_port: int = 0
    unacknowledged: int = 0
    """Bytes in the queue to the other side."""
    retransmits: int = 0
    """How often what is sent now was sent again."""


@dataclass(frozen=True)
class Given:
    """What a function of torch.distributed was given, as far as it says who is meant; or one of filelock; or what one
    of the job's own has that can be waited for."""

    group: str = ""
    """The name of the group that it makes; empty where it makes none."""
    ranks: tuple[int, ...] = ()
    """The global ranks of that group; empty where it makes none, or they are too many to be shown."""
    peer: int | None = None
    """Its ``src`` or ``dst``: the global rank that sends, receives or is the root."""
    init_method: str = ""
    """Where it was told to meet the others, as ``file:///shared/x``; empty where that is not said."""
    lock: str = ""
    """The file that filelock is to lock; empty where that is not known, or it is none of its functions."""
    soft: bool = False
    """Whether that file being there is the lock (filelock's ``SoftFileLock``), and not one of the kernel's on it."""
    has: Literal["", "work", "lock", "either", "store"] = ""
    """Of the job's own code: a ``Work`` of torch.distributed, or a lock, or both; or neither of them, but a store of
    torch.distributed. Empty where it has none of these, or it is none of the job's own."""


@dataclass(frozen=True)
class Frame:
    """A line of code in which a thread is."""

    function: str
    file: str
    line: int = 0
    own: bool = False
    """Whether it is the job's own code, and not torch's, Python's or that of a package that was installed."""
    given: Given | None = field(default=None, compare=False)
    """None where it is no such function, or that could not be seen. Two frames are the same place whatever it is."""


@dataclass(frozen=True)
class FileLock:
    """A lock on a file that a thread waits for."""

    path: str
    holders: dict[int, str] = field(default_factory=dict)
    """Who has it, as far as the kernel knows (/proc/locks): process -> its name. Empty where nobody of this host has,
    or that could not be seen."""
    age: float | None = None
    """Of a lock that is the file itself: seconds since the file was written. None of any other."""


@dataclass(frozen=True)
class Answerer:
    """The process of this host that has the other end of a TCP connection by which somebody waits for an answer."""

    pid: int
    name: str
    busy: float = 0.0
    """How much of a processor it and what runs below it used, or waited for, while it was watched: 1.0 is one whole."""


@dataclass(frozen=True)
class JobThread:
    """One thread of a process."""

    tid: int
    name: str
    """What it calls itself, as ``pt_gloo_runloop``."""
    state: str = ""
    """The letter of /proc/PID/stat: R runs, S sleeps, D waits for a device, T stopped, Z ended."""
    waits_in: str = ""
    """The function of the kernel in which it sleeps (wchan); empty where it does not, or it is not shown."""
    call: str = ""
    """The system call in which it is, as ``futex``; empty where it is in none, or it is not shown."""
    timed: bool | None = None
    """Of a futex: whether it waits for a limited time. None for anything else."""
    limit: float | None = None
    """Of a main thread in poll(2): seconds after which that call gives up. None without a limit, or where unknown."""
    age: float | None = None
    """Of a thread of torch.distributed: seconds since it was started. None of other threads, or where unknown."""
    reads: str = ""
    """What the file is that it reads, writes or polls, as the link in /proc/PID/fd says; of a TCP connection also where
    it leads, as ``socket:[17] to 10.0.0.1:80``, and of a pipe that it is its output. Of a main thread that serves a
    port: ``connections to port 8000``."""
    frames: tuple[Frame, ...] = ()
    """Python's frames (with py-spy --native also others), the innermost first; empty where they could not be had."""
    lock: FileLock | None = None
    """Of a main thread: the lock on a file that it waits for. None where it waits for none, or that is not known."""
    left: float | None = None
    """Of a main thread: seconds that it sleeps yet (/proc/PID/mem); None where it does not, or that is not known."""
    other_ends: tuple[int, ...] = ()
    """Of a rank's main thread that waits at a pipe: the job's other processes on this host that have its other end."""
    asks: Answerer | None = None
    """Of the main thread of a rank, or of what runs below one: who is to answer it. None where it does not wait for an
    answer, or no process of this host is seen to have the other end."""


@dataclass(frozen=True)
class Moved:
    """What changed between two looks at a process, ``seconds`` apart."""

    seconds: float
    cpu: float = 0.0
    """Seconds of processor time, of all its threads."""
    main_cpu: float = 0.0
    """Those of its main thread."""
    read: int = 0
    """Bytes that it read, from files, pipes and sockets."""
    written: int = 0
    switches: int = 0
    """How often its main thread gave up the processor to wait."""
    stack: bool | None = None
    """Whether the Python stack of its main thread changed; None where there were no two."""
    calls: bool | None = None
    """Whether its main thread was in another system call; None where that is not shown."""
    paths: int | None = None
    """At how many different paths, from function to function, the stack of its main thread was seen; None where it was
    not looked at so often."""
    fed: int = 0
    """How many of its other threads wait for data, and got some."""
    exchanged: int = 0
    """Bytes that gloo's own threads read and wrote, as far as they have names (after torch 2.9). What they receive from
    their peers is not counted (recv(2)), only what they send."""
    ended: int = 0
    """How many processes below it have ended."""
    woke: tuple[int, ...] = ()
    """Those of its other threads that ran, but for torch's own."""


@dataclass(frozen=True)
class JobProcess:
    """One process of the job. What could not be read, for want of rights, is None."""

    pid: int
    parent: int
    role: Role
    name: str = ""
    state: str = ""
    """As of :class:`JobThread`."""
    user: str = ""
    age: float = 0.0
    """Seconds since it was started."""
    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    restart: int = 0
    """How often its agent has started it again."""
    variables: dict[str, str] = field(default_factory=dict)
    """The launch and backend variables it was started with, by the allow-list of names."""
    torch: str | None = None
    """The version of the torch that it has loaded; empty where that is not known; None where it has loaded none."""
    threads: tuple[JobThread, ...] = ()
    """The main thread first."""
    sockets: tuple[Socket, ...] | None = None
    files: tuple[str, ...] = ()
    """Where its output goes, and lock files that it has open."""
    readable: bool = True
    """False where this user may not look into it: then only its name, state and threads' names are known."""
    idle: float | None = None
    """Seconds for which its main thread had not run when it was looked at first: a wait is at least that long. None
    where the kernel does not say (/proc/PID/sched)."""
    stack_error: str = ""
    """Why there are no frames, where there are none."""
    moved: Moved | None = None
    frozen: str = ""
    """The control group with which it is frozen, as a container that is paused; empty where it is not."""

    @property
    def main(self) -> JobThread | None:
        """Its main thread."""
        return self.threads[0] if self.threads else None


@dataclass(frozen=True)
class JobFacts:
    """What one host shows of one job."""

    id: str
    """What tells it from the other jobs of this host: its run id, or where its ranks meet."""
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
    """Seconds for which its agents wait for each other; None without torchrun. Of a static rendezvous facts of older
    versions lack it."""
    nnodes: int | None = None
    """How many nodes it is to have, as far as its command lines or variables say."""
    nproc_per_node: str = ""
    """Ranks per node as torchrun or the variables say: a number, or ``gpu``, ``cpu`` or ``auto``; empty if unknown."""
    node_rank: int | None = None
    world_size: int | None = None
    netns: str = ""
    """The network namespace of its processes."""
    processes: tuple[JobProcess, ...] = ()
    stores: tuple[StoreView, ...] = ()
    """What the stores of the job hold: the one at which its agents meet first, where there are two."""
    servers: tuple[WorkerServer, ...] = ()
    """What the servers of torch.distributed.debug told, where the job has them."""
    ras: RasView | None = None
    """What NCCL's RAS told, where it listens here."""
    ray: RayView | None = None
    """What Ray's files say, where Ray started the job."""
    locks: tuple[BuildLock, ...] = ()
    """Those where its ranks build extensions."""
    ended: tuple[int, ...] = ()
    """Processes that have ended and that nobody has reaped, of the same parent and name as ranks of the job."""
    strangers: tuple[int, ...] = ()
    """The ranks that wrote into the store that they listen at an address of this host, where somebody listens, and no
    process that was found to belong to the job does."""
    seconds: float = 0.0
    """How far apart the two looks were; 0 where there was one."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and what to do about that."""

    @property
    def ranks(self) -> tuple[JobProcess, ...]:
        """The processes that are ranks."""
        return tuple(one for one in self.processes if one.role == "rank")


# What a job tells of itself where it was started with something to ask: flight recorders, NCCL's RAS.
#
# None of it clears a hang: both have called jobs healthy that hung.


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
        """Return how far the last is."""
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


# What a job's store holds, as one that only reads it can see: who wrote that it is there, and with which numbers.
#
# Whoever reaches a store can write into it: what is here is what somebody wrote, cleaned and within bounds, and no
# more.


StoreState = Literal["read", "partly", "silent", "closed", "foreign", "unreached"]
"""``read``: a TCPStore, read whole. ``partly``: a TCPStore; time ran out, or the connection ended, before all was read.
``silent``: it takes connections and says nothing. ``closed``: it hangs up. ``foreign``: another service.
``unreached``: no connection, or no address of that name (``contact`` and ``problems`` say why)."""
MAX_TOLD = 1024
"""How many members of one group have their addresses told."""


@dataclass(frozen=True)
class Member:
    """What one rank wrote about itself when it joined a group."""

    rank: int
    host: str = ""
    """What its own host calls itself; empty where it was not read or not written."""
    address: str = ""
    """Where its gloo listens for the others; empty as above."""
    port: int | None = None
    world: int | None = None
    """How many ranks it believes the group has; None where it did not write so."""


@dataclass(frozen=True)
class GroupView:
    """One process group on one kind of device: who wrote that it is there."""

    path: str
    """The names of the groups from the default one down, as in the store: ``default_pg/0``, ``default_pg/0//1``."""
    device: str = "cpu"
    joined: tuple[int, ...] = ()
    """The ranks of this group that wrote their addresses, in order. With NCCL no rank writes any."""
    members: tuple[Member, ...] = ()
    """What they wrote, of the first MAX_TOLD that were read."""
    communicators: int = 0
    """NCCL's: how many were begun (their first ranks wrote an id)."""
    timed_out: bool = False
    """NCCL's watchdog wrote that an operation timed out or failed."""
    attempt: int | None = None
    """The restart that these ranks belong to, where the keys say (torchrun of torch 2.1 to 2.5)."""

    @property
    def default(self) -> bool:
        """Return whether this is the group that init_process_group makes."""
        return "//" not in self.path

    @property
    def worlds(self) -> dict[int, tuple[int, ...]]:
        """The sizes that its members believe the group has, with the ranks that do; the most common first."""
        counted = Counter(member.world for member in self.members if member.world is not None)
        return {
            size: tuple(member.rank for member in self.members if member.world == size)
            for size, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        }

    @property
    def world(self) -> int | None:
        """Return how many ranks the group has, as most of its members believe."""
        return next(iter(self.worlds), None)


@dataclass(frozen=True)
class AgentView:
    """One torchrun agent, that is: one node of the job."""

    node: int | None = None
    """Its node rank, once that is known."""
    ranks: int | None = None
    """How many ranks it starts."""
    first_rank: int | None = None
    """The lowest rank that it was given."""
    world: int | None = None
    """How many ranks all of them start, as it was told."""
    host: str = ""
    """What it calls its host (only with the c10d rendezvous)."""
    pid: int | None = None
    heartbeat_age: float | None = None
    """Seconds since it last said that it lives, by this host's clock; torchrun says so every 5 s."""


@dataclass(frozen=True)
class RendezvousView:
    """The state of torchrun's c10d rendezvous."""

    run_id: str
    round: int | None = None
    """Counts from 0; one higher after each restart. None where nobody came yet or the state could not be read."""
    complete: bool = False
    closed: bool = False
    agents: tuple[AgentView, ...] = ()
    """Those who joined this round; their node ranks only where it is complete."""
    waiting: tuple[AgentView, ...] = ()
    """Those who came too late for this round and wait for the next."""
    master: str = ""
    """``host:port`` of the store at which the ranks meet, as it was announced."""
    problem: str = ""
    """Why the state could not be read."""


@dataclass(frozen=True)
class StoreView:
    """What one store answered. Nothing was written to it, and nothing in it was counted up."""

    host: str
    port: int
    state: StoreState = "unreached"
    contact: Contact | None = None
    sample: str = ""
    """The start of what another service said."""
    generation: str = ""
    """Of torch, by the protocol that it speaks: ``2.10+``, ``2.5-2.9``, ``2.2-2.4``, ``<=2.1``; empty if not known."""
    keys: int | None = None
    clients: int | None = None
    """How many clients that know how many they must be have come, over all restarts: ranks, and torchrun's agents where
    they use the same store. None where none has."""
    agents: tuple[AgentView, ...] = ()
    """torchrun's, as they share out the ranks in this store."""
    groups: tuple[GroupView, ...] = ()
    rendezvous: tuple[RendezvousView, ...] = ()
    barriers: dict[str, int] = field(default_factory=dict)
    """Barriers over the store: group -> how many came."""
    debug_servers: dict[int, str] = field(default_factory=dict)
    """rank -> URL of its worker server, where torch.distributed.debug runs."""
    leaving: int = 0
    """How many agents wrote that they are done."""
    hosted_by: Literal["", "rank 0", "agent"] = ""
    """Who serves the store, where that is known."""
    expected_world: int | None = None
    """How many ranks the job has, as whoever asked knew."""
    via: str = ""
    """``host:port`` of the rendezvous that named this store; empty where it was asked for."""
    complete_list: bool = False
    """Every key was seen; else only those whose names can be foreseen."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""
    seconds: float = 0.0
    """How long the looking took."""

    def rendezvous_of(self, run_id: str) -> tuple[RendezvousView, ...]:
        """That of the job with this id, where it is among them; else all."""
        return tuple(one for one in self.rendezvous if one.run_id == run_id) or self.rendezvous

    @property
    def known(self) -> bool:
        """Return whether it is a TCPStore that answered."""
        return self.state in ("read", "partly")

    @property
    def default_group(self) -> GroupView | None:
        """The group of init_process_group on the newest attempt; that of the most members, where there are several."""
        found = [group for group in self.groups if group.default]
        return max(found, key=lambda group: (group.attempt or 0, len(group.joined)), default=None)

    @property
    def world(self) -> int | None:
        """Return how many ranks the job has: as was asked for, as torchrun shared out, or as the ranks believe."""
        if self.expected_world:
            return self.expected_world
        shared = Counter(agent.world for agent in self.agents if agent.world)
        if shared:
            return shared.most_common(1)[0][0]
        group = self.default_group
        return group.world if group else None

    @property
    def arrived(self) -> int | None:
        """Return how many ranks came to the store, over all restarts; None where it cannot be told from who else
        came."""
        group = self.default_group
        if self.clients is None:
            return None
        if self.via:  # the agents met elsewhere
            return self.clients
        if self.hosted_by == "agent" and not self.agents and not (group and group.joined):
            return None
        return max(0, self.clients - len(self.agents))

    @property
    def rank_0_waits(self) -> bool:
        """Rank 0 serves the store and still counts who comes: it writes its address only when all have."""
        group, arrived = self.default_group, self.arrived
        joined = group.joined if group else ()
        agents_here = not self.via and (self.agents or self.rendezvous)  # else they met elsewhere
        if self.hosted_by == "agent" or agents_here or arrived is None or 0 in joined:
            return False
        # Alone, a client may as well be the agent of torchrun's first node.
        return arrived > len(joined) and not self.restarted and bool(joined or self.hosted_by)

    @property
    def restarted(self) -> bool:
        """More ranks came than the job has: some came twice, and what is written may be from before."""
        return self.arrived is not None and self.world is not None and self.arrived > self.world

    @property
    def joined(self) -> tuple[int, ...]:
        """The ranks that are known to be in init_process_group, or past it."""
        group = self.default_group
        return tuple(sorted({*(group.joined if group else ()), *((0,) if self.rank_0_waits else ())}))

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that are known not to have joined; empty also where that cannot be told, see ``tells_missing``."""
        if not self.tells_missing or self.world is None:
            return ()
        here = set(self.joined)
        return tuple(rank for rank in range(self.world) if rank not in here)

    @property
    def tells_missing(self) -> bool:
        """Return whether the store can tell who is missing.

        Not with NCCL alone, where no rank writes anything, after a restart, or where not all was read.
        """
        if self.state != "read" or self.restarted or self.world is None:
            return False
        group = self.default_group
        if group is not None and group.joined:
            return group.joined[-1] < self.world
        return self.hosted_by == "rank 0" and self.arrived == 1

    def node_of(self, rank: int) -> int | None:
        """The node rank of the agent that starts ``rank``, where the agents wrote so."""
        for agent in self.agents:
            if agent.first_rank is not None and 0 <= rank - agent.first_rank < (agent.ranks or 0):
                return agent.node
        return None

    def host_of(self, rank: int) -> str:
        """The name of the host of ``rank``: as it wrote, or as others of its node did; empty if not known."""
        group = self.default_group
        written = {member.rank: member.host for member in (group.members if group else ()) if member.host}
        if rank in written:
            return written[rank]
        node = self.node_of(rank)
        if node is None:
            return ""
        named = [agent.host for agent in self.agents if agent.node == node and agent.host]
        beside = [host for other, host in written.items() if self.node_of(other) == node]
        return next(iter([*named, *beside]), "")


# Ray as one host shows it: the processes of a job of Ray Train, and what its cluster cannot place. From process
# titles and the files of Ray's session; Ray itself is not asked.


@dataclass(frozen=True)
class RayBundle:
    """Resources that must be free on one node at once."""

    amounts: dict[str, float]
    """``{"GPU": 1.0}``."""
    count: int = 1
    """The number of bundles like this."""


@dataclass(frozen=True)
class RayDemand:
    """Resources that wait to be placed: a placement group, or tasks and actors of one kind."""

    bundles: tuple[RayBundle, ...]
    strategy: str = ""
    """``PACK``, ``SPREAD``, ``STRICT_PACK`` or ``STRICT_SPREAD`` of a placement group; empty for tasks and actors."""

    @property
    def count(self) -> int:
        """The number of its bundles."""
        return sum(bundle.count for bundle in self.bundles)

    def total(self, resource: str) -> float:
        """The amount of a resource that all its bundles need."""
        return sum(bundle.count * bundle.amounts.get(resource, 0.0) for bundle in self.bundles)


@dataclass(frozen=True)
class RayView:
    """One job of Ray on this host."""

    session: str
    """The name of Ray's session, the folder with its logs."""
    driver: int | None = None
    """The process that called ``fit()``; None where it is on another host."""
    address: str = ""
    """Where nodes join the cluster, as ``10.0.0.1:6379``."""
    status: bool = False
    """Whether the autoscaler's last status was read (monitor.log, which is on the head node)."""
    demands: tuple[RayDemand, ...] = ()
    resources: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Resource -> how much of it is used and how much there is in the whole cluster."""
    nodes: int = 0
    """Nodes of the cluster."""
    starting: tuple[str, ...] = ()
    """Nodes that the autoscaler starts now, as it says."""
    impossible: bool = False
    """Whether the autoscaler said that no kind of node that it has can hold a request, and did so lately."""
    workers: dict[int, str] = field(default_factory=dict)
    """Rank -> address of its node, as Ray Train logged them when it started the workers last."""

"""A job that runs, or hangs, now: its processes on this host, where each of them is, and what moved meanwhile.

All of it was read from /proc and, where it may be used, by py-spy; nothing was sent to a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from distdoctor.model.facts.host import BuildLock
from distdoctor.model.facts.job_debug import RasView, WorkerServer
from distdoctor.model.facts.job_ray import RayView
from distdoctor.model.facts.job_store import StoreView

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

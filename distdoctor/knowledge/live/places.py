"""Places in a job at which a rank can be, and the detection of a rank's place from /proc and py-spy's stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from distdoctor.knowledge.live.stacks import (
    awaited_queue,
    awaits_further_rank,
    awaits_thread,
    call_of,
    compiles,
    dialling,
    hosts_store,
    in_flight,
    is_futex,
    is_stopped,
    joins,
    named_rank,
    own_frame,
    serves,
    serves_remote_call,
    sleeps,
    switches_of,
    threads_of,
    waiting,
    waits_for_work,
    work_of,
)
from distdoctor.model.facts.job import Frame, JobProcess, JobThread

STARTING, STOPPED, ENDED = "starting", "stopped", "ended"
MASTER, HOSTING, STORE = "connecting to the store", "hosting the store", "in the store"
PEERS, GROUP = "connecting to peers", "making a group"
COLLECTIVE, CODE, LOADER = "in a collective", "in its own code", "waiting for data"
THEIR_CODE = "in their own code"
KEY = "waiting for a key of the store"
"""Wait of the job's own code for a key from another rank: ``store.wait()``, ``store.get()``."""
REMOTE = "in a remote call"
"""Wait for a remote call to another rank, or for all remote calls (torch.distributed.rpc)."""
BEHIND = "waiting for a lock that another rank has"
QUEUE = "waiting at a queue"
"""Wait of an engine's process at a queue: for its next order, an answer or a request, or for space."""
COMPILING, SAVING, LOCK, DEVICE = "compiling", "writing a checkpoint", "waiting for a lock file", "waiting for a device"
FILE_LOCK, MEMORY = "waiting for a file lock", "waiting for memory"
UNSEEN = "where this user may not see it"
"""Sleep in which no thread's call is visible: for lack of rights, or in a sandbox such as gVisor."""
OWN = (CODE, QUEUE, LOADER, SAVING, COMPILING, STARTING, FILE_LOCK, DEVICE, MEMORY)
"""Places at which a rank is by itself."""
MESSAGE = "wait() for a message, or for a lock"
"""Wait of C++ for one rank, below the job's own code; ``acquire(timeout=...)`` of a lock looks the same."""
ONLY_MESSAGE = "wait() for a message"
"""The same, if the object it waits for is known to be no lock."""
OR_LOCK = "for a collective, or for a lock"
"""Reason in a function of the job that has both: C++ and Python wait in the same way."""
TOGETHER = (MASTER, HOSTING, STORE, KEY, PEERS, GROUP, COLLECTIVE, REMOTE, BEHIND)
"""Places at which a rank waits for others, without activity of its own."""


@dataclass(frozen=True)
class Place:
    """Place of a rank."""

    kind: str
    call: str = ""
    """Collective, or function of torch.distributed."""
    frame: Frame | None = None
    """Innermost line of the job's own code."""
    why: str = ""
    """Known reason of a wait: ``reads /mnt/x``, ``sleeps``."""
    sure: bool = True
    """False if only /proc shows it, and other places look the same."""
    child: int | None = None
    """Child process that waits there while the rank waits for it."""
    spins: bool = False
    """True if it waits there with a busy processor, as for a GPU: its activity is no progress."""
    communicators: tuple[str, ...] = ()
    """Communicators of NCCL in which it waits, if known."""

    def said(self, several: bool = False) -> str:
        """Return the place in words; ``several``: of more than one rank."""
        kind = THEIR_CODE if several and self.kind == CODE else self.kind
        parts = [f"in {self.call}" if self.call and self.kind in (COLLECTIVE, GROUP) else kind]
        if self.frame is not None:
            parts.append(f"at {self.frame.file}:{self.frame.line}")
        if self.why:
            parts.append(f"({self.why})")
        return " ".join(parts)


# Detection from /proc and py-spy together.


def place_of(one: JobProcess, below: Iterable[JobProcess] = (), ports: Iterable[int] = ()) -> Place:
    """Return the place of the rank. ``below``: the processes below it; ``ports``: those of the job's stores."""
    if one.frozen:
        return Place(STOPPED, why=f"with its control group {one.frozen}", frame=own_frame(one.main))
    if is_stopped(one):
        return Place(STOPPED, why="by a debugger" if one.state == "t" else "by a signal", frame=own_frame(one.main))
    if one.state in ("Z", "X"):
        return Place(ENDED)
    main = one.main
    if main is None:
        return Place(CODE, sure=False)
    if main.frames:
        return by_stack(one, main, list(below), set(ports))
    return by_system(one, main, list(below), set(ports))


# Detection from the stack that py-spy shows, with /proc's facts. Sources: torch/distributed/rendezvous.py and
# distributed_c10d.py (the functions named here are the same in 2.1 to 2.13), c10d/TCPStore.cpp, ProcessGroupGloo.cpp.


_LONG_SLEEP = 60.0
"""Seconds left of a sleep from which it is not polling."""
_PIECES: dict[str, tuple[str, ...]] = {
    LOCK: ("utils/file_baton.py",),
    FILE_LOCK: ("filelock/_", "utils/filelock.py"),
    COMPILING: ("torch/_inductor/", "torch/_dynamo/", "torch/utils/cpp_extension.py", "triton/"),
    SAVING: ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
    LOADER: ("torch/utils/data/",),
}
"""Parts of file names that identify the activity of a rank within their functions."""
_GROUPS = frozenset(["_new_process_group_helper", "init_process_group", "new_group", "split_group"])
_STORE = frozenset(["_create_c10d_store", "_env_rendezvous_handler", "_tcp_rendezvous_handler"])
_DISTRIBUTED = "torch/distributed/"
_RPC = "torch/distributed/rpc/"
_BARRIER = "_store_based_barrier"
_LEAVING = frozenset(["destroy_process_group"])


@dataclass(frozen=True)
class _View:
    """Process whose main thread's stack was read."""

    process: JobProcess
    main: JobThread
    below: list[JobProcess]
    """Processes below it."""
    ports: set[int]
    """Ports of the job's stores."""

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Return its frames, innermost first."""
        return self.main.frames

    @cached_property
    def own(self) -> Frame | None:
        """Return the innermost line of the job's own code."""
        return own_frame(self.main)

    @cached_property
    def names(self) -> set[str]:
        """Return the functions of torch.distributed on its stack."""
        return {frame.function for frame in self.frames if _DISTRIBUTED in frame.file}

    @cached_property
    def imports(self) -> int:
        """Return the index of the outermost frame that imports a module, -1 if there is none."""
        return max((i for i, frame in enumerate(self.frames) if frame.file.startswith("<frozen importlib")), default=-1)

    @property
    def has(self) -> str:
        """Return the kind of object that the innermost function waits for: ``work``, ``lock``, ``store``, or
        ``either``."""
        return self.frames[0].given.has if self.frames[0].given else ""

    @cached_property
    def waits(self) -> bool:
        """Return whether it waits in C++ while a collective runs."""
        return is_futex(self.main) and in_flight(self.process)

    @cached_property
    def asks_again(self) -> bool:
        """Return whether it polls with short sleeps."""
        return sleeps(self.main) and switches_of(self.process) > 1

    def is_in(self, function: str, file: str) -> bool:
        """Return whether a function of this name is on the stack, in a file whose name ends so."""
        return any(frame.function == function and frame.file.endswith(file) for frame in self.frames)


def by_stack(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    """Return the place of the rank by the first of ``_LOOKS`` that recognizes it."""
    view = _View(one, main, below, ports)
    found = next((place for look in _LOOKS if (place := look(view)) is not None), None)
    if found is not None:
        return found
    # A polling process may wait for something, or work a little each time; a server without clients is idle.
    sure = not (serves(main) or view.asks_again or awaits_thread(one))
    return Place(CODE, frame=view.own, why=waiting(main), sure=sure)


def _uninterruptible(view: _View) -> Place | None:
    return in_kernel(view.main, view.own) if view.main.state == "D" else None


def _in_init(view: _View) -> Place | None:
    if view.names & _STORE:
        tcp = "_tcp_rendezvous_handler" in view.names
        return Place(_in_rendezvous(view), "tcp://" if tcp else "init_process_group", view.own)
    if _BARRIER in view.names or view.names & _GROUPS:
        kind = PEERS if any(True for _ in dialling(view.process, view.ports)) or is_futex(view.main) else GROUP
        name = next((frame.function for frame in reversed(view.frames) if frame.function in _GROUPS), _BARRIER)
        return Place(kind, name, view.own)
    return None


def _in_collective(view: _View) -> Place | None:
    outer = call_of(view.main)
    return Place(COLLECTIVE, outer, view.own, named_rank(view.main)) if outer and outer not in _LEAVING else None


def _in_queue(view: _View) -> Place | None:
    kind = awaited_queue(view.main)
    return Place(QUEUE, frame=view.own, why=kind) if kind else None


def _in_remote_call(view: _View) -> Place | None:
    remote = next(
        (f.function for f in reversed(view.frames) if _RPC in f.file and not f.function.endswith("wrapper")), ""
    )
    if not remote:
        return None
    called = next(
        (
            thread
            for thread in view.process.threads[1:]
            if serves_remote_call(thread) and not awaits_further_rank(thread)
        ),
        None,
    )
    if called is None:
        return Place(REMOTE, frame=view.own, why=remote)
    # It may wait for calls from other ranks, but not while it reads a pipe.
    sure = is_outside_collectives(called) or (sleeps(called) and (called.left or 0.0) >= _LONG_SLEEP)
    return Place(CODE, frame=own_frame(called), why="in what another rank has called", sure=sure)


def _in_known_file(view: _View) -> Place | None:
    # An import does no work yet: importing DistributedDataParallel comes through torch/_dynamo.
    for kind, pieces in _PIECES.items():
        if any(piece in frame.file for frame in view.frames[view.imports + 1 :] for piece in pieces):
            inside = _child_in_kernel(view) if kind == LOADER else None
            return inside or Place(kind, frame=view.own, why=waiting(view.main))
    return None


def _awaits_child(view: _View) -> Place | None:
    return _child_in_kernel(view) if view.main.call in ("wait4", "waitid") else None


def _imports(view: _View) -> Place | None:
    if view.imports < 0:
        return None
    kind = CODE if threads_of(view.process, "pt_gloo_runloop") else STARTING
    return Place(kind, frame=view.own, why="imports modules")


def _awaits_compiler(view: _View) -> Place | None:
    return Place(COMPILING, frame=view.own) if compiles(view.below) else None


def _asks_whether_done(view: _View) -> Place | None:
    """Return the wait for a collective in a loop of ``Work.is_completed()``, or of a file store
    (c10d/FileStore.cpp)."""
    if view.has == "work" and view.asks_again and in_flight(view.process):
        return Place(COLLECTIVE, "wait", view.own, "looks again and again whether it is through")
    if view.has == "store" and sleeps(view.main) and switches_of(view.process) > POLLS:
        return Place(KEY, frame=view.own)
    return None


def _awaits_work(view: _View) -> Place | None:
    if not view.waits or not waits_for_work(view.frames) or view.has == "lock":
        return None
    return Place(COLLECTIVE, work_of(view.frames), view.own, OR_LOCK if view.has == "either" else "")


def _awaits_thread_in_collective(view: _View) -> Place | None:
    thread = next((thread for thread in view.process.threads[1:] if call_of(thread)), None)
    if thread and (view.waits or _looks_after_threads(view) or (joins(view.main) and thread.timed)):
        return Place(COLLECTIVE, call_of(thread), own_frame(thread) or view.own, "in a thread that it waits for")
    return None


def _hosts_own_store(view: _View) -> Place | None:
    asks = sleeps(view.main) or view.main.call in ("poll", "recvfrom", "sendto")  # its own store, how many joined
    if asks and switches_of(view.process) > POLLS and _hosts_further_store(view.process):
        return Place(HOSTING, "TCPStore", view.own, sure=False)
    return None


def _awaits_message(view: _View) -> Place | None:
    """Return the wait for a message: without a thread of its own, it waits in the main one with a time limit
    (``UnboundBuffer``)."""
    of_torch = _DISTRIBUTED in view.frames[0].file  # as pipelining/schedules.py: there, it is no lock
    if not view.main.timed or not (view.frames[0].own or of_torch) or view.has == "lock":
        return None
    if not threads_of(view.process, "pt_gloo_runloop"):
        return None
    return Place(COLLECTIVE, ONLY_MESSAGE if of_torch or view.has == "work" else MESSAGE, view.own)


def _awaits_key(view: _View) -> Place | None:
    if view.main.call not in ("poll", "ppoll"):
        return None
    at_store = waits_for_work(view.frames) and connected(view.process, view.ports)
    return Place(KEY, frame=view.own) if at_store or _asks_own_store(view.process) else None


def _asks_own_store(one: JobProcess) -> bool:
    """Return whether it waits at a store that it serves itself, and nobody else is connected who could set the key."""
    main = one.main
    if main is None or main.asks is None or main.asks.pid != one.pid or not threads_of(one, "pt_tcpstore"):
        return False
    host, _, port = main.reads.partition(" to ")[2].rpartition(":")
    ends = [s for s in one.sockets or () if s.state == "ESTABLISHED" and str(s.local_port) == port]
    return bool(host) and len(ends) == 1


def _has_ended(view: _View) -> Place | None:
    """Return the end of Python, which waits for all non-daemon threads (Lib/threading.py) and all its child
    processes."""
    if view.is_in("_shutdown", "threading.py"):
        left = next((t for t in view.process.threads[1:] if own_frame(t)), None)
        why = "its program has ended but for a thread"
        return Place(CODE, frame=own_frame(left), why=why, sure=not awaits_thread(view.process))
    if view.is_in("_exit_function", "multiprocessing/util.py"):
        return Place(CODE, frame=view.own, why="its program has ended but for a process that it started")
    return None


def _looks_up(view: _View) -> Place | None:
    if view.frames[0].function == "getaddrinfo" and view.frames[0].file.endswith("socket.py"):
        return Place(CODE, frame=view.own, why="looks up the name of a host")
    return None


_LOOKS: tuple[Callable[[_View], Place | None], ...] = (
    _uninterruptible,
    _in_init,
    _in_collective,
    _in_queue,
    _in_remote_call,
    _in_known_file,
    _awaits_child,
    _imports,
    _awaits_compiler,
    _asks_whether_done,
    _awaits_work,
    _awaits_thread_in_collective,
    _hosts_own_store,
    _awaits_message,
    _awaits_key,
    _has_ended,
    _looks_up,
)
"""Detectors in order: a later place is also seen where an earlier one is the reason."""


def _child_in_kernel(view: _View) -> Place | None:
    """Return the place of a child process that it waits for and that is in an uninterruptible call."""
    inside = ((one.pid, one.main) for one in view.below if one.main and one.main.state == "D")
    return next((in_kernel(main, own_frame(main) or view.own, pid) for pid, main in inside), None)


def _looks_after_threads(view: _View) -> bool:
    """Return whether it is in an event loop, or polls the end of other work."""
    return view.asks_again or any("asyncio/" in frame.file for frame in view.frames)


def _in_rendezvous(view: _View) -> str:
    if hosts_store(view.process):
        return HOSTING
    dials = any(socket.state == "SYN_SENT" for socket in view.process.sockets or ())
    return STORE if connected(view.process, view.ports) and not dials else MASTER


def _hosts_further_store(one: JobProcess) -> bool:
    """Return whether it serves a store of the job's own code: before any group exists, or beside that of the groups.

    Its constructor polls every 10 ms for arrivals.
    """
    stores = len(threads_of(one, "pt_tcpstore"))
    return stores > 1 or (stores == 1 and not threads_of(one, "gloo_tcp_loop"))


# Detection from /proc alone. Without stacks gloo's threads show the place: ``pt_gloo_runloop`` threads start with the
# first complete group; one that runs a collective waits for its peers with a time limit (gloo/transport/tcp,
# ``UnboundBuffer::waitRecv``), an idle one without (``ProcessGroupGloo::runLoop``), as seen in runs of torch 2.13.


POLLS = 10.0
"""Context switches per second of the main thread from which it polls: the host of the store checks arrivals every 10 ms
(TCPStore::waitForWorkers)."""


def by_system(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    """Return the place. ``below``: the processes below it; ``ports``: those of the job's stores."""
    if main.state == "D":
        return in_kernel(main)
    if main.state == "S" and not any(thread.call or thread.waits_in for thread in one.threads):
        return Place(UNSEEN, sure=False)
    if one.torch is None:
        return Place(STARTING, why="has not loaded torch", sure=False)
    if any(s.state == "SYN_SENT" and s.remote_port in ports for s in one.sockets or ()):
        return Place(MASTER)
    whole, begun = threads_of(one, "pt_gloo_runloop"), threads_of(one, "gloo_tcp_loop")
    if begun and not whole and any(True for _ in dialling(one, ports)):
        return Place(PEERS)
    if compiles(below):
        return Place(COMPILING)
    if _polls_store(main, ports) and connected(one, ports):
        return Place(GROUP, sure=bool(begun))
    if whole:
        return _with_group(one, main)
    if begun:
        return Place(PEERS) if is_futex(main) else Place(CODE, why=waiting(main), sure=is_outside_collectives(main))
    return _before_groups(one, main)


def _with_group(one: JobProcess, main: JobThread) -> Place:
    """Return the place of a rank that has a complete group of gloo."""
    if is_futex(main) and in_flight(one):
        return Place(COLLECTIVE)
    # NCCL, too, reads its sockets, while it makes a communicator. gloo's send, recv and monitored_barrier wait in the
    # main thread, with a time limit (``UnboundBuffer::waitRecv``). A polling process may wait for one.
    joins = main.reads.startswith("socket:") and threads_of(one, "pt_nccl")
    polls = serves(main) or (sleeps(main) and switches_of(one) > 1)
    return Place(CODE, why=waiting(main), sure=not (joins or polls or (is_futex(main) and main.timed)))


def _before_groups(one: JobProcess, main: JobThread) -> Place:
    """Return the place of a rank that has begun no group and is not seen to connect."""
    switches, asleep = switches_of(one), sleeps(main)
    if hosts_store(one) and switches > POLLS:
        return Place(HOSTING)
    if asleep and not hosts_store(one) and not one.sockets and switches > 0:
        return Place(MASTER, sure=False)
    return Place(CODE, why=waiting(main), sure=is_outside_collectives(main) or (asleep and switches == 0))


def is_outside_collectives(main: JobThread) -> bool:
    """Return whether torch.distributed never waits in the call: it is for a file, a pipe, a file lock or another
    process."""
    if main.call in ("wait4", "waitid", "flock", "fsync", "fdatasync", "openat", "pause"):
        return True
    return main.call in ("read", "readv", "pread64", "write") and not main.reads.startswith("socket:")


def _polls_store(main: JobThread, ports: set[int]) -> bool:
    """Return whether it waits at a connection which, as far as is seen, is that to the store."""
    if main.call in ("recvfrom", "read") and main.reads.startswith("socket:"):
        _, _, peer = main.reads.partition(" to ")
        return not peer or peer.rpartition(":")[2] in map(str, ports)
    return main.call in ("poll", "ppoll")


def in_kernel(thread: JobThread, own: Frame | None = None, child: int | None = None) -> Place:
    """Return the place of a thread in an uninterruptible call: a device, or a control group out of memory
    (mm/memcontrol.c: ``mem_cgroup_oom_synchronize``, ``__mem_cgroup_handle_over_high``)."""
    kind = MEMORY if thread.waits_in.lstrip("_").startswith("mem_cgroup") else DEVICE
    return Place(kind, frame=own, why=waiting(thread), child=child)


def connected(one: JobProcess, ports: set[int]) -> bool:
    """Return whether it has a connection to a store of the job."""
    return any(s.state in ("ESTABLISHED", "CLOSE_WAIT") and s.remote_port in ports for s in one.sockets or ())

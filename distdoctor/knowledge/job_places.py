"""Where in a job a rank is, told from what /proc and py-spy show of its process.

Sources: torch/distributed/rendezvous.py and distributed_c10d.py (the functions named here are the same in 2.1 to 2.13),
c10d/TCPStore.cpp, ProcessGroupGloo.cpp. Without stacks gloo's threads tell: ``pt_gloo_runloop`` are begun with the
first group that is whole; one that runs a collective waits for its peers with a time limit (gloo/transport/tcp,
``UnboundBuffer::waitRecv``), one that has nothing to do waits without (``ProcessGroupGloo::runLoop``), as was seen in
runs of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distdoctor.knowledge.job_movement import awaits_thread, is_stopped, sleeps, switches_of
from distdoctor.knowledge.job_stacks import (
    call_of,
    calls_on,
    joins,
    own_frame,
    waits_for_work,
    was_called,
    whom,
    work_of,
)
from distdoctor.knowledge.job_threads import (
    compiles,
    dialling,
    hosts_store,
    in_flight,
    is_futex,
    serves,
    threads_of,
    waiting,
)
from distdoctor.model.facts.job import Frame, JobProcess, JobThread

STARTING, STOPPED, ENDED = "starting", "stopped", "ended"
MASTER, HOSTING, STORE = "connecting to the store", "hosting the store", "in the store"
PEERS, GROUP = "connecting to peers", "making a group"
COLLECTIVE, CODE, LOADER = "in a collective", "in its own code", "waiting for data"
THEIR_CODE = "in their own code"
KEY = "waiting for a key of the store"
"""In the job's own code, for what another rank writes there: ``store.wait()``, ``store.get()``."""
REMOTE = "in a remote call"
"""Where it waits for what it has called on another rank, or for all remote calls to be done (torch.distributed.rpc)."""
BEHIND = "waiting for a lock that another rank has"
COMPILING, SAVING, LOCK, DEVICE = "compiling", "writing a checkpoint", "waiting for a lock file", "waiting for a device"
FILE_LOCK, MEMORY = "waiting for a file lock", "waiting for memory"
UNSEEN = "where this user may not see it"
"""It sleeps, and of none of its threads is shown in what: for want of rights, or in a sandbox as gVisor."""
OWN = (CODE, LOADER, SAVING, COMPILING, STARTING, FILE_LOCK, DEVICE, MEMORY)
"""Where a rank is by itself."""
MESSAGE = "wait() for a message, or for a lock"
"""Where C++ waits for one rank, below the job's own code; so looks ``acquire(timeout=...)`` of a lock."""
ONLY_MESSAGE = "wait() for a message"
"""The same, where what it waits for is seen to be no lock."""
OR_LOCK = "for a collective, or for a lock"
"""Why it waits in a function of the job's own that has both, of which C++ and Python wait in the same way."""
TOGETHER = (MASTER, HOSTING, STORE, KEY, PEERS, GROUP, COLLECTIVE, REMOTE, BEHIND)
"""Where a rank waits for others, and nothing moves in it meanwhile."""
_POLLS = 10.0
"""Times a second that the main thread gives up the processor from which it counts as polling: the host of the store
looks every 10 ms who has come (TCPStore::waitForWorkers)."""
_LONG_SLEEP = 60.0
"""Seconds of sleep that are left from which it does not look again and again for something."""
_PIECES: dict[str, tuple[str, ...]] = {
    LOCK: ("utils/file_baton.py",),
    FILE_LOCK: ("filelock/_", "utils/filelock.py"),
    COMPILING: ("torch/_inductor/", "torch/_dynamo/", "torch/utils/cpp_extension.py", "triton/"),
    SAVING: ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
    LOADER: ("torch/utils/data/",),
}
"""Parts of the names of files that tell what a rank does while it is in one of their functions."""
_GROUPS = frozenset(["_new_process_group_helper", "init_process_group", "new_group", "split_group"])
_STORE = frozenset(["_create_c10d_store", "_env_rendezvous_handler", "_tcp_rendezvous_handler"])
_DISTRIBUTED = "torch/distributed/"
_RPC = "torch/distributed/rpc/"
_BARRIER = "_store_based_barrier"
_LEAVING = frozenset(["destroy_process_group"])


@dataclass(frozen=True)
class Place:
    """Where a rank is."""

    kind: str
    call: str = ""
    """The collective, or the function of torch.distributed."""
    frame: Frame | None = None
    """The innermost line of the job's own code."""
    why: str = ""
    """What it waits for there, as far as it is seen: ``reads /mnt/x``, ``sleeps``."""
    sure: bool = True
    """False where only /proc told, and other places look the same."""
    child: int | None = None
    """The process of its own that waits there, and it for that one."""

    def said(self, several: bool = False) -> str:
        """In words; ``several``: of more than one rank."""
        kind = THEIR_CODE if several and self.kind == CODE else self.kind
        parts = [f"in {self.call}" if self.call and self.kind in (COLLECTIVE, GROUP) else kind]
        if self.frame is not None:
            parts.append(f"at {self.frame.file}:{self.frame.line}")
        if self.why:
            parts.append(f"({self.why})")
        return " ".join(parts)


def place_of(one: JobProcess, below: Iterable[JobProcess] = (), ports: Iterable[int] = ()) -> Place:
    """Where the rank is. ``below``: the processes below it; ``ports``: those of the stores of the job."""
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
        return _by_stack(one, main, list(below), set(ports))
    return _by_system(one, main, list(below), set(ports))


# -- by Python's stack -----------------------------------------------------------------------------------------------


def _by_stack(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    frames, own = main.frames, own_frame(main)
    outer = call_of(main)
    names = {frame.function for frame in frames if _DISTRIBUTED in frame.file}
    if main.state == "D":
        return _in_kernel(main, own)
    if names & _STORE:
        kind = _in_rendezvous(one, ports)
        tcp = "_tcp_rendezvous_handler" in names
        return Place(kind, "tcp://" if tcp else "init_process_group", own)
    if _BARRIER in names or names & _GROUPS:
        kind = PEERS if any(True for _ in dialling(one, ports)) or is_futex(main) else GROUP
        name = next((frame.function for frame in reversed(frames) if frame.function in _GROUPS), _BARRIER)
        return Place(kind, name, own)
    if outer and outer not in _LEAVING:
        return Place(COLLECTIVE, outer, own, whom(main))
    if remote := next(
        (f.function for f in reversed(frames) if _RPC in f.file and not f.function.endswith("wrapper")), ""
    ):
        called = next((thread for thread in one.threads[1:] if was_called(thread) and not calls_on(thread)), None)
        if called is not None:  # it may wait for what other ranks are to call, but not where it reads a pipe
            why = "in what another rank has called"
            sure = _of_its_own(called) or (sleeps(called) and (called.left or 0.0) >= _LONG_SLEEP)
            return Place(CODE, frame=own_frame(called), why=why, sure=sure)
        return Place(REMOTE, frame=own, why=remote)
    # What is imported does nothing yet: importing DistributedDataParallel comes through torch/_dynamo.
    imports = max((i for i, frame in enumerate(frames) if frame.file.startswith("<frozen importlib")), default=-1)
    for kind, pieces in _PIECES.items():
        if any(piece in frame.file for frame in frames[imports + 1 :] for piece in pieces):
            return (kind == LOADER and _child_in_kernel(below, own)) or Place(kind, frame=own, why=waiting(main))
    if main.call in ("wait4", "waitid") and (inside := _child_in_kernel(below, own)):
        return inside
    if imports >= 0:
        kind = CODE if threads_of(one, "pt_gloo_runloop") else STARTING
        return Place(kind, frame=own, why="imports modules")
    if compiles(below):
        return Place(COMPILING, frame=own)
    waits = is_futex(main) and in_flight(one)
    has = frames[0].given.has if frames[0].given else ""
    asks_again = sleeps(main) and switches_of(one) > 1
    if has == "work" and asks_again and in_flight(one):
        return Place(COLLECTIVE, "wait", own, "looks again and again whether it is through")  # is_completed()
    if has == "store" and sleeps(main) and switches_of(one) > _POLLS:
        return Place(KEY, frame=own)  # a store that is a file (c10d/FileStore.cpp)
    if waits and waits_for_work(frames) and has != "lock":
        return Place(COLLECTIVE, work_of(frames), own, OR_LOCK if has == "either" else "")
    thread = next((thread for thread in one.threads[1:] if call_of(thread)), None)
    if thread and (waits or _looks_after_threads(one, main) or (joins(main) and thread.timed)):
        return Place(COLLECTIVE, call_of(thread), own_frame(thread) or own, "in a thread that it waits for")
    if sleeps(main) and switches_of(one) > _POLLS and _hosts_one_of_its_own(one):
        return Place(HOSTING, "TCPStore", own, sure=False)
    of_torch = _DISTRIBUTED in frames[0].file  # as pipelining/schedules.py: there, it is no lock
    if main.timed and (frames[0].own or of_torch) and threads_of(one, "pt_gloo_runloop") and has != "lock":
        # gloo's messages have no thread: who waits for one does so itself, with a time limit (``UnboundBuffer``).
        return Place(COLLECTIVE, ONLY_MESSAGE if of_torch or has == "work" else MESSAGE, own)
    if main.call in ("poll", "ppoll") and waits_for_work(frames) and _connected(one, ports):
        return Place(KEY, frame=own)
    if any(frame.function == "_shutdown" and frame.file.endswith("threading.py") for frame in frames):
        # Python ends once all threads have that are no daemons (Lib/threading.py).
        left = next((t for t in one.threads[1:] if own_frame(t)), None)
        why = "its program has ended but for a thread"
        return Place(CODE, frame=own_frame(left), why=why, sure=not awaits_thread(one))
    if any(frame.function == "_exit_function" and frame.file.endswith("multiprocessing/util.py") for frame in frames):
        return Place(CODE, frame=own, why="its program has ended but for a process that it started")
    if frames[0].function == "getaddrinfo" and frames[0].file.endswith("socket.py"):
        return Place(CODE, frame=own, why="looks up the name of a host")
    # Who sleeps for a moment again and again may wait for something, or work a little each time; a server without
    # clients has nothing to do.
    sure = not (serves(main) or asks_again or awaits_thread(one))
    return Place(CODE, frame=own, why=waiting(main), sure=sure)


def _in_kernel(thread: JobThread, own: Frame | None = None, child: int | None = None) -> Place:
    """Where a thread is that the kernel does not let be interrupted: for a device, or for a control group that has no
    memory left (mm/memcontrol.c: ``mem_cgroup_oom_synchronize``, ``__mem_cgroup_handle_over_high``)."""
    kind = MEMORY if thread.waits_in.lstrip("_").startswith("mem_cgroup") else DEVICE
    return Place(kind, frame=own, why=waiting(thread), child=child)


def _child_in_kernel(below: list[JobProcess], own: Frame | None) -> Place | None:
    """The same, where it is a process below it for which it waits; None where none is there."""
    inside = ((one.pid, one.main) for one in below if one.main and one.main.state == "D")
    return next((_in_kernel(main, own_frame(main) or own, pid) for pid, main in inside), None)


def _looks_after_threads(one: JobProcess, main: JobThread) -> bool:
    """Whether it is in an event loop, or looks every now and then whether something is through."""
    loops = any("asyncio/" in frame.file for frame in main.frames)
    return loops or (sleeps(main) and switches_of(one) > 1)


def _in_rendezvous(one: JobProcess, ports: set[int]) -> str:
    if hosts_store(one):
        return HOSTING
    return STORE if _connected(one, ports) and not any(s.state == "SYN_SENT" for s in one.sockets or ()) else MASTER


def _hosts_one_of_its_own(one: JobProcess) -> bool:
    """Whether it serves a store that the job's own code made: before there is any group, or beside that of the groups.
    Its constructor looks every 10 ms who has come."""
    stores = len(threads_of(one, "pt_tcpstore"))
    return stores > 1 or (stores == 1 and not threads_of(one, "gloo_tcp_loop"))


def _connected(one: JobProcess, ports: set[int]) -> bool:
    """Whether it has a connection to a store of the job."""
    return any(s.state in ("ESTABLISHED", "CLOSE_WAIT") and s.remote_port in ports for s in one.sockets or ())


# -- by the system alone ---------------------------------------------------------------------------------------------


def _by_system(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    if main.state == "D":
        return _in_kernel(main)
    if main.state == "S" and not any(thread.call or thread.waits_in for thread in one.threads):
        return Place(UNSEEN, sure=False)
    if one.torch is None:
        return Place(STARTING, why="has not loaded torch", sure=False)
    sockets = one.sockets or ()
    if any(s.state == "SYN_SENT" and s.remote_port in ports for s in sockets):
        return Place(MASTER)
    whole, begun = threads_of(one, "pt_gloo_runloop"), threads_of(one, "gloo_tcp_loop")
    if any(True for _ in dialling(one, ports)) and begun and not whole:
        return Place(PEERS)
    if compiles(below):
        return Place(COMPILING)
    if _polls_store(main, ports) and _connected(one, ports):
        return Place(GROUP, sure=bool(begun))
    if whole:
        if is_futex(main) and in_flight(one):
            return Place(COLLECTIVE)
        # NCCL, too, reads its sockets, while it makes a communicator. gloo's send, recv and monitored_barrier wait in
        # the main thread, with a time limit (``UnboundBuffer::waitRecv``). Who sleeps again and again may wait for one.
        joins = main.reads.startswith("socket:") and threads_of(one, "pt_nccl")
        polls = serves(main) or (sleeps(main) and switches_of(one) > 1)
        return Place(CODE, why=waiting(main), sure=not (joins or polls or (is_futex(main) and main.timed)))
    if begun:
        return Place(PEERS) if is_futex(main) else Place(CODE, why=waiting(main), sure=_of_its_own(main))
    switches, asleep = switches_of(one), sleeps(main)
    if hosts_store(one) and (asleep or switches > _POLLS):
        return Place(HOSTING) if switches > _POLLS else Place(CODE, why=waiting(main), sure=switches == 0)
    if asleep and not sockets and switches > 0:
        return Place(MASTER, sure=False)
    return Place(CODE, why=waiting(main), sure=_of_its_own(main) or (asleep and switches == 0))


def _of_its_own(main: JobThread) -> bool:
    """Whether the call is none in which torch.distributed waits: a file, a pipe, a lock on a file, another process."""
    if main.call in ("wait4", "waitid", "flock", "fsync", "fdatasync", "openat", "pause"):
        return True
    return main.call in ("read", "readv", "pread64", "write") and not main.reads.startswith("socket:")


def _polls_store(main: JobThread, ports: set[int]) -> bool:
    """Whether it waits at a connection which, as far as is seen, is that to the store."""
    if main.call in ("recvfrom", "read") and main.reads.startswith("socket:"):
        _, _, peer = main.reads.partition(" to ")
        return not peer or int(peer.rpartition(":")[2]) in ports
    return main.call in ("poll", "ppoll")

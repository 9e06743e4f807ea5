"""Where in a job a rank is, told from the stack of its process, as py-spy shows it, and from what /proc shows beside.

Sources: torch/distributed/rendezvous.py and distributed_c10d.py (the functions named here are the same in 2.1 to 2.13),
c10d/TCPStore.cpp, ProcessGroupGloo.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from distdoctor.knowledge import job_places as places
from distdoctor.knowledge.job_movement import awaits_thread, sleeps, switches_of
from distdoctor.knowledge.job_places import Place
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
from distdoctor.knowledge.places_by_system import POLLS, connected, in_kernel, of_its_own
from distdoctor.model.facts.job import Frame, JobProcess, JobThread

_LONG_SLEEP = 60.0
"""Seconds of sleep that are left from which it does not look again and again for something."""
_PIECES: dict[str, tuple[str, ...]] = {
    places.LOCK: ("utils/file_baton.py",),
    places.FILE_LOCK: ("filelock/_", "utils/filelock.py"),
    places.COMPILING: ("torch/_inductor/", "torch/_dynamo/", "torch/utils/cpp_extension.py", "triton/"),
    places.SAVING: ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
    places.LOADER: ("torch/utils/data/",),
}
"""Parts of the names of files that tell what a rank does while it is in one of their functions."""
_GROUPS = frozenset(["_new_process_group_helper", "init_process_group", "new_group", "split_group"])
_STORE = frozenset(["_create_c10d_store", "_env_rendezvous_handler", "_tcp_rendezvous_handler"])
_DISTRIBUTED = "torch/distributed/"
_RPC = "torch/distributed/rpc/"
_BARRIER = "_store_based_barrier"
_LEAVING = frozenset(["destroy_process_group"])


@dataclass(frozen=True)
class _Seen:
    """A process whose main thread's stack was seen."""

    one: JobProcess
    main: JobThread
    below: list[JobProcess]
    """The processes below it."""
    ports: set[int]
    """Those of the stores of the job."""

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Innermost first."""
        return self.main.frames

    @cached_property
    def own(self) -> Frame | None:
        """The innermost line of the job's own code."""
        return own_frame(self.main)

    @cached_property
    def names(self) -> set[str]:
        """The functions of torch.distributed that it is in."""
        return {frame.function for frame in self.frames if _DISTRIBUTED in frame.file}

    @cached_property
    def imports(self) -> int:
        """Where the outermost frame stands that imports a module; -1 where none does."""
        return max((i for i, frame in enumerate(self.frames) if frame.file.startswith("<frozen importlib")), default=-1)

    @property
    def has(self) -> str:
        """What the innermost function was given to wait for: ``work``, ``lock``, ``store``, or ``either``."""
        return self.frames[0].given.has if self.frames[0].given else ""

    @cached_property
    def waits(self) -> bool:
        """Whether it waits in C++ while a collective runs."""
        return is_futex(self.main) and in_flight(self.one)

    @cached_property
    def asks_again(self) -> bool:
        """Whether it sleeps for a moment again and again."""
        return sleeps(self.main) and switches_of(self.one) > 1

    def is_in(self, function: str, file: str) -> bool:
        """Whether a function is under way that is called so, in a file whose name ends so."""
        return any(frame.function == function and frame.file.endswith(file) for frame in self.frames)


def by_stack(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    """Where it is; the first of ``_LOOKS`` that knows says so."""
    seen = _Seen(one, main, below, ports)
    found = next((place for look in _LOOKS if (place := look(seen)) is not None), None)
    if found is not None:
        return found
    # Who sleeps for a moment again and again may wait for something, or work a little each time; a server without
    # clients has nothing to do.
    sure = not (serves(main) or seen.asks_again or awaits_thread(one))
    return Place(places.CODE, frame=seen.own, why=waiting(main), sure=sure)


def _uninterruptible(seen: _Seen) -> Place | None:
    return in_kernel(seen.main, seen.own) if seen.main.state == "D" else None


def _in_init(seen: _Seen) -> Place | None:
    if seen.names & _STORE:
        tcp = "_tcp_rendezvous_handler" in seen.names
        return Place(_in_rendezvous(seen), "tcp://" if tcp else "init_process_group", seen.own)
    if _BARRIER in seen.names or seen.names & _GROUPS:
        kind = (
            places.PEERS if any(True for _ in dialling(seen.one, seen.ports)) or is_futex(seen.main) else places.GROUP
        )
        name = next((frame.function for frame in reversed(seen.frames) if frame.function in _GROUPS), _BARRIER)
        return Place(kind, name, seen.own)
    return None


def _in_collective(seen: _Seen) -> Place | None:
    outer = call_of(seen.main)
    return Place(places.COLLECTIVE, outer, seen.own, whom(seen.main)) if outer and outer not in _LEAVING else None


def _in_remote_call(seen: _Seen) -> Place | None:
    remote = next(
        (f.function for f in reversed(seen.frames) if _RPC in f.file and not f.function.endswith("wrapper")), ""
    )
    if not remote:
        return None
    called = next((thread for thread in seen.one.threads[1:] if was_called(thread) and not calls_on(thread)), None)
    if called is None:
        return Place(places.REMOTE, frame=seen.own, why=remote)
    # It may wait for what other ranks are to call, but not where it reads a pipe.
    sure = of_its_own(called) or (sleeps(called) and (called.left or 0.0) >= _LONG_SLEEP)
    return Place(places.CODE, frame=own_frame(called), why="in what another rank has called", sure=sure)


def _in_known_file(seen: _Seen) -> Place | None:
    # What is imported does nothing yet: importing DistributedDataParallel comes through torch/_dynamo.
    for kind, pieces in _PIECES.items():
        if any(piece in frame.file for frame in seen.frames[seen.imports + 1 :] for piece in pieces):
            inside = _child_in_kernel(seen) if kind == places.LOADER else None
            return inside or Place(kind, frame=seen.own, why=waiting(seen.main))
    return None


def _awaits_child(seen: _Seen) -> Place | None:
    return _child_in_kernel(seen) if seen.main.call in ("wait4", "waitid") else None


def _imports(seen: _Seen) -> Place | None:
    if seen.imports < 0:
        return None
    kind = places.CODE if threads_of(seen.one, "pt_gloo_runloop") else places.STARTING
    return Place(kind, frame=seen.own, why="imports modules")


def _awaits_compiler(seen: _Seen) -> Place | None:
    return Place(places.COMPILING, frame=seen.own) if compiles(seen.below) else None


def _asks_whether_done(seen: _Seen) -> Place | None:
    """As ``Work.is_completed()`` in a loop; or as a store that is a file does (c10d/FileStore.cpp)."""
    if seen.has == "work" and seen.asks_again and in_flight(seen.one):
        return Place(places.COLLECTIVE, "wait", seen.own, "looks again and again whether it is through")
    if seen.has == "store" and sleeps(seen.main) and switches_of(seen.one) > POLLS:
        return Place(places.KEY, frame=seen.own)
    return None


def _awaits_work(seen: _Seen) -> Place | None:
    if not seen.waits or not waits_for_work(seen.frames) or seen.has == "lock":
        return None
    return Place(places.COLLECTIVE, work_of(seen.frames), seen.own, places.OR_LOCK if seen.has == "either" else "")


def _awaits_thread_in_collective(seen: _Seen) -> Place | None:
    thread = next((thread for thread in seen.one.threads[1:] if call_of(thread)), None)
    if thread and (seen.waits or _looks_after_threads(seen) or (joins(seen.main) and thread.timed)):
        return Place(places.COLLECTIVE, call_of(thread), own_frame(thread) or seen.own, "in a thread that it waits for")
    return None


def _hosts_own_store(seen: _Seen) -> Place | None:
    if sleeps(seen.main) and switches_of(seen.one) > POLLS and _hosts_one_of_its_own(seen.one):
        return Place(places.HOSTING, "TCPStore", seen.own, sure=False)
    return None


def _awaits_message(seen: _Seen) -> Place | None:
    """gloo's messages have no thread: who waits for one does so itself, with a time limit (``UnboundBuffer``)."""
    of_torch = _DISTRIBUTED in seen.frames[0].file  # as pipelining/schedules.py: there, it is no lock
    if not seen.main.timed or not (seen.frames[0].own or of_torch) or seen.has == "lock":
        return None
    if not threads_of(seen.one, "pt_gloo_runloop"):
        return None
    return Place(places.COLLECTIVE, places.ONLY_MESSAGE if of_torch or seen.has == "work" else places.MESSAGE, seen.own)


def _awaits_key(seen: _Seen) -> Place | None:
    polls = seen.main.call in ("poll", "ppoll") and waits_for_work(seen.frames)
    return Place(places.KEY, frame=seen.own) if polls and connected(seen.one, seen.ports) else None


def _has_ended(seen: _Seen) -> Place | None:
    """Python ends once all threads have that are no daemons (Lib/threading.py), and all processes that it started."""
    if seen.is_in("_shutdown", "threading.py"):
        left = next((t for t in seen.one.threads[1:] if own_frame(t)), None)
        why = "its program has ended but for a thread"
        return Place(places.CODE, frame=own_frame(left), why=why, sure=not awaits_thread(seen.one))
    if seen.is_in("_exit_function", "multiprocessing/util.py"):
        return Place(places.CODE, frame=seen.own, why="its program has ended but for a process that it started")
    return None


def _looks_up(seen: _Seen) -> Place | None:
    if seen.frames[0].function == "getaddrinfo" and seen.frames[0].file.endswith("socket.py"):
        return Place(places.CODE, frame=seen.own, why="looks up the name of a host")
    return None


_LOOKS: tuple[Callable[[_Seen], Place | None], ...] = (
    _uninterruptible,
    _in_init,
    _in_collective,
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
"""In this order: what stands further down is also seen where what stands above it is the reason."""


def _child_in_kernel(seen: _Seen) -> Place | None:
    """Where a process below it is for which it waits, and which the kernel does not let be interrupted."""
    inside = ((one.pid, one.main) for one in seen.below if one.main and one.main.state == "D")
    return next((in_kernel(main, own_frame(main) or seen.own, pid) for pid, main in inside), None)


def _looks_after_threads(seen: _Seen) -> bool:
    """Whether it is in an event loop, or looks every now and then whether something is through."""
    return seen.asks_again or any("asyncio/" in frame.file for frame in seen.frames)


def _in_rendezvous(seen: _Seen) -> str:
    if hosts_store(seen.one):
        return places.HOSTING
    dials = any(socket.state == "SYN_SENT" for socket in seen.one.sockets or ())
    return places.STORE if connected(seen.one, seen.ports) and not dials else places.MASTER


def _hosts_one_of_its_own(one: JobProcess) -> bool:
    """Whether it serves a store that the job's own code made: before there is any group, or beside that of the groups.
    Its constructor looks every 10 ms who has come."""
    stores = len(threads_of(one, "pt_tcpstore"))
    return stores > 1 or (stores == 1 and not threads_of(one, "gloo_tcp_loop"))

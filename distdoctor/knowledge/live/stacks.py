"""Activity of a rank's process: the torch.distributed call on its stack, its progress between two looks, its threads
and sockets.

Sources: torch/distributed/distributed_c10d.py, distributed/rpc/internal.py and nn/parallel/distributed.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from distdoctor.model.facts.job import SERVES, FileLock, Frame, JobProcess, JobThread, Socket
from distdoctor.model.text import duration_text

FORWARD, BACKWARD = "the forward pass of DistributedDataParallel", "a backward pass"
"""Calls in which DistributedDataParallel waits: it makes its collectives in C++ (torch/nn/parallel/distributed.py)."""
_BACKWARD = frozenset(["_engine_run_backward", "backward", "grad"])
"""Functions of torch/autograd/graph.py and torch/autograd/__init__.py that run the engine."""
_RPC, _CALLED = "torch/distributed/rpc/", "torch/distributed/rpc/internal.py"
_SHARED = ("multiprocessing/synchronize.py", "multiprocessing/connection.py")


_QUEUE = "shm_broadcast.py"
SHARED, FULL = "shared memory without a message", "shared memory without space"
ZMQ, ZMQ_FULL = "ZMQ socket without a message", "ZMQ socket that takes no more"
AT_ZMQ = "ZMQ socket"
"""Wait for a ZMQ socket of which no stack shows whether it receives or sends."""
_BY_CALL = {"acquire_read": SHARED, "acquire_write": FULL}
_INNER = 5
"""Innermost frames of a wait in a queue."""


def at_line(frame: Frame | None) -> str:
    """Return `` at job.py:6``, to end a clause with; empty without a frame."""
    return f" at {frame.file}:{frame.line}" if frame is not None else ""


def own_frame(thread: JobThread | None) -> Frame | None:
    """Return the innermost line of the job's own code on the thread's stack."""
    return next((frame for frame in (thread.frames if thread else ()) if frame.own), None)


def call_of(thread: JobThread) -> str:
    """Return the function of torch.distributed that the thread has called, empty if none."""
    called = (frame.function for frame in reversed(thread.frames) if _is_c10d(frame))
    return next((name for name in called if not name.startswith("_exception")), "")


def named_rank(thread: JobThread) -> str:
    """Return the rank that the thread names in that call: the source, the destination, the root."""
    call, peer = _naming(thread) or ("", None)
    how = "from rank" if "recv" in call else "to rank" if "send" in call else "root"
    return f"{how} {peer}" if call else ""


def root_of(thread: JobThread | None) -> tuple[str, int] | None:
    """Return the thread's call with a root, and the root that it names; None if none."""
    named = _naming(thread) if thread is not None else None
    return None if named is None or "recv" in named[0] or "send" in named[0] else named


def partner_of(thread: JobThread | None) -> int | None:
    """Return the rank from which a thread waits to receive, or to which it waits to send; None if none."""
    named = _naming(thread) if thread is not None else None
    return named[1] if named is not None and ("recv" in named[0] or "send" in named[0]) else None


def meets_at(thread: JobThread | None) -> str:
    """Return the address at which a thread in init_process_group() joins, empty if unknown.

    Only the port of an address is returned: a host may have several names.
    """
    given = (frame.given.init_method for frame in (thread.frames if thread else ()) if frame.given)
    method = next(filter(None, given), "")
    where = method.partition("?")[0]
    return f"tcp:// with port {where.rpartition(':')[2]}" if where.startswith("tcp://") else where


def meeting_size(thread: JobThread | None) -> int | None:
    """Return the number of ranks for which the thread's store waits, None if unknown."""
    given = (frame.given.world_size for frame in (thread.frames if thread else ()) if frame.given)
    return next(filter(None, given), None)


def _naming(thread: JobThread) -> tuple[str, int] | None:
    """Return the outermost function of torch.distributed with a rank argument, and that rank."""
    named = (f for f in reversed(thread.frames) if f.given)
    return next(((f.function, f.given.peer) for f in named if f.given and f.given.peer is not None), None)


def serves_remote_call(thread: JobThread) -> bool:
    """Return whether a thread runs a call from another rank (torch/distributed/rpc/internal.py): in Python, or a
    function in C, which has no frame."""
    return any(frame.file.endswith(_CALLED) for frame in thread.frames)


def awaits_further_rank(thread: JobThread) -> bool:
    """Return whether the call from another rank waits for a call of its own on a further rank."""
    inner = takewhile(lambda frame: not frame.file.endswith(_CALLED), thread.frames)
    return any(_RPC in frame.file for frame in inner)


def work_of(frames: tuple[Frame, ...]) -> str:
    """Return the kind of collective that C++ waits for: a pass of DistributedDataParallel, else ``wait``."""
    if any(frame.file.endswith("torch/nn/parallel/distributed.py") for frame in frames):
        return FORWARD
    # torch/autograd/function.py is in the forward pass, too: DTensor's redistribute() waits there.
    passes = (frame for frame in frames if frame.function in _BACKWARD and "torch/autograd/" in frame.file)
    return BACKWARD if any(passes) else "wait"


def awaited_queue(thread: JobThread | None) -> str:
    """Return the queue at which the thread waits: vLLM's in shared memory, or ZMQ's; else empty.

    vLLM's reader and its writer ask again and again with a busy processor; a reader waits at a ZMQ socket once that has
    lasted (vllm/distributed/device_communicators/shm_broadcast.py).
    """
    inner = thread.frames[:_INNER] if thread is not None else ()
    calls = [frame.function.rpartition(".")[2] for frame in inner if frame.file.endswith(_QUEUE)]
    if kind := next((_BY_CALL[call] for call in calls if call in _BY_CALL), ""):
        return kind
    if zmq := [frame for frame in inner if frame.file.startswith("zmq/") or "/zmq/" in frame.file]:
        return ZMQ_FULL if any(".send" in f".{frame.function}" for frame in zmq) else ZMQ
    if thread is not None and thread.reads == AT_ZMQ and not calls:
        return AT_ZMQ
    return SHARED if "dequeue" in calls else FULL if "enqueue" in calls else ""


def awaits_worker(one: JobProcess) -> bool:
    """Return whether a thread of an engine's core waits for its workers in shared memory."""
    return any(awaited_queue(thread) in (SHARED, FULL) for thread in one.threads)


def awaits_request(thread: JobThread | None) -> bool:
    """Return whether the thread of an engine's core waits for a request: in a queue of Python's or of ZMQ."""
    inner = thread.frames[:_INNER] if thread is not None else ()
    return awaited_queue(thread) in (ZMQ, AT_ZMQ) or any(frame.file.rpartition("/")[2] == "queue.py" for frame in inner)


def awaits_process(thread: JobThread | None) -> bool:
    """Return whether it waits in multiprocessing for another process: for a lock, an event or data.

    Any process that inherited the object can be the other one, even another rank.
    """
    return thread is not None and bool(thread.frames) and thread.frames[0].file.endswith(_SHARED)


def awaits_index(thread: JobThread | None) -> bool:
    """Return whether it is an idle worker of a data loader.

    It waits for the index of a next sample, and checks every 5 s that its rank lives
    (torch/utils/data/_utils/worker.py).
    """
    frames = thread.frames if thread is not None else ()
    loop = next((i for i, frame in enumerate(frames) if frame.function == "_worker_loop"), 0)
    return loop > 0 and frames[loop - 1].file.endswith("multiprocessing/queues.py")


def joins(thread: JobThread) -> bool:
    """Return whether it waits for the end of another thread; Python 3.11 and later give the class of a function,
    too."""
    names = (frame.function for frame in thread.frames if frame.file.endswith("threading.py"))
    return any(name.rpartition(".")[2] in ("join", "_shutdown") for name in names)


def _is_c10d(frame: Frame) -> bool:
    return frame.file.endswith(("torch/distributed/distributed_c10d.py", "torch/distributed/nn/functional.py"))


def waits_for_work(frames: tuple[Frame, ...]) -> bool:
    """Return whether the innermost Python frame calls C++ code that may wait for a collective: Work.wait(), a backward
    pass with DDP; not a lock of Python's."""
    inner = frames[0]
    return inner.own or "torch/" in inner.file


# Progress of a process between two looks, by its counters in /proc.


MUCH = 1 << 16
"""Bytes read and written between two looks from which a process makes progress."""
_MOVES = 3.0
"""Context switches per second of a main thread that show progress: looking at it stops it once or twice."""
PATHS = 3
"""Different paths of its stack from which a computing process makes progress: an endless loop has its own path, and
perhaps that of a function that it calls."""


def awaits_ray(thread: JobThread | None) -> bool:
    """Return whether it waits for the result of a task or actor of Ray, whose process may be on any node."""
    inner = takewhile(lambda frame: not frame.own, thread.frames if thread is not None else ())
    names = [frame.function.rpartition(".")[2] for frame in inner if frame.file.endswith("ray/_private/worker.py")]
    return any(name in ("get", "get_objects", "wait") for name in names)


def sleeps(thread: JobThread) -> bool:
    """Return whether it sleeps for a time of its own."""
    return thread.call in ("clock_nanosleep", "nanosleep")


def switches_of(one: JobProcess) -> float:
    """Return the context switches per second of its main thread."""
    return one.moved.switches / max(one.moved.seconds, 0.1) if one.moved else 0.0


def looks_for_a_file(one: JobProcess) -> bool:
    """Return whether it sleeps about ten times a second, as a process that waits for a lock file does
    (torch/utils/file_baton.py), without a stack that shows the reason."""
    return one.main is not None and not one.main.frames and sleeps(one.main) and 5 < switches_of(one) < 15


def works(one: JobProcess) -> bool:
    """Return whether the process was active between the looks."""
    moved = one.moved
    if moved is None or _only_looks_again(one):
        return False
    if one.main is not None and one.main.state == "R" and not one.main.call:
        return True  # it would run if others left it a processor
    return (
        moved.cpu >= max(0.02, 0.02 * moved.seconds)
        or moved.stack is True
        or moved.read + moved.written > MUCH
        or moved.switches > _MOVES * moved.seconds
    )


def is_stopped(one: JobProcess) -> bool:
    """Return whether a signal or a debugger has stopped it.

    Tools that only watch it (strace, py-spy record) stop it for moments, between which it is active.
    """
    return one.state == "T" or (one.state == "t" and not works(one))


def gets_about(one: JobProcess) -> bool:
    """Return whether its stack was seen on so many paths that it is not in one loop alone."""
    return one.moved is not None and (one.moved.paths or 0) >= PATHS


def gets_data(one: JobProcess) -> bool:
    """Return whether a thread beside its main one waits for data, and received some.

    Or the main thread waits for one that was seen to read or write now and then; socket traffic does not count as that.
    """
    if one.moved is None:
        return False
    return one.moved.fed > 0 or (awaits_thread(one) and one.moved.read + one.moved.written > 0)


def awaits_thread(one: JobProcess) -> bool:
    """Return whether its main thread waits for the end of another one that was active, such as a slow sender or a
    polling thread, and no further thread is in the job's own code."""
    if one.moved is None or one.main is None or not joins(one.main):
        return False
    others = [thread.tid for thread in one.threads[1:] if own_frame(thread) is not None]
    return len(others) == 1 and others[0] in one.moved.woke


def ran_programs(one: JobProcess) -> bool:
    """Return whether programs below it have ended that it may have waited for: it has started something else since.

    A main thread that waits for a file or an answer did not: another thread may run programs one after the other, to
    watch the GPUs.
    """
    if one.moved is None or not one.moved.ended:
        return False
    return one.main is None or not (one.main.reads.startswith("socket:") or awaits_file(one.main))


def awaits_file(thread: JobThread) -> bool:
    """Return whether it waits for a file, or for nothing but a signal."""
    return thread.reads.startswith("/") or thread.call in ("openat", "flock", "pause")


def still_for(one: JobProcess) -> float | None:
    """Return the seconds since its main thread last ran, at the last look; None if unknown."""
    if one.moved is not None and ran_programs(one):
        return one.moved.seconds
    if one.idle is None:
        return None
    return one.idle + (one.moved.seconds if one.moved and one.moved.switches == 0 else 0.0)


def polls(one: JobProcess) -> bool:
    """Return whether it polls with short sleeps without reading or writing: it does no step of work in between.

    Even a collective of the smallest size writes to its peers.
    """
    asleep = one.moved is not None and one.main is not None and sleeps(one.main)
    return asleep and switches_of(one) > 1 and _reads_nothing(one)


def _only_looks_again(one: JobProcess) -> bool:
    """Return whether it polls at one line, as far as known, without reading or writing, which is no progress."""
    moved, main = one.moved, one.main
    if moved is None or main is None or moved.stack or not sleeps(main):
        return False
    return _reads_nothing(one) and moved.cpu < 0.02 * moved.seconds


def _reads_nothing(one: JobProcess) -> bool:
    """Return whether it reads and writes nothing, apart from the owner of the lock that it waits for.

    filelock reads the owner from the file each time it polls (SoftFileLock: a line up to 3.x, with /proc's facts of the
    owner about 2 KB since 4.0).
    """
    moved, main = one.moved, one.main
    if moved is None or moved.written:
        return False
    most = MUCH * max(1.0, moved.seconds) if main is not None and main.lock is not None else 0
    return moved.read <= most


# Activity by the threads and sockets of a rank, and by the processes below it.


_COMPILERS = frozenset(
    ["cc1", "cc1plus", "g++", "gcc", "c++", "clang", "clang++", "nvcc", "cicc", "ptxas", "ninja", "as"]
)
_SEVERAL = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
"""Calls that wait for one of several files."""
_SIGNALS = ("pause", "rt_sigsuspend", "rt_sigtimedwait")
_CALLS = dict.fromkeys(_SIGNALS, "waits for a signal") | dict.fromkeys(_SEVERAL, "waits for something to read")


def threads_of(one: JobProcess, name: str) -> list[JobThread]:
    """Return its threads of this name."""
    return [thread for thread in one.threads if thread.name.startswith(name)]


def hosts_store(one: JobProcess) -> bool:
    """Return whether this process serves a TCPStore."""
    return bool(threads_of(one, "pt_tcpstore"))


def may_be_between_tries(one: JobProcess) -> bool:
    """Return whether it sleeps without any connection and without a known stack, as a client of an unreachable store
    does."""
    return one.main is not None and not one.main.frames and sleeps(one.main) and not one.sockets


def in_flight(one: JobProcess) -> bool:
    """Return whether gloo runs a collective in it."""
    return any(is_futex(thread) and thread.timed for thread in threads_of(one, "pt_gloo_runloop"))


def dialling(one: JobProcess, ports: Iterable[int]) -> Iterable[Socket]:
    """Return its unanswered connections, except those to the stores."""
    return (s for s in one.sockets or () if s.state == "SYN_SENT" and s.remote_port not in set(ports))


def serves(thread: JobThread) -> bool:
    """Return whether it waits for connections to a port."""
    return thread.reads.startswith(SERVES)


def awaits_orders(one: JobProcess) -> bool:
    """Return whether its main thread waits for data from a pipe, a connection, or one of several."""
    main = one.main
    if main is None:
        return False
    if awaited_queue(main):
        return True
    by_one = main.call in ("read", "recvfrom", "recvmsg") and main.reads.startswith(("pipe:", "socket:"))
    return by_one or main.call in _SEVERAL


def is_futex(thread: JobThread) -> bool:
    return thread.call == "futex" or (not thread.call and thread.waits_in.startswith("futex"))


def compiles(below: Iterable[JobProcess]) -> bool:
    return any(one.name in _COMPILERS for one in below)


def who_has(lock: FileLock | None) -> str:
    """Return the holder of a file lock, if known, in a clause."""
    if lock is None:
        return ""
    if lock.age is not None:
        return f", a file that was made {duration_text(lock.age)} ago"
    holders = ", ".join([f"pid {pid} ({name or 'which has ended'})" for pid, name in lock.holders.items()][:4])
    return f", which {holders} {'has' if len(lock.holders) == 1 else 'have'}" if holders else ""


def waiting(main: JobThread) -> str:
    """Return the object that a thread waits for, by its system call."""
    if main.lock is not None and main.call not in ("flock", "fcntl"):
        return f"{main.lock.path}{who_has(main.lock)}"
    if sleeps(main):
        return "sleeps"
    if serves(main):
        return f"waits for {main.reads}"
    if main.reads.startswith("socket:") and " to " in main.reads:
        return f"{main.call} on a connection to {main.reads.partition(' to ')[2]}"
    if main.reads.startswith(("/dev/pts/", "/dev/tty")) and main.call == "read":
        return f"waits for somebody to type at {main.reads}"
    if main.reads.startswith("pipe:") and main.call == "write":
        return f"writes to {main.reads}, which is full"
    if main.reads and main.call:
        return f"{main.call} on {main.reads}{who_has(main.lock)}"
    if main.call in ("wait4", "waitid"):
        return "waits for a process"
    if main.call == "flock":
        return "waits for a lock on a file"
    if is_futex(main):
        return "waits for a lock"
    if main.waits_in in ("pipe_read", "anon_pipe_read", "fifo_open", "wait_for_partner"):
        return "waits for a pipe"
    return _CALLS.get(main.call) or main.waits_in or main.call

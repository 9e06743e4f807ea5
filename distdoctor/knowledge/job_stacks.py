"""What Python's stack of a rank's thread tells: the call of torch.distributed, whom it names, and the job's own line.

Sources: torch/distributed/distributed_c10d.py, distributed/rpc/internal.py and nn/parallel/distributed.py.
"""

from __future__ import annotations

from itertools import takewhile

from distdoctor.model.facts.job import Frame, JobThread

FORWARD, BACKWARD = "the forward pass of DistributedDataParallel", "a backward pass"
"""Calls in which DistributedDataParallel waits: it makes its collectives in C++ (torch/nn/parallel/distributed.py)."""
_BACKWARD = frozenset(["_engine_run_backward", "backward", "grad"])
"""Functions of torch/autograd/graph.py and torch/autograd/__init__.py that run the engine."""
_RPC, _CALLED = "torch/distributed/rpc/", "torch/distributed/rpc/internal.py"
_SHARED = ("multiprocessing/synchronize.py", "multiprocessing/connection.py")


def own_frame(thread: JobThread | None) -> Frame | None:
    """The innermost line of the job's own code in which the thread is."""
    return next((frame for frame in (thread.frames if thread else ()) if frame.own), None)


def call_of(thread: JobThread) -> str:
    """The function of torch.distributed that the thread has called; empty where it is in none."""
    called = (frame.function for frame in reversed(thread.frames) if _is_c10d(frame))
    return next((name for name in called if not name.startswith("_exception")), "")


def whom(thread: JobThread) -> str:
    """Which rank it names in that call: from whom it receives, to whom it sends, who is the root."""
    call, peer = _naming(thread) or ("", None)
    how = "from rank" if "recv" in call else "to rank" if "send" in call else "root"
    return f"{how} {peer}" if call else ""


def root_of(thread: JobThread | None) -> tuple[str, int] | None:
    """The call with a root in which a thread is, and the root that it names; None where it names none."""
    named = _naming(thread) if thread is not None else None
    return None if named is None or "recv" in named[0] or "send" in named[0] else named


def partner_of(thread: JobThread | None) -> int | None:
    """The rank from which a thread waits to receive, or to which it waits to send; None where it names none."""
    named = _naming(thread) if thread is not None else None
    return named[1] if named is not None and ("recv" in named[0] or "send" in named[0]) else None


def meets_at(thread: JobThread | None) -> str:
    """Where a thread in init_process_group() was told to meet the others; empty where that is not seen. Of an address
    the port alone is told: a host may have several names."""
    given = (frame.given.init_method for frame in (thread.frames if thread else ()) if frame.given)
    method = next(filter(None, given), "")
    where = method.partition("?")[0]
    return f"tcp:// with port {where.rpartition(':')[2]}" if where.startswith("tcp://") else where


def _naming(thread: JobThread) -> tuple[str, int] | None:
    """The outermost function of torch.distributed that was given a rank, and that rank."""
    named = (f for f in reversed(thread.frames) if f.given)
    return next(((f.function, f.given.peer) for f in named if f.given and f.given.peer is not None), None)


def was_called(thread: JobThread) -> bool:
    """Whether a thread does what another rank has called here (torch/distributed/rpc/internal.py): Python's, or a
    function in C, of which there is no frame."""
    return any(frame.file.endswith(_CALLED) for frame in thread.frames)


def calls_on(thread: JobThread) -> bool:
    """Whether what another rank has called there waits for a call of its own on a further rank."""
    inner = takewhile(lambda frame: not frame.file.endswith(_CALLED), thread.frames)
    return any(_RPC in frame.file for frame in inner)


def work_of(frames: tuple[Frame, ...]) -> str:
    """Whose collective it is that C++ waits for: one of a pass with DistributedDataParallel, else ``wait``."""
    if any(frame.file.endswith("torch/nn/parallel/distributed.py") for frame in frames):
        return FORWARD
    # torch/autograd/function.py is in the forward pass, too: DTensor's redistribute() waits there.
    passes = (frame for frame in frames if frame.function in _BACKWARD and "torch/autograd/" in frame.file)
    return BACKWARD if any(passes) else "wait"


def awaits_process(thread: JobThread | None) -> bool:
    """Whether it waits in multiprocessing for what another process does: to let go of a lock, to set an event, to send
    something. That may be any process that has inherited it, another rank, too."""
    return thread is not None and bool(thread.frames) and thread.frames[0].file.endswith(_SHARED)


def awaits_index(thread: JobThread | None) -> bool:
    """Whether it is a worker of a data loader that has nothing to do: it waits for the number of a next sample, and
    looks every 5 s whether its rank lives (torch/utils/data/_utils/worker.py)."""
    frames = thread.frames if thread is not None else ()
    loop = next((i for i, frame in enumerate(frames) if frame.function == "_worker_loop"), 0)
    return loop > 0 and frames[loop - 1].file.endswith("multiprocessing/queues.py")


def joins(thread: JobThread) -> bool:
    """Whether it waits until another thread has ended; Python 3.11 and later tell the class of a function, too."""
    names = (frame.function for frame in thread.frames if frame.file.endswith("threading.py"))
    return any(name.rpartition(".")[2] in ("join", "_shutdown") for name in names)


def _is_c10d(frame: Frame) -> bool:
    return frame.file.endswith(("torch/distributed/distributed_c10d.py", "torch/distributed/nn/functional.py"))


def waits_for_work(frames: tuple[Frame, ...]) -> bool:
    """Whether the innermost Python is at a call into C++ that may wait for a collective: Work.wait(), a backward pass
    with DDP; not in a lock of Python's own."""
    inner = frames[0]
    return inner.own or "torch/" in inner.file

"""Where in a job a rank is, told from what /proc shows of its process alone.

Without stacks gloo's threads tell: ``pt_gloo_runloop`` are begun with the first group that is whole; one that runs a
collective waits for its peers with a time limit (gloo/transport/tcp, ``UnboundBuffer::waitRecv``), one that has nothing
to do waits without (``ProcessGroupGloo::runLoop``), as was seen in runs of torch 2.13.
"""

from __future__ import annotations

from distdoctor.knowledge.job_movement import sleeps, switches_of
from distdoctor.knowledge.job_places import (
    CODE,
    COLLECTIVE,
    COMPILING,
    DEVICE,
    GROUP,
    HOSTING,
    MASTER,
    MEMORY,
    PEERS,
    STARTING,
    UNSEEN,
    Place,
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

POLLS = 10.0
"""Times a second that the main thread gives up the processor from which it counts as polling: the host of the store
looks every 10 ms who has come (TCPStore::waitForWorkers)."""


def by_system(one: JobProcess, main: JobThread, below: list[JobProcess], ports: set[int]) -> Place:
    """Where it is. ``below``: the processes below it; ``ports``: those of the stores of the job."""
    if main.state == "D":
        return in_kernel(main)
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
    if _polls_store(main, ports) and connected(one, ports):
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
        return Place(PEERS) if is_futex(main) else Place(CODE, why=waiting(main), sure=of_its_own(main))
    switches, asleep = switches_of(one), sleeps(main)
    if hosts_store(one) and (asleep or switches > POLLS):
        return Place(HOSTING) if switches > POLLS else Place(CODE, why=waiting(main), sure=switches == 0)
    if asleep and not sockets and switches > 0:
        return Place(MASTER, sure=False)
    return Place(CODE, why=waiting(main), sure=of_its_own(main) or (asleep and switches == 0))


def of_its_own(main: JobThread) -> bool:
    """Whether the call is none in which torch.distributed waits: a file, a pipe, a lock on a file, another process."""
    if main.call in ("wait4", "waitid", "flock", "fsync", "fdatasync", "openat", "pause"):
        return True
    return main.call in ("read", "readv", "pread64", "write") and not main.reads.startswith("socket:")


def _polls_store(main: JobThread, ports: set[int]) -> bool:
    """Whether it waits at a connection which, as far as is seen, is that to the store."""
    if main.call in ("recvfrom", "read") and main.reads.startswith("socket:"):
        _, _, peer = main.reads.partition(" to ")
        return not peer or peer.rpartition(":")[2] in map(str, ports)
    return main.call in ("poll", "ppoll")


def in_kernel(thread: JobThread, own: Frame | None = None, child: int | None = None) -> Place:
    """Where a thread is that the kernel does not let be interrupted: for a device, or for a control group that has no
    memory left (mm/memcontrol.c: ``mem_cgroup_oom_synchronize``, ``__mem_cgroup_handle_over_high``)."""
    kind = MEMORY if thread.waits_in.lstrip("_").startswith("mem_cgroup") else DEVICE
    return Place(kind, frame=own, why=waiting(thread), child=child)


def connected(one: JobProcess, ports: set[int]) -> bool:
    """Whether it has a connection to a store of the job."""
    return any(s.state in ("ESTABLISHED", "CLOSE_WAIT") and s.remote_port in ports for s in one.sockets or ())

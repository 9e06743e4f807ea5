"""Process groups in a rank's process: gloo, NCCL, monitored barrier, collectives and measured work."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from distdoctor.probes.host.proc import listening

LINE_BUFFERED = 1
"""_IOLBF of <stdio.h>, in glibc and musl alike."""


def gloo(state: State, prefix: str, timeout: float) -> dict[str, Any]:
    """Run init_process_group("gloo") on the store of this rank. Return the address and port it listens on."""
    import torch.distributed as dist

    before = listening("self")
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(prefix, state.store),
        rank=state.rank,
        world_size=state.world,
        timeout=timedelta(seconds=timeout),
    )
    address = _gloo_address([pair for pair in listening("self") if pair not in before])
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        # There each collective compares the group's sequence numbers, and monitored_barrier() puts rank 0's ahead of
        # the others' from three ranks on (it counts each send and receive): the next call in the same group would fail
        # on a healthy cluster, as it does in plain PyTorch (2.13).
        state.barrier_group = dist.new_group(timeout=timedelta(seconds=timeout))
    return address


def listening_now() -> dict[str, Any]:
    """Return the address this process listens on, for an init that failed: gloo binds before it connects."""
    return _gloo_address(listening("self"))


def _gloo_address(pairs: list[tuple[str, int]]) -> dict[str, Any]:
    return {"address": pairs[0][0], "port": pairs[0][1]} if pairs else {}


def barrier(state: State, timeout: float) -> dict[str, Any]:
    """Run monitored_barrier(wait_all_ranks=True). If it fails on rank 0, ``missing`` holds the ranks it names."""
    import torch.distributed as dist

    try:
        dist.monitored_barrier(state.barrier_group, timedelta(seconds=timeout), wait_all_ranks=True)
    except RuntimeError as err:
        named = re.search(r"Ranks ([\d, ]+) failed to pass", str(err))
        missing = [int(rank) for rank in re.findall(r"\d+", named[1])] if named else []
        return {"ok": False, "error": f"{type(err).__name__}: {err}"[:2000], "missing": missing}
    return {}


def nccl(
    state: State, host: str, port: int, prefix: str, rank: int, world: int, device: int, timeout: float
) -> dict[str, Any]:
    """Run init_process_group("nccl") on ``device``, and the collectives with their exact results compared."""
    import torch
    import torch.distributed as dist

    line_by_line()
    torch.cuda.set_device(device)
    store = dist.TCPStore(host, port, None, False, timedelta(seconds=timeout), False)
    dist.init_process_group(
        "nccl", store=dist.PrefixStore(prefix, store), rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
    )
    return {"device": torch.cuda.get_device_name(device), **compare_nccl_collectives(rank, world)}


def line_by_line() -> None:
    """Make NCCL's output line-buffered, so that a process killed while it waits has printed it: libc's stdout keeps
    some 4 KiB back if it is no terminal."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)


# State of a rank's process between calls.


class State:
    """Store and process group of this process between calls."""

    def __init__(self) -> None:
        self.store: Any = None
        self.barrier_group: Any = None
        """Group for the barrier, if it must not be the default one (None)."""
        self.rank = -1
        self.world = 0


# Work that a rank gets done beside everything else on its host: too little makes a straggler.


SECONDS = 0.15
"""More than a period of the kernel's CPU quota (cpu.max, 100 ms by default), so that a throttled rank shows."""
WINDOWS = 6
FAIR = 0.4
"""Part of its fair share of the processors with which a rank is measured once."""
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""Quota of this container, in cgroup v2's file inside one."""


def measure_work(ranks: int) -> dict[str, Any]:
    """Return the fields of :class:`distdoctor.model.facts.Work` for this rank, one of ``ranks`` on its node.

    The same small piece of work is repeated for SECONDS. A rank that was kept waiting for a processor tries again, and
    the best of its tries counts: the measuring of the others may keep it waiting.
    """
    quota, processors = _quota(), len(os.sched_getaffinity(0))
    fair = min(1.0, min(processors, quota or processors) / max(ranks, 1))
    best = (0.0, 0.0)
    for _ in range(WINDOWS):
        best = max(best, _window())
        if best[1] >= FAIR * fair:
            break
    return {
        "rate": round(best[0], 1),
        "cpu": round(best[1], 3),
        "processors": processors,
        "cores": os.cpu_count() or processors,
        "quota": quota,
        "load": round(os.getloadavg()[0], 1),
    }


def _window() -> tuple[float, float]:
    """Return (pieces of work done per second, share of one processor that this thread had)."""
    pieces, cpu, began = 0, time.thread_time(), time.monotonic()
    while (spent := time.monotonic() - began) < SECONDS:
        sum(range(5000))  # a tenth of a millisecond: short beside the scheduler's slices
        pieces += 1
    return pieces / spent, min(1.0, (time.thread_time() - cpu) / spent)


def _quota() -> float | None:
    """Parse ``max 100000`` or ``QUOTA PERIOD``, both in microseconds (the kernel's cgroup-v2.rst)."""
    try:
        quota, period = CPU_MAX.read_text().split()
        return round(int(quota) / int(period), 2)
    except (OSError, ValueError, ZeroDivisionError):
        return None


# Collectives that every job uses, compared with their exact results; then the rank's speed.


ELEMENTS = 4096
"""Length of the float64 vectors that are exchanged."""


def run_collectives(state: State, ranks: int) -> dict[str, Any]:
    """Run all_reduce, broadcast, all_gather and send/recv around the ring. ``wrong`` names those with wrong results,
    ``work`` is the result of :func:`measure_work`; ``ranks`` is the number of ranks on this node."""
    import torch
    import torch.distributed as dist

    rank, world = state.rank, state.world
    mine = torch.arange(ELEMENTS, dtype=torch.float64) + rank
    base = torch.arange(ELEMENTS, dtype=torch.float64)
    seconds: dict[str, float] = {}
    wrong: dict[str, str] = {}

    def compare(name: str, started: float, *pairs: tuple[Any, Any]) -> None:
        seconds[name] = time.monotonic() - started
        for got, expected in pairs:
            if not torch.equal(got, expected):
                place = int((got != expected).nonzero()[0])
                seen, right = got[place].item(), expected[place].item()
                wrong.setdefault(name, f"element {place} is {seen!r} instead of {right!r}")

    started = time.monotonic()
    total = mine.clone()
    dist.all_reduce(total)
    compare("all_reduce", started, (total, base * world + world * (world - 1) / 2))

    started = time.monotonic()
    sent = mine.clone()
    dist.broadcast(sent, src=0)
    compare("broadcast", started, (sent, base))

    started = time.monotonic()
    parts = [torch.empty(ELEMENTS, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(parts, mine)
    compare("all_gather", started, *((part, base + peer) for peer, part in enumerate(parts)))

    if world > 1:
        started = time.monotonic()
        received = torch.empty(ELEMENTS, dtype=torch.float64)
        request = dist.isend(mine, (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        if request is not None:
            request.wait()
        compare("send_recv", started, (received, base + (rank - 1) % world))

    if wrong:
        details = "; ".join(f"{name}: {how}" for name, how in wrong.items())
        return {"ok": False, "error": f"wrong results: {details}", "wrong": list(wrong), "times": seconds}
    return {"times": seconds, "work": measure_work(ranks)} if world > 1 else {"times": seconds}


# Collectives of NCCL on a rank's GPU, each with its exact result.
#
# Rings and trees use some of the links between GPUs and adapters, all_to_all uses each: a broken pair may be on no path
# of the others. That is also why its cost grows with each further rank, and it is skipped with many.


NCCL_ELEMENTS = 1024
"""Elements that a rank sends to one other."""
MOST_TO_ALL = 64
"""Limit of the ranks between which all_to_all is tried."""
BEGUN = "NCCL operation in progress"
"""Text of torch's exception if it takes NCCL's report of a running operation for an error: with
TORCH_NCCL_USE_COMM_NONBLOCKING in all_to_all_single() (torch 2.11, NCCL 2.28.9). The data arrive all the same, there as
on the other ranks, and the next call passes; without one, if the rank ends, the others wait in vain."""


def compare_nccl_collectives(rank: int, world: int) -> dict[str, Any]:
    """Run all of them on the current CUDA device. Return the fields of an answer.

    ``wrong`` names one with a wrong result, and ``senders`` the ranks whose data arrived wrong, if it is that of one
    rank; ``error`` names one that raised an exception after others had passed. ``begun`` names those that torch refused
    although NCCL was running them, with torch's text; ``passed`` the others.
    """
    wrong, senders, begun = dict[str, str](), dict[int, bool](), dict[str, str]()
    passed = list[str]()
    for name, collective in COLLECTIVES.items():
        if name == "all_to_all" and not 1 < world <= MOST_TO_ALL:
            continue
        try:
            got, expected = collective(rank, world)
        except Exception as err:
            if not passed:
                raise
            if BEGUN in str(err):
                begun[name] = str(err)
                continue
            return {"ok": False, "error": f"{type(err).__name__}: {name}: {err}", "failed": name, "passed": passed}
        if not bool((got == expected).all()):
            place = int((got != expected).nonzero()[0])
            wrong[name] = f"element {place} is {got[place].item()} instead of {expected[place].item()}"
            if name == "all_to_all":
                senders[place // NCCL_ELEMENTS] = True
        else:
            passed.append(name)
    if world > 1:
        # If torch refused one, NCCL was still running it: a rank that ended here would leave the others waiting in it.
        COLLECTIVES["all_reduce"](rank, world)
    also = {"begun": begun, "passed": passed} if begun else {}
    if not wrong:
        return also
    details = "; ".join(f"{name}: {how}" for name, how in wrong.items())
    return {"ok": False, "error": f"wrong results: {details}", "wrong": list(wrong), "senders": list(senders), **also}


def _each(values: list[int]) -> Any:
    """Return a vector of these numbers, each ELEMENTS times, on the GPU. Whole numbers: sums are exact."""
    import torch

    return torch.tensor(values, dtype=torch.int64).repeat_interleave(NCCL_ELEMENTS).to("cuda")


def _all_reduce(rank: int, world: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    value = _each([rank + 1])
    dist.all_reduce(value)
    return value.cpu(), _each([world * (world + 1) // 2]).cpu()


def _all_gather(rank: int, world: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    value = _each([0] * world)
    dist.all_gather_into_tensor(value, _each([rank + 1]))
    return value.cpu(), _each([peer + 1 for peer in range(world)]).cpu()


def _reduce_scatter(rank: int, world: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    value = _each([0])
    dist.reduce_scatter_tensor(value, _each([(rank + 1) * (peer + 1) for peer in range(world)]))
    return value.cpu(), _each([(rank + 1) * world * (world + 1) // 2]).cpu()


def _all_to_all(rank: int, world: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    value = _each([0] * world)
    dist.all_to_all_single(value, _each([rank * world + peer for peer in range(world)]))
    return value.cpu(), _each([peer * world + rank for peer in range(world)]).cpu()


COLLECTIVES: dict[str, Callable[[int, int], tuple[Any, Any]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
}

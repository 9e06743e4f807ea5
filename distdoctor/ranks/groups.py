"""Process groups in a rank's process: gloo, nccl and the monitored barrier."""

from __future__ import annotations

import ctypes
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from distdoctor.probes.proc import listening
from distdoctor.ranks import nccl_collectives

if TYPE_CHECKING:
    from distdoctor.ranks.state import State

LINE_BUFFERED = 1
"""_IOLBF of <stdio.h>, in glibc and musl alike."""


def gloo(state: State, prefix: str, timeout: float) -> dict[str, Any]:
    """init_process_group("gloo") on the store of this rank. Returns the address and port it listens on."""
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
        # the others' from three ranks on (it counts each send and receive): what comes after it in the same group
        # would fail on a healthy cluster, as it does in plain PyTorch (2.13).
        state.barrier_group = dist.new_group(timeout=timedelta(seconds=timeout))
    return address


def listening_now() -> dict[str, Any]:
    """The address this process listens on, for an init that failed: gloo binds before it connects."""
    return _gloo_address(listening("self"))


def _gloo_address(pairs: list[tuple[str, int]]) -> dict[str, Any]:
    return {"address": pairs[0][0], "port": pairs[0][1]} if pairs else {}


def barrier(state: State, timeout: float) -> dict[str, Any]:
    """monitored_barrier(wait_all_ranks=True). Where it fails on rank 0, ``missing`` holds the ranks it names."""
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
    """init_process_group("nccl") on ``device``, and the collectives with their exact results compared."""
    import torch
    import torch.distributed as dist

    line_by_line()
    torch.cuda.set_device(device)
    store = dist.TCPStore(host, port, None, False, timedelta(seconds=timeout), False)
    dist.init_process_group(
        "nccl",
        store=dist.PrefixStore(prefix, store),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=timeout),
    )
    return {"device": torch.cuda.get_device_name(device), **nccl_collectives.compared(rank, world)}


def line_by_line() -> None:
    """What NCCL prints is there at once, also of a process that is killed while it waits: it prints into libc's stdout,
    which keeps some 4 KiB back where that is no terminal."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)

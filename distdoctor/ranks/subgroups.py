"""Groups beside the default one in a rank's process: those of a device mesh, then extra ones of all ranks.

As in a job, every rank creates all groups in one order, and only then uses those that it belongs to.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from distdoctor.model.device_mesh import Mesh, groups_of
from distdoctor.ranks.groups import State, line_by_line

CREATION = "new_group"
WORK = ("barrier", "all_reduce")
"""Collectives with which each group is used."""
MARK = "distdoctor: group"
_PROGRESS = re.compile(rf"^{MARK} (\d+) (\w+)$", re.M)


def last_step(output: str) -> dict[str, Any]:
    """Return ``group`` and ``during`` of the last step in a rank's output: where it is if it did not return."""
    steps = _PROGRESS.findall(output)
    return {"group": int(steps[-1][0]), "during": steps[-1][1]} if steps else {}


def create_gloo(state: State, mesh: Mesh, order: Sequence[str], extra: int, timeout: float) -> dict[str, Any]:
    """Create and use the groups in a process that has the default group of gloo."""
    return _create(mesh, order, extra, "gloo", timeout)


def create_nccl(
    state: State,
    host: str,
    port: int,
    prefix: str,
    rank: int,
    world: int,
    device: int,
    timeout: float,
    mesh: Mesh,
    order: Sequence[str],
    extra: int,
) -> dict[str, Any]:
    """Create NCCL's default group on ``device`` and use it, then the further groups."""
    import torch
    import torch.distributed as dist

    line_by_line()
    torch.cuda.set_device(device)
    store = dist.TCPStore(host, port, None, False, timedelta(seconds=timeout), False)
    dist.init_process_group(
        "nccl", store=dist.PrefixStore(prefix, store), rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
    )
    _use(dist.group.WORLD, world, "cuda", "all_reduce")
    return _create(mesh, order, extra, "nccl", timeout)


def _create(mesh: Mesh, order: Sequence[str], extra: int, backend: str, timeout: float) -> dict[str, Any]:
    """Return the groups of this rank and the seconds of each step. If one fails, ``group`` and ``during`` name it."""
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    planned = groups_of(tuple((name, length) for name, length in mesh), extra, world, order)
    own: dict[int, Any] = {}
    number, during, began = -1, CREATION, time.monotonic()
    times: dict[str, float] = {}
    try:
        for number, group in enumerate(planned):
            if rank in group.ranks:
                _print_step(number, CREATION)
            made = dist.new_group(list(group.ranks), timedelta(seconds=timeout), backend)
            if rank in group.ranks:
                own[number] = made
        times[CREATION] = round(time.monotonic() - began, 3)
        for number, made in own.items():
            for during in WORK:
                _print_step(number, during)
                _use(made, len(planned[number].ranks), "cuda" if backend == "nccl" else "cpu", during)
        times["use"] = round(time.monotonic() - began - times[CREATION], 3)
    except Exception as err:
        text = f"{type(err).__name__}: {err}"
        return {"ok": False, "error": text, "group": number, "during": during, **_held()}
    return {"groups": len(own), "times": times, **_held()}


def _use(group: Any, members: int, device: str, work: str) -> None:
    import torch
    import torch.distributed as dist

    if work == "barrier":
        dist.barrier(group)
        return
    total = torch.ones(1024, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=group)
    if not bool((total == members).all()):
        raise RuntimeError(f"all_reduce of {members} ones gives {total[total != members][0].item():g}")


def _print_step(number: int, step: str) -> None:
    os.write(1, f"\n{MARK} {number} {step}\n".encode())


def _held() -> dict[str, int]:
    """Return the number of this process's open files and threads."""
    held = {}
    for name, folder in (("files", "/proc/self/fd"), ("threads", "/proc/self/task")):
        try:
            held[name] = len(os.listdir(folder))
        except OSError:
            pass
    return held

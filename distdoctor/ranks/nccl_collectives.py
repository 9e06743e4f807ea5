"""The collectives of NCCL on a rank's GPU, each with the exact result that it must give.

Rings and trees take some of the links between GPUs and adapters, all_to_all takes each: a pair that does not work may
be in none of the others' ways. That is also why it costs more than they do with each further rank, and is left out
where there are many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ELEMENTS = 1024
"""Of what a rank sends to one other."""
MOST_TO_ALL = 64
"""Ranks between which all_to_all is tried."""
BEGUN = "NCCL operation in progress"
"""What torch raises where it takes NCCL's word that an operation is under way for an error: with
TORCH_NCCL_USE_COMM_NONBLOCKING in all_to_all_single() (torch 2.11, NCCL 2.28.9). The data come all the same, there as
on the other ranks, and what is called next passes; where nothing is, and the rank ends, the others wait in vain."""


def compared(rank: int, world: int) -> dict[str, Any]:
    """All of them on the current CUDA device: the fields of an answer. Where one gave something else than it must,
    ``wrong`` has its name, and ``senders`` the ranks whose data came wrong, where it is that of one rank; where one
    raised an exception after others had passed, ``error`` has its name, too. ``begun`` names those that torch
    refused although NCCL was at it, and what torch said; ``passed`` the others."""
    found, senders, begun = dict[str, str](), dict[int, bool](), dict[str, str]()
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
            found[name] = f"element {place} is {got[place].item()} instead of {expected[place].item()}"
            if name == "all_to_all":
                senders[place // ELEMENTS] = True
        else:
            passed.append(name)
    if world > 1:
        # Where torch refused one, NCCL was only at it: who ended here would leave the others waiting in it.
        COLLECTIVES["all_reduce"](rank, world)
    also = {"begun": begun, "passed": passed} if begun else {}
    if not found:
        return also
    told = "; ".join(f"{name}: {how}" for name, how in found.items())
    return {"ok": False, "error": f"wrong results: {told}", "wrong": list(found), "senders": list(senders), **also}


def _each(values: list[int]) -> Any:
    """A vector of these numbers, each ELEMENTS times, on the GPU. Whole numbers: sums are exact."""
    import torch

    return torch.tensor(values, dtype=torch.int64).repeat_interleave(ELEMENTS).to("cuda")


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

"""What ranks of the lab's hung jobs run as trainers do it, with a mistake: sharded models, pipelines, checkpoints, RPC.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.lab.hang.holds import read_configuration

# -- collectives --------------------------------------------------------------------------------------------------


def fail_before_group(mine: bool) -> None:
    """These ranks fail before they make a further group, and nobody ends the others (pytorch#42107)."""
    if mine:
        raise ValueError("a label is out of range")
    dist.new_group()


def expert_of_none(mine: bool) -> None:
    """A layer for which these ranks have no data is left out there, though its weights are in pieces on all of them."""
    from torch.distributed.fsdp import fully_shard  # takes a second, as other imports here do

    layers = [torch.nn.Linear(4, 4) for _ in range(2)]
    for layer in layers:
        fully_shard(layer)
    values = layers[0](torch.ones(2, 4))
    if not mine:
        layers[1](values)
    dist.all_reduce(torch.ones(4))


def clip_of_one(mine: bool) -> None:
    """Only these ranks clip the gradients of a sharded model, for which all add up their parts."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=torch.device("cpu"))
    model(torch.ones(2, 8)).sum().backward()
    if mine:
        model.clip_grad_norm_(1.0)
    dist.barrier()


def checkpoint_meanwhile(mine: bool) -> None:
    """All ranks but these save a distributed checkpoint in a thread, and wait for it."""
    from torch.distributed import checkpoint as dcp

    if not mine:
        dcp.async_save({"weights": torch.ones(4)}, checkpoint_id="/run/tmp/meanwhile").result()  # type: ignore[union-attr]
    dist.all_reduce(torch.ones(4))


def last_step_alone(mine: bool) -> None:
    """These ranks add up gradients by themselves in a step in which the others reduce theirs."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    if mine:
        with model.no_sync():
            model(torch.ones(2, 4)).sum().backward()
    else:
        model(torch.ones(2, 4)).sum().backward()
    dist.barrier()


def state_of_one(mine: bool) -> None:
    """Only these ranks ask for the whole state of an optimizer that is in pieces on all."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if mine:
        optimizer.consolidate_state_dict(to=0)
    dist.barrier()


def microbatch_more(mine: bool) -> None:
    """A pipeline in which these ranks expect a part of the batch more than the stage before them sends."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    for _ in range(3 if mine else 2):
        if rank > 0:
            dist.recv(torch.ones(4), src=rank - 1)
        if rank < last:
            dist.send(torch.ones(4), dst=rank + 1)
    dist.barrier()


def message_more(mine: bool) -> None:
    """These ranks send the next one a message more than it takes."""
    rank = dist.get_rank()
    if mine:
        dist.send(torch.ones(4), dst=rank + 1)
    dist.barrier()


def other_mesh(mine: bool) -> None:
    """These ranks put their groups together in another way than the others."""
    from torch.distributed.device_mesh import init_device_mesh

    world = dist.get_world_size()
    init_device_mesh("cpu", (world, 1) if mine else (world // 2, 2))


def other_objects(mine: bool) -> None:
    """These ranks give each of the others a piece of a list, who all expect the whole."""
    found: list[object] = [None]
    if mine:
        dist.scatter_object_list(found, list(range(dist.get_world_size())), src=0)
    else:
        dist.broadcast_object_list(found, src=0)
    dist.barrier()


def other_dimension(mine: bool) -> None:
    """A mesh of two dimensions: these ranks reduce in the group of one, where the others use that of the other."""
    world, rank = dist.get_world_size(), dist.get_rank()
    rows = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
    columns = [dist.new_group([*range(first, world, 2)]) for first in range(2)]
    row, column = rows[rank // 2], columns[rank % 2]
    dist.all_reduce(torch.ones(4), group=row if mine else column)
    dist.all_reduce(torch.ones(4))


# -- remote calls -------------------------------------------------------------------------------------------------


def begin_rpc() -> None:
    """Meet for remote calls, at a port beside that of the job's own."""
    from torch.distributed import rpc

    place = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 7}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=place, rpc_timeout=3600)
    rank, world = dist.get_rank(), dist.get_world_size()
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world, rpc_backend_options=options)  # type: ignore[no-untyped-call]


def late_for_rpc(mine: bool) -> None:
    """These ranks do not come to where all meet for remote calls."""
    if mine:
        read_configuration("end")
    begin_rpc()


TRAINERS: dict[str, Callable[[bool], None]] = {
    "fail-group": fail_before_group,
    "moe": expert_of_none,
    "clip": clip_of_one,
    "async-save": checkpoint_meanwhile,
    "no-sync": last_step_alone,
    "zero": state_of_one,
    "microbatch": microbatch_more,
    "send-more": message_more,
    "mesh": other_mesh,
    "scatter": other_objects,
    "dimension": other_dimension,
    "rpc-missing": late_for_rpc,
}

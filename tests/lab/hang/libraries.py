"""What ranks of the lab's hung jobs run by way of torch's own libraries, with a mistake, and without.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.lab.hang.holds import read_configuration


def whole_of_one(mine: bool) -> None:
    """Only these ranks put a tensor together that lies in pieces on all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    pieces = distribute_tensor(torch.ones(6, 4), init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])
    if mine:
        pieces.full_tensor()
    dist.barrier()


def schedule_crossed(mine: bool) -> None:
    """A pipeline whose stages 1 and 2 each wait for the other first: one for gradients, one for activations."""
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.ones(4), dst=1)
        dist.recv(torch.ones(4), src=1)
    elif rank == 1:
        dist.recv(torch.ones(4), src=0)
        dist.recv(torch.ones(4), src=2)
    else:
        dist.recv(torch.ones(4), src=1)
    dist.barrier()


def save_without_one(mine: bool) -> None:
    """All save a distributed checkpoint but these ranks, which still read."""
    from torch.distributed import checkpoint as dcp

    if mine:
        read_configuration("end")
    dcp.save({"weights": torch.ones(4)}, checkpoint_id="/run/tmp/without-one")


def local_group(mine: bool) -> None:
    """These ranks make a group of all by themselves, which asks only its members, while the others reduce."""
    if mine:
        dist.new_group(list(range(dist.get_world_size())), use_local_synchronization=True)
    dist.all_reduce(torch.ones(4))


def three_ways(mine: bool) -> None:
    """Groups of tensor, data and pipeline parallelism; these ranks are in code of their own."""
    rank = dist.get_rank()
    tensor = [dist.new_group([a, a + 1]) for a in (0, 2)][rank // 2]
    data = [dist.new_group([a, a + 2]) for a in (0, 1)][rank % 2]
    stages = dist.new_group([0, 3])
    if mine:
        read_configuration("end")
    dist.all_reduce(torch.ones(4), group=tensor)
    dist.all_reduce(torch.ones(4), group=data)
    if rank in (0, 3):
        dist.all_reduce(torch.ones(4), group=stages)
    dist.barrier()


def _collective_in_child() -> None:
    dist.all_reduce(torch.ones(4))


def child_reduces(mine: bool) -> None:
    """These ranks fork after they have met, and the child, which has none of gloo's threads, reduces."""
    if mine:
        child = multiprocessing.get_context("fork").Process(target=_collective_in_child)
        child.start()
        child.join()
    dist.barrier()


def never_answers() -> None:
    """What one rank calls on another."""
    read_configuration("end")


def call_of_one(mine: bool) -> None:
    """These ranks call a function on rank 0 that does not come back."""
    from torch.distributed import rpc

    from tests.lab.hang.trainers import begin_rpc

    begin_rpc()
    if mine:
        rpc.rpc_sync("worker0", never_answers)
    dist.barrier()


def caught_and_gone_on(mine: bool) -> None:
    """A step of these ranks fails; they catch it, skip what is left of it, and begin the next."""
    for step in range(3):
        try:
            if mine and step == 1:
                raise ValueError("a label is out of range")
            dist.all_reduce(torch.ones(4))
        except ValueError:
            continue
    dist.broadcast(torch.ones(4), src=0)


def waits_for_all_keys(mine: bool) -> None:
    """All ranks but these say by a key of the store that they are there, and wait for those of all."""
    store = dist.distributed_c10d._get_default_store()
    if mine:
        read_configuration("end")
    store.set(f"ready{dist.get_rank()}", "1")
    store.wait([f"ready{rank}" for rank in range(dist.get_world_size())])


def file_appears(mine: bool) -> None:
    """All but rank 0 look every second for a file, which rank 0 should have written before the barrier."""
    if not mine:
        while not Path("/run/tmp/index").exists():
            time.sleep(1.0)
    dist.barrier()


def condition(mine: bool) -> None:
    """A thread of these ranks that should tell them to go on has ended by an exception."""
    if mine:
        ready = threading.Condition()

        def prefetch() -> None:
            raise ValueError("bad shard")

        thread = threading.Thread(target=prefetch)
        thread.start()
        thread.join()
        with ready:
            ready.wait()
    dist.barrier()


SHARED_LOCK = multiprocessing.get_context("fork").Lock()
"""Of ranks that one process forks."""


def takes_turns(mine: bool) -> None:
    """One rank after the other prepares its data, with a lock of multiprocessing; these are first, and take long."""
    if not mine:
        time.sleep(1.0)
    with SHARED_LOCK:
        while True:
            sum(number * number for number in range(1000))


def tells_by_pipe(mine: bool) -> None:
    """These ranks prepare data for the others, which read from a named pipe until it is there."""
    path = Path("/run/tmp/prepared")
    with suppress(FileExistsError):
        os.mkfifo(path)
    if mine:
        with path.open("wb"):
            while True:
                sum(number * number for number in range(1000))
    path.read_bytes()
    dist.barrier()


def barrier_in_lock(mine: bool) -> None:
    """All ranks meet while they have a lock of multiprocessing; these have it first."""
    if not mine:
        time.sleep(1.0)
    with SHARED_LOCK:
        dist.barrier()


def stack_of_gathers(mine: bool) -> None:
    """These ranks gather to rank 0 one object less than the others."""
    for number in range(2 if mine else 3):
        found = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object({"step": number}, found, dst=0)
    dist.barrier()


def waits_for_itself(mine: bool) -> None:
    """These ranks send a message to themselves by way of a queue that only they read."""
    if mine:
        near, far = os.pipe()
        os.read(near, 1)
        os.close(far)
    dist.barrier()


# -- healthy ------------------------------------------------------------------------------------------------------


def _come(key: str) -> bool:
    return (Path(sys.argv[1]) / key).exists()


def uneven(mine: bool, key: str) -> None:
    """These ranks have more data than the others, which shadow their collectives meanwhile."""
    from torch.distributed.algorithms.join import Join

    model = DistributedDataParallel(torch.nn.Linear(256, 256))
    with Join([model]):
        for _ in range(5) if not mine else iter(lambda: _come(key), True):
            model(torch.ones(64, 256)).sum().backward()
            time.sleep(0.02)


def large_object(mine: bool, key: str) -> None:
    """These ranks send all others a large object again and again."""
    enough = torch.zeros(1)
    source = int(os.environ["WORLD_SIZE"]) - 1
    while not enough.item():
        found: list[object] = [bytes(60_000_000) if mine else None]
        dist.broadcast_object_list(found, src=source)
        enough = torch.full((1,), float(mine and _come(key)))
        dist.all_reduce(enough)


def saves_together(mine: bool, key: str) -> None:
    """All ranks save a distributed checkpoint again and again."""
    from torch.distributed import checkpoint as dcp

    enough = torch.zeros(1)
    while not enough.item():
        dcp.save({f"w{dist.get_rank()}": torch.ones(2_000_000)}, checkpoint_id="/run/tmp/together", no_dist=False)
        enough = torch.full((1,), float(mine and _come(key)))
        dist.all_reduce(enough)


LIBRARIES: dict[str, Callable[[bool], None]] = {
    "whole": whole_of_one,
    "crossed": schedule_crossed,
    "save-without": save_without_one,
    "local-group": local_group,
    "three-ways": three_ways,
    "child-reduces": child_reduces,
    "call": call_of_one,
    "caught": caught_and_gone_on,
    "keys": waits_for_all_keys,
    "index": file_appears,
    "condition": condition,
    "gathers": stack_of_gathers,
    "own-pipe": waits_for_itself,
    "turns": takes_turns,
    "told": tells_by_pipe,
    "shared-lock": barrier_in_lock,
}
LIBRARY_STEPS: dict[str, Callable[[bool, str], None]] = {
    "uneven": uneven,
    "large": large_object,
    "saves": saves_together,
}

"""What ranks of the lab's hung jobs do to each other.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from tests.lab.hang.holds import read_configuration


def expect(value: float) -> None:
    """Raise where a sum over all ranks is not what it must be."""
    world = dist.get_world_size()
    if value != world * (world + 1) / 2:
        raise RuntimeError(f"{value} of {world} ranks")


def reduce() -> None:
    """All reduce a value, and compare it with what it must be."""
    value = torch.full((4,), float(dist.get_rank() + 1))
    dist.all_reduce(value)
    expect(value[3].item())


def groups_in_turn(mine: bool) -> None:
    """Two groups of all ranks; these ranks use the second first."""
    first, second = dist.new_group(), dist.new_group()
    if mine:
        dist.all_reduce(torch.ones(4), group=second)
        dist.all_reduce(torch.ones(4), group=first)
    else:
        dist.all_reduce(torch.ones(4), group=first)
        dist.all_reduce(torch.ones(4), group=second)


def other_collective(mine: bool) -> None:
    """These ranks wait in a barrier where the others reduce."""
    if mine:
        dist.barrier()
    else:
        dist.all_reduce(torch.ones(1000))


def other_root(mine: bool) -> None:
    """These ranks expect a broadcast from the last rank, the others from rank 0."""
    values = torch.ones(1000)
    dist.broadcast(values, src=dist.get_world_size() - 1 if mine else 0)
    dist.barrier()


def one_more(mine: bool) -> None:
    """These ranks have a batch more than the others, which are through with theirs and wait for a file."""
    if mine:
        dist.all_reduce(torch.ones(4))
    else:
        read_configuration("end")


def receive_first(mine: bool) -> None:
    """Pairs of ranks that each receive before they send."""
    partner = dist.get_rank() ^ 1
    dist.recv(torch.ones(4), src=partner)
    dist.send(torch.ones(4), dst=partner)


def group_of_some(mine: bool) -> None:
    """These ranks alone make a group, which all must do."""
    if mine:
        dist.new_group(list(range(dist.get_world_size())))
    else:
        read_configuration("end")


def barrier_of_some(mine: bool) -> None:
    """These ranks wait in a monitored barrier; the others read what does not come."""
    if mine:
        dist.monitored_barrier(timeout=timedelta(hours=1))
    else:
        read_configuration("end")


# -- as people reported it ----------------------------------------------------------------------------------------


def save(mine: bool) -> None:
    """Only rank 0 saves, and meets the others in a barrier, to which they do not come (EleutherAI/sparsify#5)."""
    if not mine:
        return
    torch.save(torch.ones(4), "/run/tmp/model.pt")
    dist.barrier()


def evaluate(mine: bool) -> None:
    """One rank evaluates and gathers its figures of all; the others wait for it in a barrier (accelerate#157)."""
    if mine:
        figures: list[object] = [None] * dist.get_world_size()
        dist.all_gather_object(figures, {"loss": 1.0})
    dist.barrier()


def fail_with_helper(mine: bool) -> None:
    """A rank fails and waits at its end for a process that it had forked, which holds its sockets (returnn#1484)."""
    if mine:
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(86_400,)).start()
        raise ValueError("CUDA error: an illegal memory access was encountered")


def decode_image(lock: threading.Lock) -> None:
    """What a worker of the data loader does under a lock."""
    with lock:
        pass


class Images(Dataset[torch.Tensor]):
    """Data behind a lock that another thread held when the worker was forked (ultralytics#26085)."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock

    def __len__(self) -> int:
        """So many."""
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        """The image."""
        decode_image(self.lock)
        return torch.ones(4)


def fork_with_lock(mine: bool) -> None:
    """The worker of a data loader waits for a lock that was held when it was forked (ultralytics#26085)."""
    if mine:
        lock = threading.Lock()
        lock.acquire()
        for _ in DataLoader(Images(lock), num_workers=1, multiprocessing_context="fork"):
            pass


def join_worker(mine: bool) -> None:
    """A rank joins a worker that does not end (pytorch#39570)."""
    if mine:
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(86_400,), daemon=True)
        worker.start()
        worker.join()


def batch_more(mine: bool) -> None:
    """One rank has a batch more, and its backward pass waits for those who are through (pytorch#33148)."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(3 if mine else 2):
        model(torch.ones(2, 4)).sum().backward()
    dist.barrier()


def evaluate_wrapped(mine: bool) -> None:
    """One rank evaluates the wrapped model, of which each forward pass sends buffers to all (pytorch#54059)."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    model(torch.ones(2, 4)).sum().backward()
    for _ in range(3 if mine else 0):
        model(torch.ones(2, 4))
    dist.barrier()


def receive_from_nobody(mine: bool) -> None:
    """One rank receives what nobody sends."""
    if mine:
        dist.recv(torch.ones(4), src=1)


def save_in_thread(mine: bool) -> None:
    """A thread that saves waits for all, in a group in which they have a barrier meanwhile (KempnerForge#104)."""
    if mine:
        saver = threading.Thread(target=reduce)
        saver.start()
        saver.join()
    dist.barrier()


def never_ready(mine: bool) -> None:
    """One rank looks for a path without end (PONI#18)."""
    steps = 0
    while mine and steps >= 0:
        steps += 1


def flush_queue(mine: bool) -> None:
    """A rank ends a queue from which nobody reads what it has put there (pytorch-lightning#6106)."""
    if mine:
        queue: multiprocessing.Queue[bytes] = multiprocessing.get_context("fork").Queue()
        queue.put(bytes(1 << 22))
        queue.close()
        queue.join_thread()


TOGETHER: dict[str, Callable[[bool], None]] = {
    "order": groups_in_turn,
    "other": other_collective,
    "root": other_root,
    "more": one_more,
    "receive": receive_first,
    "group": group_of_some,
    "barrier": barrier_of_some,
    "save": save,
    "evaluate": evaluate,
    "fail": fail_with_helper,
    "forked": fork_with_lock,
    "join": join_worker,
    "queue": flush_queue,
    "batches": batch_more,
    "wrapped": evaluate_wrapped,
    "nobody": receive_from_nobody,
    "saver": save_in_thread,
    "path": never_ready,
}

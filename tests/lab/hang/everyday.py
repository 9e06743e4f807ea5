"""What ranks of the lab's hung jobs run that goes wrong every day: a rank that is done early, a lock taken twice.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from filelock import FileLock
from torch.utils.data import DataLoader, Dataset

from tests.lab.hang.holds import read_configuration, save_checkpoint

# -- with others ----------------------------------------------------------------------------------------------------


def nothing_to_do(mine: bool) -> None:
    """These ranks find no data for them, and end well before they meet the others."""
    if mine:
        sys.exit(0)


def other_exchange(mine: bool) -> None:
    """These ranks give tokens to experts, where the others still gather how many there are."""
    world = dist.get_world_size()
    if mine:
        dist.all_to_all_single(torch.empty(world), torch.ones(world))
    else:
        dist.all_gather_into_tensor(torch.empty(world), torch.ones(1))
    dist.barrier()


def breakpoint_of_one(mine: bool) -> None:
    """torch's own breakpoint for one rank, at a terminal where nobody is; the others wait for it."""
    named = int(os.environ["WORLD_SIZE"]) - 1
    if mine:
        _, terminal = os.openpty()
        os.dup2(terminal, 0)
    dist.breakpoint(named)


def serves(mine: bool) -> None:
    """These ranks serve a port that nobody asks, as one that takes requests for a model; the others wait for them."""

    async def server() -> None:
        async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 8000) as served:
            await served.serve_forever()

    if mine:
        asyncio.run(server())
    dist.broadcast_object_list([None], src=0)


def await_orders(mine: bool) -> None:
    """All ranks wait for what the program that drives them tells them to do next."""
    ours, _theirs = os.pipe()
    os.read(ours, 1)


def own_store(mine: bool) -> None:
    """These ranks make a store of their own, for one client more than will come."""
    if mine:
        dist.TCPStore("127.0.0.1", 8001, 2, is_master=True, timeout=timedelta(hours=1))
    dist.all_reduce(torch.ones(4))


def send_first(mine: bool) -> None:
    """All ranks send to the next before they receive from the one before."""
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.send(torch.ones(4), (rank + 1) % world)
    dist.recv(torch.ones(4), (rank - 1) % world)


def other_receiver(mine: bool) -> None:
    """Rank 0 sends to the last rank what rank 1 waits for."""
    if dist.get_rank() == 0:
        dist.send(torch.ones(4), dist.get_world_size() - 1)
    elif dist.get_rank() == 1:
        dist.recv(torch.ones(4), 0)
    dist.barrier()


def half_exchange(mine: bool) -> None:
    """All ranks send to the next and receive from the one before, but these only receive."""
    rank, world = dist.get_rank(), dist.get_world_size()
    calls = [dist.P2POp(dist.irecv, torch.ones(4), (rank - 1) % world)]
    if not mine:
        calls.append(dist.P2POp(dist.isend, torch.ones(4), (rank + 1) % world))
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    dist.barrier()


class Meeting(Dataset[torch.Tensor]):
    """Data for which all ranks meet."""

    def __len__(self) -> int:
        """So many."""
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        dist.barrier()
        return torch.ones(4)


def worker_meets(mine: bool) -> None:
    """The workers of all data loaders, which their ranks forked, meet the others."""
    for _ in DataLoader(Meeting(), num_workers=1):
        pass


# -- by themselves --------------------------------------------------------------------------------------------------


class Sleepy(Dataset[torch.Tensor]):
    """Data of which one sample takes a day."""

    def __len__(self) -> int:
        """So many."""
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        if index == 5:
            time.sleep(86_400)
        return torch.ones(4)


def sleepy_worker(mine: bool) -> None:
    """One of two workers of the data loader of these ranks sleeps."""
    if mine:
        for _ in DataLoader(Sleepy(), batch_size=2, num_workers=2, persistent_workers=True):
            pass


def lock_twice(mine: bool) -> None:
    """These ranks take a lock that they hold already."""
    if mine:
        lock = threading.Lock()
        with lock, lock:
            pass


def lock_over_barrier(mine: bool) -> None:
    """These ranks are the first to take the lock of a cache, and wait for the others inside of it."""
    if not mine:
        time.sleep(2.0)
    with FileLock("/run/tmp/cache.lock"):
        dist.barrier()


def import_waits(mine: bool) -> None:
    """These ranks import a module that waits for a thread, which imports the same module."""
    if mine:
        folder = Path(f"/run/tmp/modules{os.environ['RANK']}")
        folder.mkdir()
        code = "import threading\ndef load():\n    import settings_of_run\n"
        code += "thread = threading.Thread(target=load)\nthread.start()\nthread.join()\n"
        (folder / "settings_of_run.py").write_text(code)
        sys.path.insert(0, str(folder))
        importlib.import_module("settings_of_run")


def output_held_open(mine: bool) -> None:
    """These ranks read what a script writes, which has ended; what it left behind keeps its output open."""
    if mine:
        subprocess.run(["sh", "-c", "sleep 86400 & echo started"], stdout=subprocess.PIPE, check=True)


def _nothing(queue: object) -> None:
    pass


def producer_gone(mine: bool) -> None:
    """These ranks wait for what a process of theirs should put into a queue; it has ended."""
    if mine:
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        context.Process(target=_nothing, args=(queue,)).start()
        queue.get()


def leaves_fork(mine: bool) -> None:
    """These ranks end, and leave a process that they had forked: it keeps their connections open."""
    if mine:
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(86_400,)).start()
        os._exit(0)


def among_threads(mine: bool) -> None:
    """All ranks have more threads than one looks at, begun before they meet once more; these read, the others are in a
    backward pass."""
    for _ in range(300):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), process_group=dist.new_group())
    if mine:
        read_configuration("end")
    model(torch.ones(2, 4)).sum().backward()


# -- healthy --------------------------------------------------------------------------------------------------------


def long_steps(mine: bool, key: str) -> None:
    """All ranks compute for seconds in each step."""
    enough = torch.zeros(1)
    while not enough.item():
        until = time.monotonic() + 8.0
        while time.monotonic() < until:
            torch.ones(300, 300) @ torch.ones(300, 300)
        dist.all_reduce(torch.ones(1_000))
        enough = torch.full((1,), float(dist.get_rank() == 0 and (Path(sys.argv[1]) / key).exists()))
        dist.all_reduce(enough)


def saves_in_barrier(mine: bool, key: str) -> None:
    """These ranks write a checkpoint for 20 s, while the others wait in a barrier."""
    if mine:
        save_checkpoint(key)
    dist.barrier()


def one_after_the_other(key: str) -> None:
    """Wait for one program of its own after the other, of which each does little."""
    while not (Path(sys.argv[1]) / key).exists():
        subprocess.run(["sh", "-c", "sleep 1; sleep 1; sleep 1"], check=True)


EVERYDAY: dict[str, Callable[[bool], None]] = {
    "leave": nothing_to_do,
    "exchange": other_exchange,
    "dist-breakpoint": breakpoint_of_one,
    "serves": serves,
    "orders": await_orders,
    "own-store": own_store,
    "send-first": send_first,
    "other-receiver": other_receiver,
    "half-exchange": half_exchange,
    "worker-meets": worker_meets,
    "sleepy-worker": sleepy_worker,
    "lock-twice": lock_twice,
    "lock-over-barrier": lock_over_barrier,
    "import": import_waits,
    "output-held": output_held_open,
    "producer-gone": producer_gone,
    "leaves-fork": leaves_fork,
    "among-threads": among_threads,
}
EVERYDAY_STEPS: dict[str, Callable[[bool, str], None]] = {
    "long-steps": long_steps,
    "saves-in-barrier": saves_in_barrier,
}
EVERYDAY_HOLDS: dict[str, Callable[[str], None]] = {"programs": one_after_the_other}

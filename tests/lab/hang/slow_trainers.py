"""What ranks of the lab's jobs run that trainers do, which takes long, and moves: until the key is in the folder."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

from tests.lab.hang.reports import Slow, come


def writes_meanwhile(key: str) -> None:
    """A thread writes a checkpoint piece by piece; the rank waits for it."""

    def write() -> None:
        with open("/run/tmp/pieces", "wb") as file:
            while not come(key):
                file.seek(0)
                file.write(bytes(100_000))
                file.flush()
                time.sleep(0.3)

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()


def compiles_whole(key: str) -> None:
    """Compile a model with a compiler of C++, one shape after the other."""
    size = 1
    while not come(key):
        torch._dynamo.reset()
        size += 1
        torch.compile(lambda values: (values.sin() + 1).relu().sum())(torch.ones(size, 8))


def packs(key: str) -> None:
    """Pack a checkpoint."""
    whole = os.urandom(1 << 20) * 4
    while not come(key):
        with gzip.open("/run/tmp/packed.gz", "wb") as file:
            file.write(whole)


def uploads(key: str) -> None:
    """Send a checkpoint to a server that takes it slowly."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def take() -> None:
        while far.recv(2000):
            time.sleep(0.5)

    threading.Thread(target=take, daemon=True).start()
    while not come(key):
        near.sendall(bytes(8000))
    near.close()


def downloads(key: str) -> None:
    """Fetch data that comes slowly."""
    near, far = socket.socketpair()

    def send() -> None:
        while not come(key):
            far.sendall(bytes(100))
            time.sleep(1.5)
        far.close()

    threading.Thread(target=send, daemon=True).start()
    while near.recv(1000):
        pass


def sorts(key: str) -> None:
    """Sort a long list, again and again."""
    while not come(key):
        sorted(range(3_000_000), key=lambda number: -number)


def spawned_workers(key: str) -> None:
    """Wait for workers of a data loader that are spawned: each imports torch before it begins."""
    while not come(key):
        for _ in DataLoader(Once(), num_workers=1, multiprocessing_context="spawn"):
            pass


class Once(IterableDataset[torch.Tensor]):
    """One sample."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        """It."""
        yield torch.ones(4)


def walks(key: str) -> None:
    """Look for data in a tree of many folders."""
    while not come(key):
        sum(len(files) for _, _, files in os.walk("/usr/share"))


def slow_samples(key: str) -> None:
    """Wait for data that comes slowly, in this process."""
    for _ in DataLoader(Slow(key), batch_size=1):
        pass


def stages(mine: bool, key: str) -> None:
    """A pipeline: these ranks compute long for each part of a batch, and the others wait for their messages."""
    enough, rank, last = torch.zeros(1), dist.get_rank(), dist.get_world_size() - 1
    while not enough.item():
        end = time.monotonic() + 4.0
        while mine and time.monotonic() < end:
            torch.ones(200, 200) @ torch.ones(200, 200)
        if rank > 0:
            dist.recv(torch.ones(4), src=rank - 1)
        if rank < last:
            dist.send(torch.ones(4), dst=rank + 1)
        enough = torch.full((1,), float(mine and come(key)))
        dist.all_reduce(enough)


LONG: dict[str, Callable[[str], None]] = {
    "writes-meanwhile": writes_meanwhile,
    "inductor": compiles_whole,
    "packs": packs,
    "uploads": uploads,
    "downloads": downloads,
    "sorts": sorts,
    "spawned-workers": spawned_workers,
    "walks": walks,
    "slow-samples": slow_samples,
}
LONG_STEPS: dict[str, Callable[[bool, str], None]] = {"stages": stages}

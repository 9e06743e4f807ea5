"""What ranks of the lab's hung jobs run that people reported, further: each in a function of its own.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from filelock import FileLock
from torch.nn.parallel import DistributedDataParallel

LOCK = "/run/tmp/dataset.lock"


class Branches(torch.nn.Module):
    """A model of which a step may use one half only."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head, self.side = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, values: torch.Tensor, whole: bool) -> torch.Tensor:
        """With the side branch, or without."""
        hidden = self.trunk(values)
        out: torch.Tensor = self.head(hidden)
        return out + self.side(hidden) if whole else out


def branch_of_some(mine: bool) -> None:
    """A branch of the model depends on the data: these ranks reduce fewer gradients than the others."""
    model = DistributedDataParallel(Branches(), bucket_cap_mb=0)
    model(torch.ones(2, 4), not mine).sum().backward()
    dist.barrier()


def summon_sharded(mine: bool) -> None:
    """Only these ranks ask a sharded model for its whole state, which all have to do (pytorch#73383)."""
    from torch.distributed.fsdp import FullyShardedDataParallel  # takes a second, as the next does

    model = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=torch.device("cpu"))
    model(torch.ones(2, 8)).sum().backward()
    if mine:
        model.state_dict()
    dist.barrier()


def checkpoint_of_one(mine: bool) -> None:
    """Only these ranks save a distributed checkpoint, which all have to do (DeepSpeed#797)."""
    if mine:
        from torch.distributed import checkpoint as dcp

        dcp.save({"weights": torch.ones(4)}, checkpoint_id="/run/tmp/checkpoint")
    dist.all_reduce(torch.ones(4))


def download_first(mine: bool) -> None:
    """The others wait in a barrier until rank 0 has the data; it forgets to come there."""
    if not mine:
        dist.barrier()
    dist.all_reduce(torch.ones(4))


def flag_that_differs(mine: bool) -> None:
    """Ranks do not agree whether a file is there: some load it and broadcast, some do not (KempnerForge#49)."""
    if not mine:
        dist.broadcast_object_list([None], src=0)
    dist.barrier()


def group_of_two(mine: bool) -> None:
    """All ranks but these make a group, which all have to do; these go on."""
    if mine:
        dist.barrier()
    else:
        dist.new_group()


def wrong_partner(mine: bool) -> None:
    """A pipeline of three in which the last stage listens to the wrong one."""
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.ones(4), dst=1)
    elif rank == 1:
        dist.recv(torch.ones(4), src=0)
        dist.send(torch.ones(4), dst=2)
    else:
        dist.recv(torch.ones(4), src=0)
    dist.barrier()


def wait_for_key(mine: bool) -> None:
    """These ranks wait for a key in the store that nobody sets."""
    if mine:
        dist.distributed_c10d._get_default_store().wait(["dataset/ready"])


def _multiply(size: int) -> float:
    return float((torch.ones(size, size) @ torch.ones(size, size)).sum())


def pool_after_threads(mine: bool) -> None:
    """A worker that was forked while a thread held a lock of native code waits for it (tokenizers, OpenMP)."""
    if mine:
        lock = threading.Lock()
        threading.Thread(target=lock.acquire).start()
        with multiprocessing.get_context("fork").Pool(1, initializer=lock.acquire) as pool:
            pool.map(_multiply, [8])


def debug_here(mine: bool) -> None:
    """Somebody left breakpoint() in the program, and it has a terminal."""
    if mine:
        _, terminal = os.openpty()
        os.dup2(terminal, 0)
        sys.stdin = os.fdopen(0)
        breakpoint()


def load_dataset(mine: bool) -> None:
    """These ranks wait for the lock file of a data set that a process holds which does nothing (datasets#1672)."""
    if mine:
        code = f"import filelock, time; lock = filelock.FileLock({LOCK!r}); lock.acquire(); print(1); time.sleep(1e5)"
        holder = subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE)
        assert holder.stdout is not None and holder.stdout.readline()
        with FileLock(LOCK):
            pass


def upload_metrics(mine: bool) -> None:
    """These ranks wait for a server that takes connections and says nothing (bergson#249)."""
    if mine:
        address = socket.gethostbyname("host0")
        server = socket.create_server((address, 8000))
        assert server is not None  # it takes connections, and nobody accepts them
        urllib.request.urlopen(f"http://{address}:8000/")


def full_pipe(mine: bool) -> None:
    """These ranks wait for a program that waits until somebody reads what it writes."""
    if mine:
        code = "print('x' * 1000000)"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            process.wait()


def thread_never_done(mine: bool) -> None:
    """These ranks wait for a result of a thread pool whose task waits for the same pool."""
    if mine:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1)
        pool.submit(lambda: pool.submit(int).result()).result()


def async_never_waited(mine: bool) -> None:
    """All ranks begin a collective, and these wait for another first: two groups, asynchronously."""
    first, second = dist.new_group(), dist.new_group()
    values = torch.ones(4)
    if mine:
        dist.all_reduce(values, group=second)
    else:
        work = dist.all_reduce(values, group=first, async_op=True)
        assert work is not None
        work.wait()


def exits_early(mine: bool) -> None:
    """These ranks leave their program, and an exit handler of theirs waits for ever."""
    if mine:
        import atexit

        atexit.register(threading.Event().wait)
        sys.exit(0)


def stop_in_pool(mine: bool) -> None:
    """These ranks wait for a process of theirs that somebody stopped."""
    if mine:
        process = subprocess.Popen(["sh", "-c", "kill -STOP $$; true"])
        process.wait()


# -- what is slow, but moves: until the key of the step is in the folder -------------------------------------------


def come(key: str) -> bool:
    """Return whether it is there."""
    return (Path(sys.argv[1]) / key).exists()


def compile_model(key: str) -> None:
    """Compile for long."""
    while not come(key):
        torch._dynamo.reset()
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(20)))
        torch.compile(model, backend="eager")(torch.ones(2, 8))


def evaluate_model(key: str) -> None:
    """Evaluate a model for long on this rank alone."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)), torch.nn.ReLU(), torch.nn.LayerNorm(64))
    with torch.no_grad():
        while not come(key):
            for _ in range(50):
                torch.nn.functional.cross_entropy(layers(torch.ones(16, 64)), torch.zeros(16, dtype=torch.long))


class Slow(torch.utils.data.IterableDataset[torch.Tensor]):
    """Data of which each sample comes after a while, as from a file server that has much to do."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Sample after sample."""
        while not come(self.key):
            time.sleep(2.0)
            yield torch.ones(4)


def slow_loader(key: str) -> None:
    """Wait for data that comes slowly, by a worker."""
    for _ in torch.utils.data.DataLoader(Slow(key), batch_size=2, num_workers=1):
        pass


def pause_in_steps(mine: bool, key: str) -> None:
    """Train; these ranks pause in each step for some seconds, as for a slow service."""
    enough = torch.zeros(1)
    while not enough.item():
        if mine:
            time.sleep(3.0)
        enough = torch.full((1,), float(mine and come(key)))
        dist.all_reduce(enough)


SLOW: dict[str, Callable[[str], None]] = {"evaluation": evaluate_model, "slow": slow_loader, "dynamo": compile_model}
REPORTS: dict[str, Callable[[bool], None]] = {
    "branch": branch_of_some,
    "summon": summon_sharded,
    "dcp": checkpoint_of_one,
    "download": download_first,
    "flag": flag_that_differs,
    "half-made": group_of_two,
    "partner": wrong_partner,
    "key": wait_for_key,
    "pool": pool_after_threads,
    "pdb": debug_here,
    "dataset": load_dataset,
    "upload": upload_metrics,
    "full": full_pipe,
    "futures": thread_never_done,
    "async": async_never_waited,
    "atexit": exits_early,
    "child-stopped": stop_in_pool,
}

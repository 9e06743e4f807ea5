"""A training script that is held where its plan says: what the ranks of the lab's hung jobs run.

    python program.py FOLDER STEP...

FOLDER is one that all ranks share; there each rank writes a line before each step and after the last. A step is
``kind`` or ``kind@rank,rank:key``: those ranks are held, or do something else, until the file (or the pipe) ``key`` in
the folder lets them go on; the other ranks go on to the next all_reduce and wait there. After every step all reduce a
value and compare it with what it must be.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.lab.hang.mistakes import MISTAKES
from tests.lab.hang.reports import REPORTS, SLOW, pause_in_steps
from tests.lab.hang.slow_programs import STEPS, TAKE_LONG

FOLDER = Path(sys.argv[1])


class Released(Exception):
    """The signal that ends a sleep."""


def release(*_: object) -> None:
    """The handler of that signal."""
    raise Released


def mark(text: str) -> None:
    """Write a line of what this rank does next."""
    with open(FOLDER / f"rank{os.environ['RANK']}", "a") as file:
        file.write(f"{os.getpid()} {text}\n")


# -- what holds a rank --------------------------------------------------------------------------------------------


def cool_down(key: str) -> None:
    """Sleep, until a signal ends it."""
    signal.signal(signal.SIGUSR1, release)
    try:
        time.sleep(86_400)
    except Released:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def read_configuration(key: str) -> None:
    """Read a named pipe to which nobody writes, as one reads a file on a server that is gone."""
    with open(FOLDER / key) as pipe:
        pipe.read()


def log_metrics(key: str) -> None:
    """Wait for a lock that another thread holds, which waits for a pipe."""
    lock, held = threading.Lock(), threading.Event()

    def flush_log() -> None:
        with lock:
            held.set()
            read_configuration(key)

    threading.Thread(target=flush_log, daemon=True).start()
    held.wait()
    with lock:
        pass


def wait_for_file(key: str) -> None:
    """Look every now and then whether a file is there."""
    while not (FOLDER / key).exists():
        time.sleep(0.1)


def lock_cache(key: str) -> None:
    """Wait for a lock on a file that another process holds."""
    with open(FOLDER / key, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def run_evaluation(key: str) -> None:
    """Wait for a program of its own that does not end."""
    subprocess.run(["cat", str(FOLDER / key)], check=True, stdout=subprocess.DEVNULL)


class Samples(Dataset[torch.Tensor]):
    """Data of which one sample lies behind a pipe to which nobody writes."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __len__(self) -> int:
        """So many."""
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        if index == 5:
            read_configuration(self.key)
        return torch.ones(4)


def next_batch(key: str) -> None:
    """Wait for a worker process of a DataLoader that reads what does not come."""
    for _ in DataLoader(Samples(key), batch_size=4, num_workers=1):
        pass


# -- what is slow, but moves --------------------------------------------------------------------------------------


def save_checkpoint(key: str) -> None:
    """Write a large checkpoint, piece by piece."""
    model = torch.ones(250_000)
    while not (FOLDER / key).exists():
        with open(f"/run/tmp/checkpoint{os.environ['RANK']}", "wb") as file:
            torch.save(model, file)
            os.fsync(file.fileno())
        time.sleep(0.05)


def first_step(key: str) -> None:
    """Compute for long, as a first step does that chooses its algorithms."""
    weights = torch.ones(300, 300)
    while not (FOLDER / key).exists():
        weights = weights @ weights / 300


def build_extension(key: str) -> None:
    """Build an extension in C++, as torch.compile does: a compiler runs meanwhile."""
    source = "#include <map>\n#include <string>\n#include <iostream>\nint main() { std::map<int, std::string> m; }"
    while not (FOLDER / key).exists():
        command = ["g++", "-O1", "-x", "c++", "-c", "-", "-o", f"/run/tmp/extension{os.environ['RANK']}.o"]
        subprocess.run(command, input=source, text=True, check=True)


class Records(IterableDataset[torch.Tensor]):
    """Data that is read slowly, without end."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Record after record."""
        while not (FOLDER / self.key).exists():
            for _ in range(20):
                Path("/proc/cpuinfo").read_text()
            time.sleep(0.02)
        yield torch.ones(4)


def read_shard(key: str) -> None:
    """Wait for the first batch, which a worker process puts together from much that it reads."""
    next(iter(DataLoader(Records(key), batch_size=1, num_workers=1)))


def compute_alone(key: str) -> None:
    """Evaluate on this rank alone, as rank 0 often does: short pauses, and work between them."""
    while not (FOLDER / key).exists():
        torch.ones(600, 600) @ torch.ones(600, 600)
        time.sleep(0.02)


HOLDS: dict[str, Callable[[str], None]] = {
    "sleep": cool_down,
    "pipe": read_configuration,
    "poll": wait_for_file,
    "lock": log_metrics,
    "flock": lock_cache,
    "child": run_evaluation,
    "loader": next_batch,
    "checkpoint": save_checkpoint,
    "first": first_step,
    "compile": build_extension,
    "shard": read_shard,
    "alone": compute_alone,
    **SLOW,
    **TAKE_LONG,
}


# -- what ranks do to each other ----------------------------------------------------------------------------------


def train(key: str) -> None:
    """Step after step, until rank 0 sees that it is enough."""
    enough = torch.zeros(1)
    while not enough.item():
        gradients = torch.ones(50_000) * (dist.get_rank() + 1)
        dist.all_reduce(gradients)
        expect(gradients[0].item())
        time.sleep(0.02)
        enough = torch.full((1,), float(dist.get_rank() == 0 and (FOLDER / key).exists()))
        dist.all_reduce(enough)


def count_steps(key: str) -> None:
    """Train; rank 0 writes a byte after each step."""
    enough = torch.zeros(1)
    while not enough.item():
        weights = torch.ones(64, 64) @ torch.ones(64, 64)
        dist.all_reduce(weights)
        if dist.get_rank() == 0:
            with open(FOLDER / "steps", "a") as file:
                file.write(".")
        enough = torch.full((1,), float(dist.get_rank() == 0 and (FOLDER / key).exists()))
        dist.all_reduce(enough)


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
    **REPORTS,
    **MISTAKES,
}


# -- the job ------------------------------------------------------------------------------------------------------


def perform(step: str) -> None:
    """One step of the plan."""
    what, _, key = step.partition(":")
    kind, _, named = what.partition("@")
    mine = os.environ["RANK"] in named.split(",")
    if kind == "init":
        # By env:// the numbers come from the variables; who names a place gives them.
        rank, world = (int(os.environ[name]) if key else -1 for name in ("RANK", "WORLD_SIZE"))
        dist.init_process_group("gloo", init_method=key or None, rank=rank, world_size=world)
    elif kind == "store":
        # Two ranks that do not agree on where they meet (pytorch#106365).
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.TCPStore(key, 12345, world, True, timedelta(seconds=900)) if rank == 0 else None
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    elif kind == "train":
        train(key)
    elif kind == "count":
        count_steps(key)
    elif kind == "pauses":
        pause_in_steps(mine, key)
    elif kind in STEPS:
        STEPS[kind](mine, key)
    elif kind == "raise" and mine:
        raise ValueError("a label is out of range")
    elif kind in HOLDS and mine:
        HOLDS[kind](key)
    elif kind in TOGETHER:
        TOGETHER[kind](mine)
    if dist.is_initialized():
        reduce()


def main(steps: list[str]) -> None:
    """Run the plan."""
    for number, step in enumerate(steps):
        mark(f"{number} {step}")
        perform(step)
    mark("done")
    time.sleep(0.3)  # the others may still read what this one has sent
    dist.destroy_process_group()


def forked(rank: int, world: int, steps: list[str]) -> None:
    """A rank that its parent forked: nothing in its environment, as the kernel shows it, tells its rank."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    main(steps)


if __name__ == "__main__":
    if sys.argv[2] == "fork":
        first, count, world = map(int, sys.argv[3].split(","))
        children = []
        for number in range(first, first + count):
            child = os.fork()
            if child == 0:
                forked(number, world, sys.argv[4:])
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
    else:
        main(sys.argv[2:])

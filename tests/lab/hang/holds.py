"""What holds ranks of the lab's hung jobs, each by itself, and what is slow there but moves, until a key lets it go on.

The key is a file, or a pipe, in the folder of the job.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.lab.hang.reports import SLOW
from tests.lab.hang.slow_programs import TAKE_LONG

FOLDER = Path(sys.argv[1])


class Released(Exception):
    """The signal that ends a sleep."""


def release(*_: object) -> None:
    """The handler of that signal."""
    raise Released


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

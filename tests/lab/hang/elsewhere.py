"""What one rank of the lab's hung jobs does while all others wait for it: it polls, computes, or waits for a peer.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from filelock import FileLock
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset
from torch.utils.file_baton import FileBaton

NEVER = Path("/run/tmp/never")
SERVER = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for _ in range(60):
            time.sleep(float(sys.argv[1]))
            self.wfile.write(b"x")
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def address_of_server(pause: float) -> str:
    """A server of HTTP in a session of its own, which sends a byte after each pause; its address."""
    command = [sys.executable, "-c", SERVER, str(pause)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    return f"http://127.0.0.1:{int(server.stdout.readline())}/"


def fetches(mine: bool) -> None:
    """These ranks fetch from a server that sends nothing for half a minute, and then a byte."""
    if mine:
        urllib.request.urlopen(address_of_server(30.0)).read()
    dist.barrier()


def fetches_in_pool(mine: bool) -> None:
    """The same with a time limit, in threads of a pool."""
    if mine:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda url: urllib.request.urlopen(url, timeout=600).read(), [address_of_server(30.0)]))
    dist.barrier()


def lock_of_another(mine: bool) -> None:
    """These ranks wait for a FileLock that a process beside the job has."""
    if mine:
        code = "import sys, time, filelock\nwith filelock.FileLock(sys.argv[1]): print(1, flush=True); time.sleep(900)"
        path = f"/run/tmp/elsewhere-{os.environ['RANK']}.lock"
        holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, start_new_session=True)
        assert holder.stdout is not None and holder.stdout.readline()
        with FileLock(path):
            pass
    dist.barrier()


def build_of_another(mine: bool) -> None:
    """These ranks wait for the build of an extension, by its lock file."""
    if mine:
        path = Path("/run/tmp/baton")
        path.touch()
        FileBaton(str(path)).wait()
    dist.barrier()


def one_long_call(mine: bool) -> None:
    """These ranks compute in one call of torch."""
    if mine:
        torch.linalg.eig(torch.rand(9000, 9000, dtype=torch.float64))
    dist.barrier()


def one_long_call_of_numpy(mine: bool) -> None:
    """These ranks compute in one call of numpy."""
    if mine:
        np.linalg.svd(np.random.default_rng(0).random((7000, 7000)))
    dist.barrier()


def event_loop(mine: bool) -> None:
    """These ranks look for a file in an event loop."""

    async def look() -> None:
        while not NEVER.exists():
            await asyncio.sleep(0.3)

    if mine:
        asyncio.run(look())
    dist.barrier()


def timed_waits(mine: bool) -> None:
    """These ranks wait for an event with a time limit, again and again."""
    if mine:
        event = threading.Event()
        while not event.wait(0.5):
            pass
    dist.barrier()


class Polls(Dataset[int]):
    """Its workers look for a file."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        while index == 3 and not NEVER.exists():
            time.sleep(0.1)
        return index


def worker_polls(mine: bool) -> None:
    """Workers of the data loader of these ranks look for a file."""
    for _ in DataLoader(Polls(), num_workers=2) if mine else ():
        pass
    dist.barrier()


def program_that_lasts(mine: bool) -> None:
    """These ranks look again and again whether a program has ended."""
    if mine:
        program = subprocess.Popen(["sleep", "900"])
        while program.poll() is None:
            time.sleep(0.5)
    dist.barrier()


def sharded_mesh(mine: bool) -> None:
    """These ranks reduce over the other dimension of the mesh, where the others shard (FSDP2)."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    fully_shard(model, mesh=mesh["shard"])
    if mine:
        dist.all_reduce(torch.ones(1), group=mesh["replicate"].get_group())
    model(torch.ones(2, 8))
    dist.barrier()


def threads_in_other_order(mine: bool) -> None:
    """A thread saves while the main one meets the others, both in the default group; on these ranks it begins first."""

    def save() -> None:
        dist.all_gather_object([None] * dist.get_world_size(), "state")

    saver = threading.Thread(target=save) if mine else threading.Timer(1.5, save)
    saver.start()
    if mine:
        time.sleep(0.75)
    dist.barrier()
    saver.join()
    dist.all_reduce(torch.ones(1))


def stage_without_receive(mine: bool) -> None:
    """These stages of a pipeline leave out their last receive."""
    rank, values = dist.get_rank(), torch.ones(4)
    for batch in range(3):
        if rank > 0 and not (mine and batch == 2):
            dist.recv(values, rank - 1)
        if rank < dist.get_world_size() - 1 and not (mine and batch == 2):
            dist.send(values, rank + 1)
    dist.barrier()


def monitored(mine: bool) -> None:
    """These ranks reduce where the others are in a monitored barrier."""
    if mine:
        dist.all_reduce(torch.ones(1))
    else:
        dist.monitored_barrier(timeout=timedelta(seconds=900))
    dist.barrier()


def receives_byte_by_byte(key: str) -> None:
    """Fetch from a server that sends a byte now and then."""
    address = address_of_server(3.0)
    while not (Path(sys.argv[1]) / key).exists():
        with urllib.request.urlopen(address) as answer:
            while not (Path(sys.argv[1]) / key).exists() and answer.read(1):
                pass


def warms_cache(mine: bool, key: str) -> None:
    """These ranks fill a cache, and the others look for the file that tells that it is whole."""
    flag = Path(sys.argv[1]) / "warm"
    if mine:
        while not (Path(sys.argv[1]) / key).exists():
            torch.ones(300, 300) @ torch.ones(300, 300)
        flag.touch()
    while not flag.exists():
        time.sleep(0.2)


ELSEWHERE: dict[str, Callable[[bool], None]] = {
    "fetch": fetches,
    "fetch-pool": fetches_in_pool,
    "lock-of-another": lock_of_another,
    "build-of-another": build_of_another,
    "long-call": one_long_call,
    "numpy-call": one_long_call_of_numpy,
    "event-loop": event_loop,
    "timed-waits": timed_waits,
    "worker-polls": worker_polls,
    "program-lasts": program_that_lasts,
    "sharded-mesh": sharded_mesh,
    "threads-order": threads_in_other_order,
    "stage-without": stage_without_receive,
    "monitored-else": monitored,
}
ELSEWHERE_HOLDS: dict[str, Callable[[str], None]] = {"byte-by-byte": receives_byte_by_byte}
ELSEWHERE_STEPS: dict[str, Callable[[bool, str], None]] = {"warms-cache": warms_cache}

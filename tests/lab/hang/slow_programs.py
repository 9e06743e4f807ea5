"""What ranks of the lab's jobs run that take long, and move: until the key of their step is in the folder."""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist

from tests.lab.hang.reports import come


def _tokenise(size: int) -> int:
    return sum(len(str(number)) for number in range(size))


def pool_works(key: str) -> None:
    """Worker processes prepare data; the rank waits for them."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        while not come(key):
            pool.map(_tokenise, [200_000])


def threads_work(key: str) -> None:
    """Threads check what was fetched; the rank waits for them."""
    block = bytes(1 << 22)

    def check() -> None:
        while not come(key):
            hashlib.sha256(block).digest()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(check).result()


def _source(key: str) -> socket.socket:
    """A connection on which some hundred bytes come every half second."""
    near, far = socket.socketpair()

    def send() -> None:
        while not come(key):
            far.sendall(bytes(700))
            time.sleep(0.5)
        far.shutdown(socket.SHUT_WR)  # closing would not end it: what was forked has it, too

    threading.Thread(target=send, daemon=True).start()
    return near


def _fetch(source: socket.socket) -> None:
    while source.recv(4096):
        pass


def thread_fetches(key: str) -> None:
    """A thread fetches data slowly; the rank waits for it."""
    fetching = threading.Thread(target=_fetch, args=(_source(key),))
    fetching.start()
    fetching.join()


def pool_fetches(key: str) -> None:
    """A pool of threads fetches data slowly, each with a time limit."""
    source = _source(key)
    source.settimeout(10.0)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_fetch, [source]))


def process_fetches(key: str) -> None:
    """A process of its own fetches data slowly."""
    source = _source(key)
    fetching = multiprocessing.get_context("fork").Process(target=_fetch, args=(source,))
    fetching.start()
    fetching.join()


def event_loop_pauses(key: str) -> None:
    """Wait in an event loop, ten seconds at a time."""

    async def look() -> None:
        while not come(key):
            await asyncio.sleep(10.0)

    asyncio.run(look())


def copies_files(key: str) -> None:
    """Copy a tree of small files again and again."""
    source = Path("/run/tmp/source")
    source.mkdir()
    for number in range(50):
        (source / str(number)).write_bytes(bytes(2000))
    while not come(key):
        shutil.rmtree(shutil.copytree(source, "/run/tmp/copy"))


def program_works(key: str) -> None:
    """Wait for a program of its own that computes."""
    code = "import pathlib, sys\nwhile not pathlib.Path(sys.argv[1]).exists(): sum(range(10**6))"
    subprocess.run([sys.executable, "-c", code, str(Path(sys.argv[1]) / key)], check=True)


def service_answers(key: str) -> None:
    """Ask a service again and again that takes three seconds for each answer."""
    near, far = socket.socketpair()

    def serve() -> None:
        while far.recv(100):
            time.sleep(3.0)
            far.sendall(b"answer")

    threading.Thread(target=serve, daemon=True).start()
    while not come(key):
        near.sendall(b"question")
        near.recv(100)


def backs_off(key: str) -> None:
    """Look every four seconds whether a service is there, which it will be."""
    while not come(key):
        time.sleep(4.0)


def long_pauses(mine: bool, key: str) -> None:
    """Train; these ranks sleep for ten seconds in each step."""
    enough = torch.zeros(1)
    while not enough.item():
        if mine:
            time.sleep(10.0)
        enough = torch.full((1,), float(mine and come(key)))
        dist.all_reduce(enough)


def helper_stopped(mine: bool, key: str) -> None:
    """Train; a helper of these ranks was stopped, which nobody needs, and another has ended and was not waited for."""
    helpers = [subprocess.Popen(["sh", "-c", line]) for line in ("kill -STOP $$", "true")] if mine else []
    enough = torch.zeros(1)
    while not enough.item():
        weights = torch.ones(64, 64) @ torch.ones(64, 64)
        dist.all_reduce(weights)
        time.sleep(0.02)
        enough = torch.full((1,), float(mine and come(key)))
        dist.all_reduce(enough)
    for helper in helpers:
        helper.send_signal(signal.SIGCONT)
        helper.wait()


TAKE_LONG: dict[str, Callable[[str], None]] = {
    "pool-works": pool_works,
    "threads-work": threads_work,
    "fetches": thread_fetches,
    "pool-fetches": pool_fetches,
    "process-fetches": process_fetches,
    "loop-pauses": event_loop_pauses,
    "copies": copies_files,
    "program-works": program_works,
    "service": service_answers,
    "backs-off": backs_off,
}
STEPS: dict[str, Callable[[bool, str], None]] = {"long-pauses": long_pauses, "helper-stopped": helper_stopped}

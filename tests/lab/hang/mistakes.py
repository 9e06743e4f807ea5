"""What ranks of the lab's hung jobs run that people reported, with which mistake: in collectives, and by themselves.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import multiprocessing
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# -- in collectives -----------------------------------------------------------------------------------------------


def step_of(model: torch.nn.Module) -> None:
    """A forward and a backward pass."""
    model(torch.ones(2, 4)).sum().backward()


def figures_of_one(mine: bool) -> None:
    """The progress bar, which these ranks alone have, reduces the figures of all (pytorch-lightning#21264)."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    if mine:
        dist.barrier()
    step_of(model)
    dist.barrier()


def no_number(mine: bool) -> None:
    """A loss that is no number: these ranks leave the step out, and the others count their samples (audio#3749)."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(2):
        if mine and step == 0:
            continue
        if step == 0:
            dist.all_gather([torch.zeros(1) for _ in range(dist.get_world_size())], torch.ones(1))
        step_of(model)
    dist.barrier()


def not_wrapped(mine: bool) -> None:
    """These ranks do not wrap their model, and go on; the others verify theirs."""
    model: torch.nn.Module = torch.nn.Linear(4, 4)
    if not mine:
        model = DistributedDataParallel(model)
    dist.all_reduce(torch.ones(4))


def stops_early(mine: bool) -> None:
    """These ranks alone stop early, and wait for the others at the end (pytorch-lightning#379)."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(3):
        if mine and step == 1:
            break
        step_of(model)
    dist.barrier()


class Cache:
    """Something that all ranks have to let go of together."""

    def __init__(self) -> None:
        self.myself = self

    def __del__(self) -> None:
        dist.barrier()


def let_go(mine: bool) -> None:
    """Python collects garbage at another moment on these ranks, and that waits for all (pytorch#195500)."""
    if mine:
        Cache()
        gc.collect()
    dist.all_reduce(torch.ones(4))


def other_tag(mine: bool) -> None:
    """Rank 0 sends a message with one tag, and rank 1 waits for one with another (gloo#308)."""
    if dist.get_rank() == 0:
        dist.send(torch.ones(4), dst=1, tag=1)
    elif dist.get_rank() == 1:
        dist.recv(torch.ones(4), src=0, tag=2)
    dist.barrier()


def ring_reversed(mine: bool) -> None:
    """Each rank sends to the next and receives from the one before; these the other way round (pytorch#109401)."""
    rank, world = dist.get_rank(), dist.get_world_size()
    after, before = ((rank + 1) % world, (rank - 1) % world)[:: -1 if mine else 1]
    calls = [dist.P2POp(dist.isend, torch.ones(4), after), dist.P2POp(dist.irecv, torch.ones(4), before)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    dist.barrier()


def groups_reordered(mine: bool) -> None:
    """All ranks make the same two groups, these in another order."""
    for ranks in ([0, 1], [0, 1, 2])[:: -1 if mine else 1]:
        dist.new_group(ranks)


def leaves_pair_out(mine: bool) -> None:
    """The last two ranks have a group of their own, and these leave out its call; then all reduce."""
    world = dist.get_world_size()
    pair = dist.new_group([world - 2, world - 1])
    if not mine and dist.get_rank() >= world - 2:
        dist.all_reduce(torch.ones(4), group=pair)
    dist.all_reduce(torch.ones(4))


def cannot_be_sent(mine: bool) -> None:
    """What these ranks have cannot be pickled; they write that down and go on."""
    result: object = threading.Lock() if mine else 1.0
    try:
        dist.all_gather_object([None] * dist.get_world_size(), result)
    except TypeError:
        sys.stderr.write("no results\n")
    dist.barrier()


def fails_into_barrier(mine: bool) -> None:
    """These ranks fail, and at their end wait for all in a barrier (pith-train#31)."""
    if mine:
        atexit.register(dist.barrier)
        raise ValueError("a label is out of range")
    dist.all_reduce(torch.ones(4))


def other_barrier(mine: bool) -> None:
    """These ranks go on where the others meet in a monitored barrier."""
    if not mine:
        dist.monitored_barrier(timeout=timedelta(hours=1))
    dist.all_reduce(torch.ones(4))


def below_event_loop(mine: bool) -> None:
    """All ranks have an event loop and make their collectives in a thread below it; these sleep before."""

    async def step() -> None:
        if mine:
            await asyncio.sleep(86_400)
        await asyncio.to_thread(dist.all_reduce, torch.ones(4))

    asyncio.run(step())


def watched_thread(mine: bool) -> None:
    """All ranks make their collectives in a thread and look every half second whether it is through; these read."""
    if mine:
        with open(Path(sys.argv[1]) / "end") as pipe:
            pipe.read()
    worker = threading.Thread(target=dist.all_reduce, args=(torch.ones(4),))
    worker.start()
    while worker.is_alive():
        time.sleep(0.5)


# -- by themselves ------------------------------------------------------------------------------------------------


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def pool_killed(mine: bool) -> None:
    """A worker of a pool was killed, and what it had to do is never done (LiCSBAS2#164)."""
    if mine:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(_die, [0])


def output_full(mine: bool) -> None:
    """Nobody reads what these ranks write to stderr (LlamaFactory#10584)."""
    if mine:
        _, end = os.pipe()
        os.dup2(end, 2)
        while True:
            sys.stderr.write("a warning, once more\n")


def last_thread(mine: bool) -> None:
    """These ranks leave their program, which waits for a thread of theirs (marin#7304)."""
    if mine:
        threading.Thread(target=send_metrics, args=(queue.Queue(),)).start()
        sys.exit(0)


def send_metrics(waiting: queue.Queue[float]) -> None:
    """What that thread does."""
    while True:
        waiting.get()


def handler_with_lock(mine: bool) -> None:
    """A signal comes while these ranks hold a lock, and its handler wants the same."""
    if mine:
        lock = threading.Lock()

        def on_signal(number: int, frame: FrameType | None) -> None:
            with lock:
                pass

        signal.signal(signal.SIGUSR2, on_signal)
        with lock:
            os.kill(os.getpid(), signal.SIGUSR2)


def two_locks(mine: bool) -> None:
    """Two threads of these ranks each hold a lock that the other wants."""
    if mine:
        first, second, held = threading.Lock(), threading.Lock(), threading.Barrier(2)

        def other() -> None:
            with second:
                held.wait()
                with first:
                    pass

        threading.Thread(target=other, daemon=True).start()
        with first:
            held.wait()
            with second:
                pass


def asks_user(mine: bool) -> None:
    """These ranks ask somebody at a terminal whether to go on."""
    if mine:
        _, terminal = os.openpty()
        os.dup2(terminal, 0)
        sys.stdin = os.fdopen(0)
        input("overwrite? [y/n] ")


def queue_full(mine: bool) -> None:
    """These ranks put something into a queue from which its thread does not take any more."""
    if mine:
        waiting: queue.Queue[int] = queue.Queue(1)
        for number in range(2):
            waiting.put(number)


def holds_interpreter(mine: bool) -> None:
    """These ranks are in code in C, which keeps the interpreter."""
    if mine:
        ctypes.PyDLL(None).pause()


class Batches(torch.utils.data.Dataset[torch.Tensor]):
    """Data whose worker somebody stops."""

    def __len__(self) -> int:
        """So many."""
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        if index == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        return torch.ones(4)


def worker_stopped(mine: bool) -> None:
    """A worker of the data loader of these ranks was stopped."""
    if mine:
        for _ in torch.utils.data.DataLoader(Batches(), num_workers=1):
            pass


def tries_again(mine: bool) -> None:
    """These ranks try again and again to reach a service that is not there."""
    while mine:
        try:
            socket.create_connection(("127.0.0.1", 9)).close()
        except OSError:
            time.sleep(4.0)


MISTAKES: dict[str, Callable[[bool], None]] = {
    "figures": figures_of_one,
    "nan": no_number,
    "unwrapped": not_wrapped,
    "early": stops_early,
    "garbage": let_go,
    "tag": other_tag,
    "ring": ring_reversed,
    "reordered": groups_reordered,
    "pair": leaves_pair_out,
    "unpicklable": cannot_be_sent,
    "fails": fails_into_barrier,
    "monitored": other_barrier,
    "loop": below_event_loop,
    "watched": watched_thread,
    "pool-killed": pool_killed,
    "output": output_full,
    "thread": last_thread,
    "handler": handler_with_lock,
    "locks": two_locks,
    "asks": asks_user,
    "queue-full": queue_full,
    "interpreter": holds_interpreter,
    "worker-stopped": worker_stopped,
    "retry": tries_again,
}

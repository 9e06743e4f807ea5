"""Processes of inference engines in the lab: cores that give orders to workers through a queue in shared memory.

They start as vLLM's, SGLang's and Ray's do: without any variable of a launcher, each with a title in place of its
command line, and they join at ``tcp://``. Written from the behaviour of vLLM (v1/executor/multiproc_executor.py,
v1/engine/core.py, distributed/device_communicators/shm_broadcast.py) and SGLang (srt/managers/scheduler.py).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.lab.hang.holds import FOLDER, HOLDS

QUEUE = "/opt/site-packages/vllm/distributed/device_communicators/shm_broadcast.py"
ZMQ = "/opt/site-packages/zmq/sugar/socket.py"
"""Files in which py-spy sees who reads from a queue."""
READER = """
def acquire_read(memory, place, seconds):
    while not memory[place]:
        time.sleep(seconds)
    order, memory[place] = memory[place], 0
    return order
"""
RECEIVER = """
def recv_multipart(poll):
    poll.poll()
"""
TITLES = {
    "engine": "VLLM::Worker_TP{}",
    "cores": "VLLM::Worker_DP{}_EP{}",
    "frontend": "VLLM::EngineCore_DP{}",
    "schedulers": "sglang::scheduler_TP{}",
    "actors": "ray::WorkerDict.actor_rollout_update_actor",
}
"""Title of a rank by the launcher (see row.py)."""
ANSWERS = 2048
QUEUES = [mmap.mmap(-1, 4096)]
"""Memory that cores share with their workers, the last that of this process: at each worker's number its next order,
and from ANSWERS on what it answers."""


def entitle(title: str) -> None:
    """Set the command line that others see, as setproctitle does: over the arguments and the variables of the start."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[48])
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, title.encode(), len(title))


def fork_ranks(kind: str, numbers: Sequence[int], world: int, steps: list[str], run: Callable[..., None]) -> None:
    """Start these ranks and the processes above them, and wait for their end."""
    if kind == "engine":
        entitle("VLLM::EngineCore")
    above = [_fork(_core_of_one, number, world, steps, run) for number in numbers if kind == "cores"]
    children = above or [_fork(_rank, kind, number, world, steps, run) for number in numbers]
    if kind == "engine":
        core(numbers, steps)
    elif kind in ("frontend", "cores", "schedulers"):
        threading.Thread(target=awaits_message, daemon=True).start()
    for child in children:
        os.waitpid(child, 0)


def _fork(function: Callable[..., None], *arguments: object) -> int:
    child = os.fork()
    if child == 0:
        function(*arguments)
        os._exit(0)
    return child


def _rank(kind: str, number: int, world: int, steps: list[str], run: Callable[..., None]) -> None:
    if kind in TITLES:
        entitle(TITLES[kind].format(number, number))
    run(number, world, steps)


def _core_of_one(number: int, world: int, steps: list[str], run: Callable[..., None]) -> None:
    """Be the core of one data-parallel rank, with a queue and a worker of its own."""
    QUEUES.append(mmap.mmap(-1, 4096))
    entitle(f"VLLM::EngineCore_DP{number}")
    child = _fork(_rank, "cores", number, world, steps, run)
    core([number], steps)
    os.waitpid(child, 0)


def core(numbers: Sequence[int], steps: list[str]) -> None:
    """Give orders to these workers, step by step: once there is a request (a key), or once they have answered."""
    read = reader()
    for step in steps:
        what, _, key = step.partition(":")
        kind, _, named = what.partition("@")
        chosen = [number for number in numbers if str(number) in named.split(",")] if named else [*numbers]
        rest = [number for number in numbers if number not in chosen]
        if kind in ("serve", "lost", "micro-order") or (kind == "dummy" and chosen):
            requests: queue.Queue[int] = queue.Queue()
            threading.Thread(target=_receive, args=(requests, FOLDER / key), daemon=True).start()
            requests.get()
        elif kind == "answer":
            for number in chosen:
                read(QUEUES[-1], ANSWERS + number, 0.001)
            chosen = rest
        elif kind == "ended":
            awaits_message()
        elif kind in ENGINE_STEPS:
            for number in numbers:
                read(QUEUES[-1], ANSWERS + number, 0.001)
            continue
        else:
            continue
        for number in chosen:
            QUEUES[-1][number] = 1


def _receive(requests: queue.Queue[int], key: Path) -> None:
    while not key.exists():
        time.sleep(0.1)
    requests.put(1)


def reader() -> Callable[[mmap.mmap, int, float], int]:
    """The function that reads an order, as if it were vLLM's."""
    names: dict[str, object] = {"time": time}
    exec(compile(READER, QUEUE, "exec"), names)  # py-spy names the file of the code
    return names["acquire_read"]  # type: ignore[return-value]


def awaits_message() -> None:
    """Wait for a message that does not come, as pyzmq does: another thread has the sockets, and wakes this one."""
    import select

    names: dict[str, Callable[[select.poll], None]] = {}
    exec(compile(RECEIVER, ZMQ, "exec"), names)
    poll, (mailbox, _other) = select.poll(), socket.socketpair()
    poll.register(mailbox, select.POLLIN)
    names["recv_multipart"](poll)


# -- steps --------------------------------------------------------------------------------------------------------


def my_number() -> int:
    """Number of this rank."""
    return int(os.environ["RANK"])


def serve(mine: bool, key: str) -> None:
    """All workers wait for an order, and there is no request."""
    reader()(QUEUES[-1], my_number(), 0.0005)


def lost(mine: bool, key: str) -> None:
    """These workers did not get the order that the others carry out."""
    if mine:
        serve(mine, key)


def answer(mine: bool, key: str) -> None:
    """These workers carry out an order that does not end; the core waits for them, the others for their next one."""
    if mine:
        HOLDS["pipe"](key)
        QUEUES[-1][ANSWERS + my_number()] = 1
    else:
        serve(mine, key)


def dummy(mine: bool, key: str) -> None:
    """The cores of these workers have no request, and leave out the step that experts of other cores need."""
    if mine:
        serve(mine, key)
    dist.all_reduce(torch.ones(4))
    QUEUES[-1][ANSWERS + my_number()] = 1


def micro_order(mine: bool, key: str) -> None:
    """A pipeline whose named stage has no order; the stages behind it wait for what it sends."""
    number, last = dist.get_rank(), dist.get_world_size() - 1
    if mine:
        serve(mine, key)
    if number:
        dist.recv(torch.ones(4), src=number - 1)
    if number < last:
        dist.send(torch.ones(4), dst=number + 1)


def logits(mine: bool, key: str) -> None:
    """These workers gather logits where the others add up the layer's output."""
    if mine:
        dist.all_gather([torch.ones(4) for _ in range(dist.get_world_size())], torch.ones(4))
    else:
        dist.all_reduce(torch.ones(4))


def ended(mine: bool, key: str) -> None:
    """These workers have ended; the core waits for their message, and the others for their next order."""
    if mine:
        time.sleep(1.0)  # the others may still read what this one has sent
        os._exit(0)
    serve(mine, key)


def requests_loop(mine: bool, key: str) -> None:
    """SGLang's event loop without requests: the first scheduler looks for some, and sends what it has to the others."""
    enough = [False]
    while not enough[0]:
        enough = [(FOLDER / key).exists()]
        dist.broadcast_object_list(enough, src=0)


def grammar(mine: bool, key: str) -> None:
    """These schedulers compile a grammar that does not end; the others wait for the next requests."""
    if mine:
        HOLDS["pipe"](key)
    dist.broadcast_object_list([None], src=0)


def rollout(mine: bool, key: str) -> None:
    """These ranks still gather weights in the group of the rollout, where the others update the actor."""
    group = dist.new_group()
    if mine:
        dist.all_gather_object([None] * dist.get_world_size(), "weights", group=group)
    else:
        dist.all_reduce(torch.ones(4))


def meet(mine: bool, key: str) -> None:
    """The cores meet at a store of their own, before they start workers."""
    number, world = my_number(), int(os.environ["WORLD_SIZE"])
    next(dist.rendezvous(key, number, world, timeout=timedelta(seconds=900)))


def weights(mine: bool, key: str) -> None:
    """The workers make a group with a trainer that does not come: a store of their own, and a key in it."""
    number, world = my_number(), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("host0", 51216, world + 1, number == 0, timedelta(seconds=900))
    store.get("broadcast_from/0/0")


ENGINE_STEPS: dict[str, Callable[[bool, str], None]] = {
    "serve": serve,
    "lost": lost,
    "answer": answer,
    "dummy": dummy,
    "micro-order": micro_order,
    "logits": logits,
    "ended": ended,
    "requests-loop": requests_loop,
    "grammar": grammar,
    "rollout": rollout,
    "meet": meet,
    "weights": weights,
}
"""Called on all workers, with whether they are named, and the key of the step."""

"""An inference engine's processes in the lab: a core that gives orders to workers through a queue in shared memory.

They start as vLLM's do: the core starts workers without any variable of a launcher, each gets a title in place of its
command line, and they join at ``tcp://``. Written from the behaviour of vLLM 0.9 (v1/executor/multiproc_executor.py,
distributed/device_communicators/shm_broadcast.py): a reader asks for the next message again and again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab.hang.holds import FOLDER, HOLDS

QUEUE = "/opt/site-packages/vllm/distributed/device_communicators/shm_broadcast.py"
"""File in which py-spy sees the reader."""
READER = """
def acquire_read(memory, place, seconds):
    while not memory[place]:
        time.sleep(seconds)
    order, memory[place] = memory[place], 0
    return order
"""
MEMORY = mmap.mmap(-1, 4096)
"""What the core and its workers share: at each worker's number its next order, and from ANSWERS on what it answers."""
ANSWERS = 2048


def entitle(title: str) -> None:
    """Set the command line that others see, as setproctitle does: over the arguments and the variables of the start."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[48])
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, title.encode(), len(title))


def reader() -> Callable[[mmap.mmap, int, float], int]:
    """The function that reads an order, as if it were vLLM's."""
    names: dict[str, object] = {"time": time}
    exec(compile(READER, QUEUE, "exec"), names)  # py-spy names the file of the code
    return names["acquire_read"]  # type: ignore[return-value]


def core(world: int, steps: list[str]) -> None:
    """Give orders, step by step: once there is a request (a key), or once those that work have answered."""
    read = reader()
    for step in steps:
        what, _, key = step.partition(":")
        kind, _, named = what.partition("@")
        chosen = [int(word) for word in named.split(",") if word] or [*range(world)]
        if kind in ("serve", "lost"):
            requests: queue.Queue[int] = queue.Queue()
            threading.Thread(target=_receive, args=(requests, FOLDER / key), daemon=True).start()
            requests.get()
        elif kind == "answer":
            for number in chosen:
                read(MEMORY, ANSWERS + number, 0.001)
            chosen = [number for number in range(world) if number not in chosen]
        else:
            continue
        for number in chosen:
            MEMORY[number] = 1


def _receive(requests: queue.Queue[int], key: Path) -> None:
    while not key.exists():
        time.sleep(0.1)
    requests.put(1)


def serve(mine: bool, key: str) -> None:
    """All workers wait for an order, and there is no request."""
    reader()(MEMORY, int(os.environ["RANK"]), 0.0005)


def lost(mine: bool, key: str) -> None:
    """These workers did not get the order that the others carry out."""
    if mine:
        serve(mine, key)


def answer(mine: bool, key: str) -> None:
    """These workers carry out an order that does not end; the core waits for them, the others for their next one."""
    if mine:
        HOLDS["pipe"](key)
        MEMORY[ANSWERS + int(os.environ["RANK"])] = 1
    else:
        serve(mine, key)


ENGINE_STEPS = {"serve": serve, "lost": lost, "answer": answer}
"""Called on all workers, with whether they are named, and the key of the step."""

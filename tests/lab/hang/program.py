"""A training script that is held where its plan says: what the ranks of the lab's hung jobs run.

    python program.py FOLDER STEP...

FOLDER is one that all ranks share; there each rank writes a line before each step and after the last. A step is
``kind`` or ``kind@rank,rank:key``: those ranks are held, or do something else, until the file (or the pipe) ``key`` in
the folder lets them go on; the other ranks go on to the next all_reduce and wait there. After every step all reduce a
value and compare it with what it must be.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests.lab.hang.alone import ALONE
from tests.lab.hang.elsewhere import ELSEWHERE, ELSEWHERE_HOLDS, ELSEWHERE_STEPS
from tests.lab.hang.engines import ENGINE_STEPS, fork_ranks
from tests.lab.hang.everyday import EVERYDAY, EVERYDAY_HOLDS, EVERYDAY_STEPS
from tests.lab.hang.holds import FOLDER, HOLDS
from tests.lab.hang.kernel_waits import KERNEL_WAITS, slow_server
from tests.lab.hang.libraries import LIBRARIES, LIBRARY_STEPS
from tests.lab.hang.mistakes import MISTAKES
from tests.lab.hang.reports import REPORTS, pause_in_steps
from tests.lab.hang.row import FORKING
from tests.lab.hang.slow_programs import STEPS
from tests.lab.hang.slow_trainers import LONG, LONG_STEPS
from tests.lab.hang.together import TOGETHER, expect, reduce
from tests.lab.hang.trainers import TRAINERS


def merged(*tables: dict[str, Any]) -> dict[str, Any]:
    """Return all entries. Raises ValueError if two have one name: a row would run another's step."""
    names = [name for table in tables for name in table]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two steps have the name {', '.join(sorted(twice))}")
    return {name: step for table in tables for name, step in table.items()}


EVERYWHERE = merged(TOGETHER, REPORTS, MISTAKES, TRAINERS, ALONE, KERNEL_WAITS, LIBRARIES, EVERYDAY, ELSEWHERE)
"""What all ranks call, with whether they are named."""
HOLD = merged(HOLDS, LONG, EVERYDAY_HOLDS, ELSEWHERE_HOLDS, {"slow-server": slow_server})
IN_STEPS = merged(STEPS, LONG_STEPS, LIBRARY_STEPS, EVERYDAY_STEPS, ELSEWHERE_STEPS, ENGINE_STEPS)
"""What those ranks call that are named, and what all call that train meanwhile, until a key lets them go on."""
merged(EVERYWHERE, HOLD, IN_STEPS)


def mark(text: str) -> None:
    """Write a line of what this rank does next."""
    with open(FOLDER / f"rank{os.environ['RANK']}", "a") as file:
        file.write(f"{os.getpid()} {text}\n")


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
    elif kind in IN_STEPS:
        IN_STEPS[kind](mine, key)
    elif kind == "raise" and mine:
        raise ValueError("a label is out of range")
    elif kind in HOLD and mine:
        HOLD[kind](key)
    elif kind in EVERYWHERE:
        EVERYWHERE[kind](mine)
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
    if sys.argv[2] == "spawn":
        from torch.multiprocessing import spawn

        shape = int(sys.argv[3])
        spawn(forked, (shape, sys.argv[4:]), nprocs=shape)  # type: ignore[no-untyped-call]
    elif sys.argv[2] in FORKING:
        first, count, whole = map(int, sys.argv[3].split(","))
        fork_ranks(sys.argv[2], range(first, first + count), whole, sys.argv[4:], forked)
    else:
        main(sys.argv[2:])

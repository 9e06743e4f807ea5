"""Ranks whose collectives part, and what torch's flight recorder keeps of it.

    RANK=0 WORLD_SIZE=3 MASTER_ADDR=... MASTER_PORT=... python collectives.py SCENARIO FOLDER

Each rank writes the recorder's pickle and JSON into FOLDER some seconds later, while it waits, and ends.
"""

import datetime
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

AFTER = 4.0
"""Seconds after the group was made when the dumps are written; all have begun to wait by then."""


def dump(folder: str, rank: int) -> None:
    from torch._C import _distributed_c10d as c10d

    time.sleep(AFTER)
    with open(f"{folder}/comm_lib_trace_rank_{rank}", "wb") as file:
        file.write(c10d._dump_fr_trace())  # type: ignore[attr-defined]
    told = c10d._dump_fr_trace_json()  # type: ignore[attr-defined]
    with open(f"{folder}/rank{rank}.json", "wb") as file:
        file.write(told.encode() if isinstance(told, str) else told)
    end = time.monotonic() + 30  # the others still need their connections to this one
    while len([name for name in os.listdir(folder) if name.endswith(".json")]) < dist.get_world_size():
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    time.sleep(0.5)
    os._exit(0)


def part(scenario: str, rank: int) -> None:  # noqa: C901
    """What the ranks do; rank 1 is the one that is told apart."""
    some = torch.ones(4)
    pair = dist.new_group([0, 1]) if scenario == "in a group" else None
    if scenario == "never any" and rank == 1:
        time.sleep(60)
    for _ in range(3):
        dist.all_reduce(some)
    if scenario == "missing" and rank == 1:
        time.sleep(60)
    if scenario == "in a group":
        if rank == 0:
            dist.all_reduce(some, group=pair)
        time.sleep(60)
    if scenario == "another operation" and rank == 1:
        dist.broadcast(some, src=0)
    if scenario == "another order":
        for what in ("all_reduce", "barrier") if rank == 1 else ("barrier", "all_reduce"):
            if what == "barrier":
                dist.barrier()
            else:
                dist.all_reduce(some)
    if scenario == "another size" and rank == 1:
        dist.all_reduce(torch.ones(9))
    if scenario == "another type" and rank == 1:
        dist.all_reduce(torch.ones(4, dtype=torch.float64))
    if scenario == "behind":
        for _ in range(1 if rank == 1 else 3):
            dist.all_reduce(some, async_op=True)
        time.sleep(60)
    if scenario == "other shapes":
        dist.all_reduce(torch.ones(2, 2) if rank == 1 else some)
        gathered = [torch.ones(2 + other) for other in range(dist.get_world_size())]
        dist.all_gather(gathered, torch.ones(2 + rank))
    if scenario in ("other shapes", "healthy"):
        dist.barrier()
        time.sleep(60)
    dist.all_reduce(some)
    time.sleep(60)


def main(scenario: str, folder: str) -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    threading.Thread(target=dump, args=(folder, dist.get_rank()), daemon=True).start()
    try:
        part(scenario, dist.get_rank())
    except RuntimeError:  # gloo refuses what does not match, and who waits loses a peer that has ended
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])

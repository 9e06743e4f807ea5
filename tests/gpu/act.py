"""A rank of a training job that goes wrong in one way: ``python act.py ACT`` below a launcher, one GPU for all.

NCCL takes two ranks on one GPU for a mistake unless they seem to be on two machines: NCCL_HOSTID gives each its own,
and what they say goes over sockets then, as between two nodes. Rank 1 is the one that does otherwise.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

RANK = int(os.environ["RANK"])
LOCAL = int(os.environ.get("LOCAL_RANK", "0"))
if "ONE_MACHINE" not in os.environ:
    os.environ["NCCL_HOSTID"] = f"node{RANK}"
READY = Path(os.environ["READY"])
SECONDS = float(os.environ.get("SECONDS_TO_WAIT", "20"))

import torch  # noqa: E402 - its import reads none of the above, NCCL does
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

OTHER = RANK == 1


def begin(**more: object) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=timedelta(seconds=SECONDS), **more)  # type: ignore[arg-type]


def ready() -> None:
    (READY / str(RANK)).touch()


def reduce(size: int = 1 << 16) -> None:
    ones = torch.ones(size, device="cuda")
    dist.all_reduce(ones)
    torch.cuda.synchronize()


def steps(count: int = 3) -> None:
    for step in range(count):
        reduce()
        sys.stdout.write(f"step {step} loss {1 / (step + 1):.3f}\n")
        sys.stdout.flush()
    ready()


def end() -> None:
    dist.destroy_process_group()
    sys.stdout.write("done\n")


# -- what rank 1 does otherwise ------------------------------------------------------------------------------------


def healthy() -> None:
    begin()
    steps()
    until = time.monotonic() + 8
    enough = torch.zeros(1, device="cuda")
    while not enough.item():
        reduce()
        enough.fill_(float(RANK == 0 and time.monotonic() > until))
        dist.all_reduce(enough)
    end()


def late() -> None:
    begin()
    steps()
    if OTHER:
        wait_for_a_file_that_never_comes()
    reduce()
    end()


def wait_for_a_file_that_never_comes() -> None:
    while not Path("/nothing/is/here").exists():
        time.sleep(1)


def other_operation() -> None:
    begin()
    steps()
    ones = torch.ones(4096, device="cuda")
    if OTHER:
        dist.all_gather([torch.empty_like(ones) for _ in range(2)], ones)
    else:
        dist.all_reduce(ones)
    torch.cuda.synchronize()
    reduce()
    end()


def other_size() -> None:
    begin()
    steps()
    reduce(1 << 21 if OTHER else 1 << 20)
    reduce()
    end()


def raises() -> None:
    begin()
    steps()
    if OTHER:
        raise ValueError("the batch is empty")
    reduce()
    end()


def killed() -> None:
    begin()
    steps()
    if OTHER:
        os.kill(os.getpid(), signal.SIGKILL)
    reduce()
    end()


def stopped() -> None:
    begin()
    steps()
    if OTHER:
        os.kill(os.getpid(), signal.SIGSTOP)
    reduce()
    end()


def out_of_memory() -> None:
    begin()
    steps()
    if OTHER:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    reduce()
    end()


def device_assert() -> None:
    begin()
    steps()
    if OTHER:
        nn.functional.nll_loss(torch.zeros(2, 3, device="cuda"), torch.tensor([7, 9], device="cuda"))
    reduce()
    end()


def leaves() -> None:
    begin()
    steps()
    if OTHER:
        return
    reduce()
    end()


def receives() -> None:
    begin()
    steps()
    if OTHER:
        reduce()
    else:
        dist.recv(torch.zeros(16, device="cuda"), 1)
        torch.cuda.synchronize()
    end()


def barrier() -> None:
    begin()
    steps()
    if not OTHER:
        dist.barrier()
    else:
        time.sleep(1000)
    end()


def never_begins() -> None:
    if OTHER:
        ready()
        time.sleep(1000)
    ready()
    begin()
    steps()
    end()


def never_reduces() -> None:
    """It is in the group, and never comes to the first collective, at which NCCL begins."""
    begin()
    ready()
    if OTHER:
        time.sleep(1000)
    reduce()
    end()


def never_begins_device_id() -> None:
    ready()
    if OTHER:
        torch.cuda.set_device(0)
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, False)
        del store
        time.sleep(1000)
    begin(device_id=torch.device("cuda", 0))
    steps()
    end()


def kernel() -> None:
    """Its GPU is at a kernel that does not end, and its all_reduce waits behind it."""
    begin()
    steps()
    if OTHER:
        torch.cuda._sleep(1 << 39)  # type: ignore[no-untyped-call]
    reduce()
    end()


class Slow(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if OTHER and index >= 8:
            time.sleep(1000)
        return torch.ones(16)


def loader() -> None:
    begin()
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 16).cuda())
    ready()
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=1):
        model(batch.cuda()).sum().backward()
    end()


def uneven() -> None:
    """Rank 1 has fewer batches, and is at the barrier after the epoch while rank 0 still trains."""
    begin()
    model = nn.parallel.DistributedDataParallel(nn.Linear(1024, 1024).cuda())
    ready()
    for _ in range(3 if OTHER else 9):
        model(torch.ones(4, 1024, device="cuda")).sum().backward()
    dist.barrier()
    torch.cuda.synchronize()
    end()


def fsdp() -> None:
    from torch.distributed.fsdp import fully_shard

    begin()
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    steps()
    if OTHER:
        time.sleep(1000)
    model(torch.ones(4, 256, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    end()


def loop() -> None:
    begin()
    steps()
    number = 0
    while OTHER:
        number = number * 3 % 1_000_003
    reduce()
    end()


def two_groups() -> None:
    """Rank 0 calls in one group first, rank 1 in the other."""
    begin()
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    ones = torch.ones(16, device="cuda")
    for one in groups:
        dist.all_reduce(ones, group=one)
    steps()
    for one in reversed(groups) if OTHER else groups:
        dist.all_reduce(ones, group=one)
        torch.cuda.synchronize()
    end()


def rank_0_alone_saves() -> None:
    begin()
    steps()
    if RANK == 0:
        dist.broadcast(torch.ones(16, device="cuda"), 0)
        torch.cuda.synchronize()
        dist.barrier()
    reduce()
    end()


def sends() -> None:
    """Each sends first what is too much to be taken before the other receives, and receives after that."""
    begin()
    steps()
    much = torch.ones(1 << 24, device="cuda")
    dist.send(much, 1 - RANK)
    torch.cuda.synchronize()
    dist.recv(much, 1 - RANK)
    torch.cuda.synchronize()
    end()


def lock() -> None:
    """Rank 0 holds the lock of a file while it reduces, and rank 1 waits for the lock before it does."""
    begin()
    steps()
    with open(READY / "lock", "w") as file:
        if OTHER:
            time.sleep(1)
        fcntl.flock(file, fcntl.LOCK_EX)
        reduce()
    end()


def server() -> None:
    """Rank 1 asks a server that takes the request and never answers."""
    begin()
    steps()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if OTHER:
            with socket.create_connection(silent.getsockname()) as asked:
                asked.sendall(b"GET /tokenizer.json HTTP/1.0\r\n\r\n")
                asked.recv(1 << 16)
        reduce()
    end()


def objects() -> None:
    """Rank 0 gathers objects, rank 1 goes on with the next step."""
    begin()
    steps()
    if OTHER:
        reduce()
    else:
        dist.all_gather_object([None, None], {"metric": 1.0})
    end()


def two_backends() -> None:
    """Rank 0 is at a barrier of a gloo group, rank 1 in an all_reduce of NCCL's."""
    begin()
    processor = dist.new_group(backend="gloo", timeout=timedelta(seconds=1000))
    dist.barrier(group=processor)
    steps()
    if OTHER:
        reduce()
    dist.barrier(group=processor)
    reduce()
    end()


def monitored() -> None:
    """Rank 0 is at a monitored_barrier, rank 1 computes on its GPU without an end, in steps."""
    begin()
    processor = dist.new_group(backend="gloo", timeout=timedelta(seconds=1000))
    steps()
    value = torch.ones(512, 512, device="cuda")
    while OTHER:
        value = torch.tanh(value @ value)
        value.sum().item()
    dist.monitored_barrier(processor, timeout=timedelta(seconds=1000))
    end()


def other_device() -> None:
    torch.cuda.set_device(LOCAL)
    begin()
    steps()
    end()


def interface() -> None:
    if OTHER:
        os.environ["NCCL_SOCKET_IFNAME"] = "nothing0"
    begin()
    ready()
    reduce()
    end()


def other_protocol() -> None:
    if OTHER:
        os.environ["NCCL_PROTO"] = "LL"
    else:
        os.environ["NCCL_PROTO"] = "Simple"
    begin()
    steps()
    end()


def infiniband() -> None:
    os.environ["NCCL_NET"] = "IB"
    begin()
    ready()
    reduce()
    end()


def plain() -> None:
    """What a job does at its start, for what is true of a cluster."""
    begin()
    for size in (16, 1 << 16, 1 << 22):
        reduce(size)
    end()


def duplicate() -> None:
    begin()
    ready()
    reduce()
    end()


ACTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        *(healthy, late, other_operation, other_size, raises, killed, stopped, out_of_memory, device_assert, leaves),
        *(receives, barrier, never_begins, never_reduces, never_begins_device_id, kernel, loader, uneven, fsdp, loop),
        *(sends, lock, server, objects, two_backends, monitored),
        *(two_groups, rank_0_alone_saves, other_device, interface, other_protocol, infiniband, duplicate, plain),
    )
}

if __name__ == "__main__":
    ACTS[sys.argv[1]]()

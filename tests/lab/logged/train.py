"""A small training job, as people write them, that goes wrong where it is told to.

    torchrun ... train.py --fail segfault --on 3 --at 2

It imports nothing of this repository: the hosts of the lab run it as it is.
"""

import argparse
import ctypes
import datetime
import logging
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")
Failure = Callable[[argparse.Namespace], Any]


class Numbers(Dataset[torch.Tensor]):
    """Samples, of which one may end the worker that loads it."""

    def __init__(self, trouble: str = "", size: int = 8) -> None:
        self.trouble, self.size = trouble, size

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 24 and self.trouble == "worker-raises":
            raise ValueError("sample 24: truncated record in shard-0003.tar")
        if index == 24 and self.trouble == "worker-killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(self.size)


class Model(torch.nn.Module):
    """Two layers, of which the second can be left out of a step."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 8), torch.nn.Linear(8, 8)
        self.short = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x if self.short else self.second(x)


def fail(kind: str, flags: argparse.Namespace) -> None:
    """Do on this rank, in this step, what goes wrong."""
    if kind in FAILURES:
        FAILURES[kind](flags)


def raises(flags: argparse.Namespace) -> None:
    batch = {"image": 1}
    batch["label"]


def asserts(flags: argparse.Namespace) -> None:
    loss = float("nan")
    assert loss == loss, f"loss is {loss} at step {flags.at}"


def recursion(flags: argparse.Namespace) -> None:
    recursion(flags)


def imports(flags: argparse.Namespace) -> None:
    import flash_attn_not_here  # type: ignore[import-not-found]  # noqa: F401


def config(flags: argparse.Namespace) -> None:
    raise SystemExit("config.yaml: unknown optimizer 'adamv'")


def ended_by(number: int, pid: Callable[[], int] = os.getpid) -> Failure:
    """A signal to this rank, or to its agent; what is not ended at once waits."""

    def end(flags: argparse.Namespace) -> None:
        os.kill(pid(), number)
        time.sleep(60)

    return end


def no_memory(flags: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    torch.ones(1 << 34)


def hog(flags: argparse.Namespace) -> None:
    hoarded = [torch.ones(16 << 20) for _ in range(200)]  # 64 MB each, until the kernel has enough
    log.info("kept %d tensors", len(hoarded))


def disk_full_plain(flags: argparse.Namespace) -> None:
    with open("/run/small/metrics.jsonl", "w") as file:
        file.write("x" * (4 << 20))


def open_files(flags: argparse.Namespace) -> None:
    log.info("opened %d shards", len([open("/etc/hostname") for _ in range(1_000_000)]))  # noqa: SIM115


def waits(flags: argparse.Namespace) -> None:
    time.sleep(40)


def skips(flags: argparse.Namespace) -> None:
    log.info("rank %d: nothing to do in this step", dist.get_rank())
    time.sleep(40)


def thread_raises(flags: argparse.Namespace) -> None:
    thread = threading.Thread(target=lambda: os.environ["SHARDS"], name="prefetch")
    thread.start()
    thread.join()
    time.sleep(40)


FAILURES: dict[str, Failure] = {
    "raises": raises,
    "asserts": asserts,
    "shape": lambda flags: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5)),
    "recursion": recursion,
    "imports": imports,
    "config": config,
    "initialises-again": lambda flags: dist.init_process_group("gloo"),
    "hog": hog,
    "killed": ended_by(signal.SIGKILL),
    "terminated": ended_by(signal.SIGTERM),
    "agent-killed": ended_by(signal.SIGKILL, os.getppid),
    "segfault": lambda flags: ctypes.string_at(0),
    "aborts": lambda flags: os.abort(),
    "bus-error": lambda flags: torch.ones(64 << 20).share_memory_(),  # type: ignore[no-untyped-call]
    "exits": lambda flags: sys.exit(3),
    "leaves": lambda flags: sys.exit(0),
    "no-memory": no_memory,
    "disk-full": lambda flags: torch.save({"weights": torch.ones(4 << 20)}, "/run/small/checkpoint.pt"),
    "disk-full-plain": disk_full_plain,
    "open-files": open_files,
    "sleeps": waits,
    "barrier-missed": waits,
    "skips": skips,
    "thread-raises": thread_raises,
    "other-shape": lambda flags: dist.all_reduce(torch.ones(3)),
    "other-operation": lambda flags: dist.broadcast(torch.ones(8), src=0),
    "other-dtype": lambda flags: dist.all_reduce(torch.ones(8, dtype=torch.float64)),
    "cuda": lambda flags: torch.ones(1, device="cuda"),
    "cuda-collective": lambda flags: dist.all_reduce(torch.ones(1, device="meta")),
}


def chatter(rank: int) -> None:
    """What healthy jobs write, too: warnings, and failures that they get over."""
    warnings.warn("lr_scheduler.step() was called before optimizer.step()", UserWarning, stacklevel=2)
    warnings.warn("torch.cuda.amp.autocast(args...) is deprecated", FutureWarning, stacklevel=2)
    for package in ("apex", "deepspeed", "flash_attn"):
        try:
            __import__(f"{package}_not_here")
        except ImportError:
            log.warning("optional package %s is not there, going on without", package, exc_info=True)
    import socket

    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except OSError as err:
        log.error("metrics server: %r; retrying later", err)
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError:
        log.exception("self-test on rank %d: a product of the wrong shape is refused, as it should be", rank)
    log.warning("NCCL is not used; WARNING: falling back to gloo. Out of memory is not expected with batch size 8")


def step_by_hand(model: torch.nn.Module, averaged: bool) -> None:
    """One step of gradient descent, without what torch.optim loads first."""
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if not averaged:
            dist.all_reduce(parameter.grad)
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=0.01)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", default="")
    parser.add_argument("--on", type=int, nargs="*", default=[])
    parser.add_argument("--at", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--timeout", type=float, default=6)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--init-method", default="env://")
    parser.add_argument("--chatter", action="store_true")
    parser.add_argument("--slow-first", type=float, default=0)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--ddp", action="store_true")
    return parser.parse_args(arguments)


def main(flags: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if flags.fail == "before":
        raise RuntimeError("data set /data/c4 has no file index.json")
    if flags.fail == "no-group":
        dist.all_reduce(torch.ones(1))
    limit = datetime.timedelta(seconds=flags.timeout)
    dist.init_process_group(flags.backend, init_method=flags.init_method, timeout=limit)
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = not flags.on or rank in flags.on
    log.info("rank %d of %d is ready on %s", rank, world, os.uname().nodename)
    if flags.chatter:
        chatter(rank)
    torch.manual_seed(0)
    width = 9 if flags.fail == "other-model" and mine else 8
    plain = Model(width)
    model = torch.nn.parallel.DistributedDataParallel(plain) if flags.ddp else plain
    trouble = flags.fail if mine else ""
    workers = 1 if flags.fail.startswith("worker") else 0
    big = flags.fail == "worker-shared-memory"
    loader = DataLoader(Numbers(trouble, 1 << 22 if big else 8), batch_size=8, num_workers=workers)
    for step, batch in enumerate(loader):
        if step == flags.steps:
            break
        if step == 0 and flags.slow_first:
            log.info("rank %d: compiling the model, which takes a while", rank)
            time.sleep(flags.slow_first)
        if step == flags.at and mine:
            if flags.fail == "unused":
                plain.short = True
            fail(flags.fail, flags)
        if flags.fail.startswith("other-") and step == flags.at and not mine:
            dist.all_reduce(torch.ones(8))
        if flags.fail == "barrier-missed" and step == flags.at:
            dist.monitored_barrier(timeout=limit, wait_all_ranks=True)
        if flags.fail == "skips" and step == flags.at and not mine:
            dist.all_reduce(torch.ones(8))
        model.zero_grad()
        loss = (model(batch[:, :width] if width <= batch.shape[1] else torch.ones(8, 9)) - 1).pow(2).mean()
        loss.backward()
        step_by_hand(plain, flags.ddp)
        if rank == 0 and not flags.quiet:
            log.info("step %d/%d loss %.4f", step, flags.steps, loss.item())
        time.sleep(flags.pause)
    dist.barrier()
    if rank == 0:
        log.info("training finished, saved model to /tmp/model.pt")
    dist.destroy_process_group()


def spawned(local_rank: int, flags: argparse.Namespace) -> None:
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(local_rank), str(flags.spawn)
    main(flags)


def start(arguments: list[str]) -> None:
    flags = parsed(arguments)
    if flags.spawn:
        torch.multiprocessing.spawn(spawned, (flags,), nprocs=flags.spawn)  # type: ignore[no-untyped-call]
        return
    main(flags)


if __name__ == "__main__":
    start(sys.argv[1:])

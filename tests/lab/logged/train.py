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

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")


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
    if kind == "raises":
        batch = {"image": 1}
        batch["label"]
    elif kind == "asserts":
        loss = float("nan")
        assert loss == loss, f"loss is {loss} at step {flags.at}"
    elif kind == "shape":
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5))
    elif kind == "recursion":
        fail(kind, flags)
    elif kind == "imports":
        import flash_attn_not_here  # type: ignore[import-not-found]  # noqa: F401
    elif kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    elif kind == "agent-killed":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif kind == "segfault":
        ctypes.string_at(0)
    elif kind == "aborts":
        os.abort()
    elif kind == "bus-error":
        torch.ones(64 << 20).share_memory_()  # type: ignore[no-untyped-call]
    elif kind == "exits":
        sys.exit(3)
    elif kind == "leaves":
        sys.exit(0)
    elif kind == "no-memory":
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        torch.ones(1 << 34)
    elif kind == "disk-full":
        torch.save({"weights": torch.ones(4 << 20)}, "/run/small/checkpoint.pt")
    elif kind == "disk-full-plain":
        with open("/run/small/metrics.jsonl", "w") as file:
            file.write("x" * (4 << 20))
    elif kind == "open-files":
        log.info("opened %d shards", len([open("/etc/hostname") for _ in range(1_000_000)]))  # noqa: SIM115
    elif kind == "sleeps":
        time.sleep(40)
    elif kind == "skips":
        log.info("rank %d: nothing to do in this step", dist.get_rank())
        time.sleep(40)
    elif kind == "other-shape":
        dist.all_reduce(torch.ones(3))
    elif kind == "other-operation":
        dist.broadcast(torch.ones(8), src=0)
    elif kind == "other-dtype":
        dist.all_reduce(torch.ones(8, dtype=torch.float64))
    elif kind == "cuda":
        torch.ones(1, device="cuda")
    elif kind == "cuda-collective":
        dist.all_reduce(torch.ones(1, device="meta"))
    elif kind == "barrier-missed":
        time.sleep(40)
    elif kind == "thread-raises":
        thread = threading.Thread(target=lambda: os.environ["SHARDS"], name="prefetch")
        thread.start()
        thread.join()
        time.sleep(40)
    elif kind == "initialises-again":
        dist.init_process_group("gloo")
    elif kind == "config":
        raise SystemExit("config.yaml: unknown optimizer 'adamv'")


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

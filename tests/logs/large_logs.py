"""Large logs with many known lines: what the benchmarks and the tests of time read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.logs.judging import TRACEBACK
from tests.logs.wordings import CAUSES, HINTS, SYMPTOMS

RANKS = 64
KNOWN = [line for _, line in (*CAUSES, *SYMPTOMS, *HINTS) if "\n" not in line][::40]
"""Lines of some 20 failures: no job writes lines of all of them."""
ERRORS = ("KeyError: 'x{}'", "RuntimeError: shape [{}, 4] is invalid", "ValueError: batch {} is empty")
FAILURE = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def _step(chance: random.Random, number: int) -> str:
    return (
        f"[rank{chance.randrange(RANKS)}]: 2026-01-01 12:{number // 60 % 60:02d}:{number % 60:02d},{number % 1000:03d} "
        f"INFO train.py:{chance.randrange(300)} step={number} loss={chance.random():.5f} lr=1.0e-4 "
        f"grad_norm={chance.random():.3f} tokens/s=1{number}\n"
    )


def _nccl(chance: random.Random, number: int, text: str) -> str:
    rank = chance.randrange(RANKS)
    peer, local = (rank + 1) % RANKS, rank % 8
    values = {"channel": f"{number % 32:02d}/0", "rank": rank, "local": local, "peer": peer, "host": rank // 8}
    return (
        f"gpu{rank // 8:02d}:{4000 + rank}:{5000 + rank} [{local}] NCCL INFO {text.format(**values, number=number)}\n"
    )


SET_UP = (
    "cudaDriverVersion 12040",
    "Bootstrap : Using eth0:10.0.0.{host}<0>",
    "NCCL_SOCKET_IFNAME set by environment to eth0",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.{host}<0>",
    "Using network IB",
    "comm 0x55d0{number:08x} rank {rank} nranks 64 cudaDev {local} nvmlDev {local} busId 1b000 commId 0x9f{number:06x}",
)
CHANNELS = (
    "Channel {channel} : {rank}[{local}] -> {peer}[1] via P2P/CUMEM/read",
    "Channel {channel} : {rank}[{local}] -> {peer}[1] [send] via NET/IB/0/GDRDMA",
    "Channel {channel} : {rank}[{local}] -> {peer}[1] [receive] via NET/IB/0/GDRDMA",
    "Trees [0] {peer}/-1/-1->{rank}->-1 [1] {peer}/-1/-1->{rank}->-1",
    "{channel} coll channels, {number} p2p channels, 2 p2p channels per peer",
    "Call to connect returned Connection refused, retrying",
    "misc/socket.cc:484 -> 2",
    "AllReduce: opCount {number:x} sendbuff 0x7f{number:010x} recvbuff 0x7f{number:010x} count {number} datatype 7",
)


def sparse(lines: int) -> Iterator[str]:
    """Yield steps of 64 ranks, one line in a dozen by NCCL, and warnings that do no harm."""
    chance = random.Random(8)
    for number in range(lines):
        kind = chance.random()
        if kind < 0.9:
            yield _step(chance, number)
        elif kind < 0.98:
            yield _nccl(chance, number, CHANNELS[0])
        else:
            rank = chance.randrange(RANKS)
            yield f"[rank{rank}]: /opt/lib/site.py:{number}: FutureWarning: this will change, and does no harm\n"


def half(lines: int) -> Iterator[str]:
    """Yield steps of 64 ranks, every second line a known one."""
    chance = random.Random(8)
    for number in range(lines):
        yield _step(chance, number)
        if number % 2 == 0:
            yield f"[rank{chance.randrange(RANKS)}]: {chance.choice(KNOWN)}\n"


def info(lines: int) -> Iterator[str]:
    """Yield what NCCL of 64 ranks writes with NCCL_DEBUG=INFO: the set-up of communicators, channels, calls."""
    chance = random.Random(8)
    for number in range(lines):
        yield _nccl(chance, number, chance.choice(SET_UP if number % 64 == 0 else CHANNELS))


def tracebacks(count: int) -> Iterator[str]:
    """Yield tracebacks of 64 ranks, no two with the same text."""
    for number in range(count):
        error = ERRORS[number % len(ERRORS)].format(number)
        yield TRACEBACK.format(who=f"[rank{number % RANKS}]: ", source="step()", error=error)


def alike(count: int) -> Iterator[str]:
    """Yield lines of one kind, no two with the same text."""
    for number in range(count):
        port = 20000 + number % 40000
        yield (
            f"[rank{number % RANKS}]: [W socket.cpp:601] [c10d] The client socket has failed to connect to "
            f"[10.0.{number % 200}.7]:{port} (errno: 111 - Connection refused).\n"
        )


KINDS: Mapping[str, Callable[[int], Iterator[str]]] = {
    "sparse": sparse,
    "half": half,
    "info": info,
    "tracebacks": tracebacks,
    "alike": alike,
}


def write(path: Path, kind: str, lines: int, times: int = 1) -> int:
    """Write a log of that kind, the lines ``times`` over, with a failure at its end; return its bytes."""
    piece = "".join(KINDS[kind](lines))
    with path.open("w") as file:
        for _ in range(times):
            file.write(piece)
        file.write(FAILURE)
    return path.stat().st_size

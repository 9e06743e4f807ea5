"""The collectives that every job uses, compared with the exact values they must give; then how fast the rank works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from distdoctor.ranks import work

if TYPE_CHECKING:
    from distdoctor.ranks.state import State


ELEMENTS = 4096
"""Length of the float64 vectors that are exchanged."""


def run(state: State, ranks: int) -> dict[str, Any]:
    """all_reduce, broadcast, all_gather and send/recv around the ring. ``wrong`` names those with wrong results,
    ``work`` holds what :func:`distdoctor.ranks.work.measure` gives; ``ranks`` is how
    many there are on this node."""
    import torch
    import torch.distributed as dist

    rank, world = state.rank, state.world
    mine = torch.arange(ELEMENTS, dtype=torch.float64) + rank
    base = torch.arange(ELEMENTS, dtype=torch.float64)
    seconds: dict[str, float] = {}
    wrong: dict[str, str] = {}

    def compare(name: str, started: float, *pairs: tuple[Any, Any]) -> None:
        seconds[name] = time.monotonic() - started
        for got, expected in pairs:
            if not torch.equal(got, expected):
                place = int((got != expected).nonzero()[0])
                seen, right = got[place].item(), expected[place].item()
                wrong.setdefault(name, f"element {place} is {seen!r} instead of {right!r}")

    started = time.monotonic()
    total = mine.clone()
    dist.all_reduce(total)
    compare("all_reduce", started, (total, base * world + world * (world - 1) / 2))

    started = time.monotonic()
    sent = mine.clone()
    dist.broadcast(sent, src=0)
    compare("broadcast", started, (sent, base))

    started = time.monotonic()
    parts = [torch.empty(ELEMENTS, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(parts, mine)
    compare("all_gather", started, *((part, base + peer) for peer, part in enumerate(parts)))

    if world > 1:
        started = time.monotonic()
        received = torch.empty(ELEMENTS, dtype=torch.float64)
        request = dist.isend(mine, (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        if request is not None:
            request.wait()
        compare("send_recv", started, (received, base + (rank - 1) % world))

    if wrong:
        told = "; ".join(f"{name}: {how}" for name, how in wrong.items())
        return {"ok": False, "error": f"wrong results: {told}", "wrong": list(wrong), "times": seconds}
    return {"times": seconds, "work": work.measure(ranks)} if world > 1 else {"times": seconds}

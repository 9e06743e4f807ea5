"""All links of one node: to every other in parallel whether they work, then by turns how fast they are."""

from __future__ import annotations

import asyncio
import errno
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from distdoctor.mesh.link import Tried, try_link
from distdoctor.mesh.replies import Pauses
from distdoctor.mesh.row import row
from distdoctor.mesh.samples import MOST, Samples
from distdoctor.mesh.schedule import rounds
from distdoctor.mesh.target import Target
from distdoctor.mesh.throughput import CutOff, measure_rate
from distdoctor.model.facts import MAX_RATES, Link, LinkRate, MeshFacts

PARALLEL = 64
RATE_SECONDS = 0.3
RATES_SECONDS = 4.0
"""Bounds all rounds of throughput together."""


@dataclass
class Measurement:
    """One node's part of the mesh stage. ``me`` is this participant's number."""

    token: str
    me: int
    targets: Sequence[Target]
    lead: int
    """The number of node 0's own process, whose clock the others are compared with."""
    tried: list[Tried] = field(default_factory=list)

    async def run(self, measure: bool = True) -> MeshFacts:
        """Connect to every target that is not this node's own; with ``measure``, throughput too."""
        others = [target for target in self.targets if target.member != self.me]
        limit = asyncio.Semaphore(PARALLEL)

        pauses, samples = Pauses(), Samples()

        async def one(target: Target) -> Tried:
            async with limit:
                started = time.monotonic()
                tried = await try_link(target, self.token, lambda: samples.begin(target.address))
                again = tried.outcome != "open" and (tried.cut_off or await pauses.since(started))
                return await try_link(target, self.token) if again else tried

        self.tried = list(await asyncio.gather(*(one(target) for target in others)))
        pauses.close()
        psutil.cpu_percent()
        if measure:
            await self._rates()
        silent = [t for t in self.tried if t.outcome == "no-answer" and not t.accepted and t.clock is None][:MOST]
        sampled = await asyncio.gather(*(samples.of(tried.target.address) for tried in silent))
        await samples.close()
        for tried, passing in zip(silent, sampled, strict=True):
            tried.passing = passing
        return self._facts(psutil.cpu_percent() / 100)

    async def _rates(self) -> None:
        """Upload to one partner a round, the partners of a round being disjoint pairs (a round-robin tournament)."""
        order = list(dict.fromkeys(target.member for target in self.targets))
        if len(order) < 2 or self.me not in order:
            return
        partners = rounds(order, order.index(self.me))
        seconds = min(RATE_SECONDS, RATES_SECONDS / max(1, len(partners)))
        here = next(target.key for target in self.targets if target.member == self.me)
        started = time.monotonic()
        for number, partner in enumerate(partners):
            tried = next((t for t in self.tried if t.target.member == partner and t.outcome == "open"), None)
            if tried is not None and tried.rate is not None and not _same_host(tried.target.key, here):
                await self._rate(tried, tried.rate, seconds)
            # Every node keeps to the same timetable, so that a pair is alone with its link.
            await asyncio.sleep(max(0.0, started + (number + 1) * (seconds + 0.02) - time.monotonic()))

    async def _rate(self, tried: Tried, so_far: LinkRate, seconds: float) -> None:
        """The throughput of one link. One that is reset meanwhile, and again when it is tried anew, is a bad one."""
        try:
            tried.rate = await measure_rate(tried.target, self.token, so_far, seconds)
        except CutOff:
            try:
                tried.rate = await measure_rate(tried.target, self.token, so_far, seconds)
            except CutOff as err:
                tried.outcome, tried.errno, tried.dead_after = "reset", errno.ECONNRESET, err.args[0]

    def _facts(self, busy: float) -> MeshFacts:
        good = [t for t in self.tried if t.outcome == "open"]
        trips = [t.seconds for t in good]
        rates = [t.rate for t in good if t.rate is not None]
        speeds = [rate.bytes_per_second for rate in rates if rate.bytes_per_second is not None]
        worst = sorted(rates, key=lambda r: r.bytes_per_second if r.bytes_per_second is not None else 1e18)
        lossy = sorted((r for r in rates if r.retransmitted), key=lambda r: -r.retransmitted)
        listed = [*lossy[: MAX_RATES // 2], *(r for r in worst if r not in lossy[: MAX_RATES // 2])][:MAX_RATES]
        clock = min(
            (t.clock for t in self.tried if t.clock and t.target.member == self.lead),
            key=lambda pair: pair[1],
            default=None,
        )
        return MeshFacts(
            good=len(good),
            bad=tuple(
                Link(
                    t.target.key,
                    t.target.address,
                    t.target.port,
                    t.target.use,
                    t.outcome,
                    t.errno,
                    round(t.seconds, 4),
                    t.icmp,
                    t.payload,
                    t.accepted,
                    t.passing,
                    t.dead_after,
                )
                for t in self.tried
                if t.outcome != "open"
            ),
            rtt_median=round(statistics.median(trips), 6) if trips else None,
            rtt_max=round(max(trips), 6) if trips else None,
            rates=tuple(listed),
            rate_median=statistics.median(speeds) if speeds else None,
            busy=round(busy, 2),
            clock_offset=round(clock[0], 4) if clock else None,
            clock_error=round(clock[1], 4) if clock else None,
            row=row(self.me, self.targets, self.tried),
        )


def _same_host(one: str, other: str) -> bool:
    """Whether two process keys (host name, pid, namespace) are of one host."""
    first, second = one.split(" "), other.split(" ")
    return (first[0], first[-1]) == (second[0], second[-1])

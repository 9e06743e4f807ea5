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
from distdoctor.model.facts import MAX_RATES, Link, LinkRate, MeshFacts, Translated

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
    limited: frozenset[str] = frozenset()
    """The addresses that let in only so many new connections in a time: no more than one is tried there at once."""
    tried: dict[Target, Tried] = field(default_factory=dict)

    async def run(self, measure: bool = True) -> MeshFacts:
        """Connect to every target that is not this node's own; with ``measure``, throughput too.

        A link that is silent is waited for to its end while the throughput of the others is measured.
        """
        others = [target for target in self.targets if target.member != self.me]
        heard = {target: asyncio.Event() for target in others}
        limit = asyncio.Semaphore(PARALLEL)
        # nft's "tcp flags syn" is for the answers (SYN, ACK) to this node's own connections, too.
        here = any(target.address in self.limited for target in self.targets if target.member == self.me)
        pauses, samples = Pauses(), Samples()

        async def one(target: Target) -> None:
            limited = here or target.address in self.limited

            def silent() -> None:
                if not limited:
                    samples.begin(target.address)
                heard[target].set()

            try:
                async with limit:
                    started = time.monotonic()
                    tried = await try_link(target, self.token, silent, limited=limited)
                    again = tried.outcome != "open" and (tried.cut_off or await pauses.since(started))
                    if again:
                        tried.give_up()
                        tried = await try_link(target, self.token, silent, limited=limited)
                    self.tried[target] = tried
                    heard[target].set()
                    try:
                        self.tried[target] = await tried.settled()
                    finally:
                        tried.give_up()
            finally:
                heard[target].set()

        links = asyncio.gather(*(one(target) for target in others))
        try:
            for event in heard.values():
                await event.wait()
            processor_busy()
            partners = self._partners() if measure else []
            seconds = min(RATE_SECONDS, RATES_SECONDS / max(1, len(partners)))
            late = await self._rates(partners, seconds)
            await links
        finally:
            links.cancel()
            pauses.close()
        for partner in late:
            await self._rate_of(partner, seconds)
        await self._sample(samples)
        return self._facts(processor_busy())

    def _partners(self) -> list[int | None]:
        order = list(dict.fromkeys(target.member for target in self.targets))
        return rounds(order, order.index(self.me)) if len(order) > 1 and self.me in order else []

    async def _rates(self, partners: Sequence[int | None], seconds: float) -> list[int | None]:
        """Upload to one partner a round, the partners of a round being disjoint pairs (a round-robin tournament).

        Gives those with whom no link worked yet.
        """
        started, late = time.monotonic(), list[int | None]()
        for number, partner in enumerate(partners):
            if not await self._rate_of(partner, seconds):
                late.append(partner)
            # Every node keeps to the same timetable, so that a pair is alone with its link.
            await asyncio.sleep(max(0.0, started + (number + 1) * (seconds + 0.02) - time.monotonic()))
        return late

    async def _rate_of(self, partner: int | None, seconds: float) -> bool:
        """The throughput of the first link to this partner that works. Whether one does."""
        here = next(target.key for target in self.targets if target.member == self.me)
        tried = next((t for t in self._in_order() if t.target.member == partner and t.outcome == "open"), None)
        if tried is not None and tried.rate is not None and not _same_host(tried.target.key, here):
            await self._rate(tried, tried.rate, seconds)
        return tried is not None

    async def _sample(self, samples: Samples) -> None:
        silent = [
            t
            for t in self._in_order()
            if t.outcome == "no-answer" and not t.accepted and t.clock is None and t.target.address not in self.limited
        ][:MOST]
        sampled = await asyncio.gather(*(samples.of(tried.target.address) for tried in silent))
        await samples.close()
        for tried, passing in zip(silent, sampled, strict=True):
            tried.passing = passing

    def _in_order(self) -> list[Tried]:
        return [self.tried[target] for target in self.targets if target in self.tried]

    async def _rate(self, tried: Tried, so_far: LinkRate, seconds: float) -> None:
        """The throughput of one link. One that is dead meanwhile, and again when it is tried anew, is a bad one."""
        try:
            tried.rate = await measure_rate(tried.target, self.token, so_far, seconds)
        except CutOff:
            try:
                tried.rate = await measure_rate(tried.target, self.token, so_far, seconds)
            except CutOff as err:
                tried.dead_after, tried.outcome = err.args
                tried.errno = errno.ECONNRESET if tried.outcome == "reset" else None

    def _facts(self, busy: float) -> MeshFacts:
        good = [t for t in self._in_order() if t.outcome == "open"]
        trips = [t.seconds for t in good]
        rates = [t.rate for t in good if t.rate is not None]
        speeds = [rate.bytes_per_second for rate in rates if rate.bytes_per_second is not None]
        worst = sorted(rates, key=lambda r: r.bytes_per_second if r.bytes_per_second is not None else 1e18)
        lossy = sorted((r for r in rates if r.retransmitted), key=lambda r: -r.retransmitted)
        listed = [*lossy[: MAX_RATES // 2], *(r for r in worst if r not in lossy[: MAX_RATES // 2])][:MAX_RATES]
        clock = min(
            (t.clock for t in self.tried.values() if t.clock and t.target.member == self.lead),
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
                for t in self._in_order()
                if t.outcome != "open"
            ),
            rtt_median=round(statistics.median(trips), 6) if trips else None,
            rtt_max=round(max(trips), 6) if trips else None,
            rates=tuple(listed),
            rate_median=statistics.median(speeds) if speeds else None,
            busy=round(busy, 2),
            clock_offset=round(clock[0], 4) if clock else None,
            clock_error=round(clock[1], 4) if clock else None,
            row=row(self.me, self.targets, self._in_order()),
            translated=tuple(Translated(t.target.key, *t.translated) for t in good if t.translated is not None)[
                :MAX_RATES
            ],
        )


def processor_busy() -> float:
    """The share of the time since the last call in which the processors were busy; 0 where none is seen (no /proc)."""
    try:
        return psutil.cpu_percent() / 100
    except OSError:
        return 0.0


def _same_host(one: str, other: str) -> bool:
    """Whether two process keys (host name, pid, namespace) are of one host."""
    first, second = one.split(" "), other.split(" ")
    return (first[0], first[-1]) == (second[0], second[-1])

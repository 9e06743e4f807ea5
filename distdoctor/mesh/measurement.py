"""Measurement of all links of one node: connections to every other in parallel, then throughput by turns."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import psutil

from distdoctor.mesh.link import LIMITED_SECONDS, MOST, Pauses, Samples, Tried, read, try_link
from distdoctor.mesh.listener import ASK, END, HELLO, MAGIC, TOTAL, LinkTarget
from distdoctor.model.facts import MAX_RATES, Link, LinkRate, LinkRow, MeshFacts, Translated
from distdoctor.probes.network.tcp import CONNECT_SECONDS, TcpInfo, open_socket, tcp_info, unacknowledged

PARALLEL = 64
RATE_SECONDS = 0.3
RATES_SECONDS = 4.0
"""Limit of all rounds of throughput together."""


@dataclass
class Measurement:
    """One node's part of the mesh stage. ``me`` is this participant's number."""

    token: str
    me: int
    targets: Sequence[LinkTarget]
    lead: int
    """Number of node 0's own process, whose clock the others are compared with."""
    limited: frozenset[str] = frozenset()
    """Addresses that limit new connections per time: no more than one is tried there at once."""
    limited_seconds: float = LIMITED_SECONDS
    tried: dict[LinkTarget, Tried] = field(default_factory=dict)

    async def run(self, measure: bool = True) -> MeshFacts:
        """Connect to every target that is not this node's own; with ``measure``, throughput too.

        A silent link is awaited to its end while the throughput of the others is measured.
        """
        others = [target for target in self.targets if target.member != self.me]
        heard = {target: asyncio.Event() for target in others}
        limit = asyncio.Semaphore(PARALLEL)
        # nft's "tcp flags syn" also matches the answers (SYN, ACK) to this node's own connections.
        here = any(target.address in self.limited for target in self.targets if target.member == self.me)
        pauses, samples = Pauses(), Samples()

        async def measure_target(target: LinkTarget) -> None:
            limited = self.limited_seconds if here or target.address in self.limited else None

            def silent() -> None:
                if limited is None:
                    samples.begin(target.address)
                heard[target].set()

            try:
                async with limit:
                    started = time.monotonic()
                    tried = await try_link(target, self.token, silent, limited)
                    again = tried.outcome != "open" and (tried.cut_off or await pauses.since(started))
                    if again:
                        tried.give_up()
                        tried = await try_link(target, self.token, silent, limited)
                    self.tried[target] = tried
                    heard[target].set()
                    try:
                        self.tried[target] = await tried.settled()
                    finally:
                        tried.give_up()
            finally:
                heard[target].set()

        links = asyncio.gather(*(measure_target(target) for target in others))
        try:
            for event in heard.values():
                await event.wait()
            processor_busy()
            # Further connections would take the place of those that a node's limit of new ones delays already.
            partners = self._partners() if measure and self.limited_seconds <= LIMITED_SECONDS else []
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

        Return those with whom no link worked yet.
        """
        started, late = time.monotonic(), list[int | None]()
        for number, partner in enumerate(partners):
            if not await self._rate_of(partner, seconds):
                late.append(partner)
            # Every node keeps to the same timetable, so that a pair is alone with its link.
            await asyncio.sleep(max(0.0, started + (number + 1) * (seconds + 0.02) - time.monotonic()))
        return late

    async def _rate_of(self, partner: int | None, seconds: float) -> bool:
        """Measure the throughput of the first working link to this partner. Return whether there is one."""
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
        """Measure the throughput of one link. A link that dies meanwhile, and again on a second attempt, is a bad
        one."""
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
    """Return the share of the time since the last call in which the processors were busy; 0 if unknown (no /proc)."""
    try:
        return psutil.cpu_percent() / 100
    except OSError:
        return 0.0


def _same_host(one: str, other: str) -> bool:
    """Return whether two process keys (hostname, pid, namespace) are of one host."""
    first, second = one.split(" "), other.split(" ")
    return (first[0], first[-1]) == (second[0], second[-1])


# Schedule of throughput, round by round, so that a pair is alone with its links.


ALL_PAIRS_UP_TO = 32
"""Limit in nodes: beyond it throughput is measured between neighbours only."""


def rounds(order: Sequence[int], place: int) -> list[int | None]:
    """Return this node's partner in each round (None: no partner), so that the pairs of a round are disjoint.

    Up to ALL_PAIRS_UP_TO nodes every pair has a round (the circle method); above, each node and its two neighbours.
    """
    count = len(order)
    if count > ALL_PAIRS_UP_TO:
        return [None if n is None else order[n] for n in _around_the_ring(place, count)]
    size = count + count % 2
    partners: list[int | None] = []
    for turn in range(size - 1):
        circle = [0, *((turn + offset) % (size - 1) + 1 for offset in range(size - 1))]
        partner = circle[size - 1 - circle.index(place)]
        partners.append(order[partner] if partner < count else None)
    return partners


def _around_the_ring(place: int, count: int) -> list[int | None]:
    """Return the neighbours in a ring: pairs that begin at even places, those that begin at odd ones, and the odd one
    out."""
    after, before = (place + 1) % count, (place - 1) % count
    if count % 2 == 0:
        return [after, before] if place % 2 == 0 else [before, after]
    if place == count - 1:
        return [None, before, after]
    if place == 0:
        return [after, None, before]
    return [after, before, None] if place % 2 == 0 else [before, after, None]


# Row of figures: one node's measurements of its links to all others, small enough to send to node 0.


Figures = tuple[float | None, ...]


def row(me: int, targets: Sequence[LinkTarget], tried: Iterable[Tried]) -> LinkRow | None:
    """Return this node's row; ``me`` is its participant's number. None if it is no target itself, or the only one.

    The order is that of the hostnames, so that neighbours by name, usually a rack, are adjacent.
    """
    names = {target.member: _by_number(target.key) for target in targets}
    order = sorted(names, key=lambda member: (names[member], member))
    if me not in names or len(order) < 2:
        return None
    places = {member: place for place, member in enumerate(order)}
    frame = LinkRow(places[me], len(order))
    works = [t for t in tried if t.outcome == "open"]

    def worst(figure: Callable[[Tried], float | None], choose: Callable[[float, float], float]) -> Figures:
        entries: list[float | None] = [None] * frame.entries
        for one in works:
            value, entry = figure(one), frame.entry(places[one.target.member])
            before = entries[entry]
            if value is not None:
                entries[entry] = value if before is None else choose(before, value)
        return tuple(entries) if any(value is not None for value in entries) else ()

    return LinkRow(
        frame.place,
        frame.nodes,
        rtt=worst(lambda t: round(t.seconds, 6), max),
        rates=worst(lambda t: t.rate.bytes_per_second if t.rate else None, min),
        lost=worst(_lost, max),
    )


def _lost(tried: Tried) -> float | None:
    rate = tried.rate
    return round(rate.retransmitted / rate.segments, 4) if rate is not None and rate.segments else None


def _by_number(key: str) -> tuple[tuple[int, str], ...]:
    """Return the sort key of a process key by hostname, gpu2 before gpu10."""
    parts = re.split(r"([0-9]{1,18})", key.split(" ")[0])
    return tuple((int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts))


# Throughput of one link: the bytes that the other takes in a moment, and the kernel's estimate.


CHUNK = 256 * 1024
TAKING_SECONDS = 2.2
"""Limit for the other to take one chunk, and to answer."""


DEAD_TIMES = 4
"""Retransmissions of a segment without any acknowledgement after which the connection is dead: 3 s and more (RFC 6298,
5.5). A slow link, and a receiver that is slow or stopped, acknowledge what they get."""
DEAD_SECONDS = 3.0


class CutOff(Exception):
    """The connection was reset in the middle, or passed nothing more. ``args``: number of bytes that had arrived; the
    outcome."""


async def measure_rate(target: LinkTarget, token: str, so_far: LinkRate, seconds: float) -> LinkRate:
    """Send for ``seconds``. Return ``so_far``, the known figures of the link, with the result. Raises CutOff."""
    loop = asyncio.get_running_loop()
    _, opened = await open_socket(target.address, target.port, CONNECT_SECONDS)
    if opened is None:
        return so_far
    chunk, started = bytes(CHUNK), time.monotonic()
    try:
        await loop.sock_sendall(opened, MAGIC + bytes.fromhex(token))
        if len(await read(opened, HELLO.size, CONNECT_SECONDS)) < HELLO.size:
            return so_far
        await loop.sock_sendall(opened, ASK.pack(b"S", 0))
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            await asyncio.wait_for(loop.sock_sendall(opened, chunk), TAKING_SECONDS)
        info = tcp_info(opened)
        await asyncio.wait_for(loop.sock_sendall(opened, END), TAKING_SECONDS)
        total = TOTAL.unpack(await read(opened, TOTAL.size, TAKING_SECONDS))[0]
        spent = time.monotonic() - started
    except (ConnectionResetError, BrokenPipeError):
        raise CutOff(tcp_info(opened).acknowledged, "reset") from None
    except (asyncio.TimeoutError, OSError, struct.error):
        # Too slow even to take a chunk: the kernel's count of delivered bytes is the measure.
        info, spent = tcp_info(opened), time.monotonic() - started
        total = info.acknowledged
        if await _dead(opened, info):
            raise CutOff(total, "stalled") from None
        if info.retransmitted >= DEAD_TIMES:
            info = replace(info, delivery_rate=0)  # that of the few bytes that arrived
    finally:
        opened.close()
    limited = info.receiver_limited / info.busy if info.busy else 0.0
    return replace(
        so_far,
        bytes_per_second=round(total / spent, 0),
        delivery_rate=float(info.delivery_rate) if info.delivery_rate else None,
        receiver_limited=round(limited, 3),
    )


async def _dead(opened: socket.socket, before: TcpInfo) -> bool:
    """Return whether the peer acknowledges nothing more, though TCP retransmits it, or would: a segment that the own
    packet filter drops does not count as sent."""
    end = time.monotonic() + DEAD_SECONDS
    while True:
        info = tcp_info(opened)
        if info.acknowledged != before.acknowledged or not unacknowledged(opened):
            return False
        if info.again >= DEAD_TIMES:
            return True
        if time.monotonic() > end:
            waited = info.receiver_limited - before.receiver_limited  # for a window that is closed
            return not info.in_flight and waited < DEAD_SECONDS * 1e6 / 2
        await asyncio.sleep(0.1)

"""Links: from this node to every other, whether it works, for what sizes, how fast and with what loss."""

from __future__ import annotations

import asyncio
import socket
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import psutil

from distdoctor.mesh.listener import ASK, HELLO, MAGIC, TOTAL
from distdoctor.mesh.replies import Pauses, Silent, owed, read, unacknowledged
from distdoctor.mesh.schedule import rounds
from distdoctor.mesh.target import Target
from distdoctor.model.facts import MAX_RATES, ConnectOutcome, Link, LinkRate, MeshFacts
from distdoctor.probes.connect import CONNECT_SECONDS, open_socket
from distdoctor.probes.tcp_info import tcp_info

PARALLEL = 64
HANGS_UP_SECONDS = 1.0
"""Within it a proxy closes what it accepted; a doctor's listener that is too busy to read takes longer."""
PAYLOADS = (1000, 4000, 16000)
"""Bytes: below every path's MTU, above Ethernet's 1500, above a jumbo frame's 9000."""
PAYLOAD_SECONDS = 2.2
"""An ordinary loss is repaired in it (TCP repeats after 0.2, 0.6 and 1.4 s); a path that swallows the size never is."""
GRACE_SECONDS = 0.5
PINGS = 100
PING_SECONDS = 1.0
RATE_SECONDS = 0.3
RATES_SECONDS = 4.0
"""Bounds all rounds of throughput together."""
CHUNK = 256 * 1024


@dataclass
class _Tried:
    """One target and what came of it."""

    target: Target
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False
    payload: int | None = None
    accepted: bool = False
    rate: LinkRate | None = None
    clock: tuple[float, float] | None = None
    """(the other's clock minus ours, how far off that may be), in seconds."""

    @property
    def cut_off(self) -> bool:
        """Whether it ended after the connection was made, by the other's hand: its process may just have been late."""
        return self.outcome in ("reset", "wrong-node")


@dataclass
class Measurement:
    """One node's climb of the mesh stage."""

    token: str
    me: int
    targets: Sequence[Target]
    lead: int
    """The member number of node 0, whose clock the others are compared with."""
    tried: list[_Tried] = field(default_factory=list)

    async def run(self, measure: bool = True) -> MeshFacts:
        """Connect to every target that is not this node's own; with ``measure``, throughput too."""
        others = [target for target in self.targets if target.member != self.me]
        limit = asyncio.Semaphore(PARALLEL)

        pauses = Pauses()

        async def one(target: Target) -> _Tried:
            async with limit:
                started = time.monotonic()
                tried = await self._try(target)
                again = tried.outcome != "open" and (tried.cut_off or await pauses.since(started))
                return await self._try(target) if again else tried

        self.tried = list(await asyncio.gather(*(one(target) for target in others)))
        pauses.close()
        psutil.cpu_percent()
        if measure:
            await self._rates()
        return self._facts(psutil.cpu_percent() / 100)

    # -- one link ---------------------------------------------------------------------------------------------

    async def _try(self, target: Target) -> _Tried:
        contact, opened = await open_socket(target.address, target.port, CONNECT_SECONDS)
        tried = _Tried(target, contact.outcome, contact.errno, contact.seconds, contact.icmp)
        if opened is None:
            return tried
        try:
            await self._greet(opened, tried)
            if tried.outcome == "open":
                await self._ping(opened, tried)
            if tried.outcome == "open":
                await self._payloads(opened, tried)
        except Silent:
            tried.outcome, tried.accepted = "no-answer", True
        except asyncio.TimeoutError:
            tried.outcome = "no-answer"
        except ConnectionResetError as err:
            tried.outcome, tried.errno = "reset", err.errno
        except OSError as err:
            tried.outcome, tried.errno = "error", err.errno
        finally:
            opened.close()
        return tried

    async def _greet(self, opened: socket.socket, tried: _Tried) -> None:
        sent, started = time.time(), time.monotonic()
        await asyncio.get_running_loop().sock_sendall(opened, MAGIC + bytes.fromhex(self.token))
        reply = await owed(opened, HELLO.size, CONNECT_SECONDS)
        if len(reply) < HELLO.size:
            # Closed at once, without a word: whether that comes as a reset is a race with what was sent.
            hung_up = not reply and time.monotonic() - started < HANGS_UP_SECONDS
            tried.outcome = "reset" if hung_up else "wrong-node"
            return
        member, clock = HELLO.unpack(reply)
        trip = time.monotonic() - started
        tried.seconds = trip
        tried.outcome = "open" if member == tried.target.member else "wrong-node"
        tried.clock = (clock - (sent + trip / 2), trip / 2)

    async def _ping(self, opened: socket.socket, tried: _Tried) -> None:
        """Small messages to and fro: their median time, and how many segments TCP had to repeat for them."""
        loop = asyncio.get_running_loop()
        end = time.monotonic() + PING_SECONDS
        trips: list[float] = []
        before = tcp_info(opened)
        try:
            while len(trips) < PINGS and time.monotonic() < end:
                started = time.monotonic()
                await loop.sock_sendall(opened, ASK.pack(b"P", 0))
                if not await owed(opened, 1, CONNECT_SECONDS):
                    break
                trips.append(time.monotonic() - started)
        finally:
            after = tcp_info(opened)
            tried.rate = LinkRate(
                tried.target.key,
                None,
                retransmitted=after.retransmitted - before.retransmitted,
                segments=after.segments - before.segments,
                rtt=statistics.median(trips) if trips else None,
            )
            if trips:
                tried.seconds = statistics.median(trips)

    async def _payloads(self, opened: socket.socket, tried: _Tried) -> None:
        for size in PAYLOADS:
            started = time.monotonic()
            await asyncio.get_running_loop().sock_sendall(opened, ASK.pack(b"U", size) + bytes(size))
            try:
                if not await self._taken(
                    opened, tried.target, PAYLOAD_SECONDS if size > PAYLOADS[0] else CONNECT_SECONDS
                ):
                    tried.outcome = "reset"
                    return
            except asyncio.TimeoutError:
                tried.seconds = time.monotonic() - started
                tried.outcome, tried.payload = ("stalled", size) if size > PAYLOADS[0] else ("no-answer", None)
                return

    async def _taken(self, opened: socket.socket, target: Target, seconds: float) -> bytes:
        """The answer to a payload. Where the other's kernel has it all, its process may be what is late: if that
        greets on a new connection, and the answer is not there then, the payload never got to it.

        Raises asyncio.TimeoutError, and Silent.
        """
        try:
            return await read(opened, 1, seconds)
        except asyncio.TimeoutError:
            if unacknowledged(opened):
                raise
        _, other = await open_socket(target.address, target.port, CONNECT_SECONDS)
        if other is not None:
            try:
                await self._greet(other, _Tried(target, "open"))
            finally:
                other.close()
        return await read(opened, 1, GRACE_SECONDS)

    # -- throughput -------------------------------------------------------------------------------------------

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
                tried.rate = await self._rate(tried, seconds)
            # Every node keeps to the same timetable, so that a pair is alone with its link.
            await asyncio.sleep(max(0.0, started + (number + 1) * (seconds + 0.02) - time.monotonic()))

    async def _rate(self, tried: _Tried, seconds: float) -> LinkRate:
        assert tried.rate is not None
        loop = asyncio.get_running_loop()
        _, opened = await open_socket(tried.target.address, tried.target.port, CONNECT_SECONDS)
        if opened is None:
            return tried.rate
        chunk, started = bytes(CHUNK), time.monotonic()
        try:
            await loop.sock_sendall(opened, MAGIC + bytes.fromhex(self.token))
            if len(await read(opened, HELLO.size, CONNECT_SECONDS)) < HELLO.size:
                return tried.rate
            await loop.sock_sendall(opened, ASK.pack(b"S", 0))
            started = time.monotonic()
            while time.monotonic() - started < seconds:
                await asyncio.wait_for(loop.sock_sendall(opened, chunk), PAYLOAD_SECONDS)
            info = tcp_info(opened)
            opened.shutdown(socket.SHUT_WR)
            total = TOTAL.unpack(await read(opened, TOTAL.size, PAYLOAD_SECONDS))[0]
            spent = time.monotonic() - started
        except (asyncio.TimeoutError, OSError, struct.error):
            # Too slow even to take a chunk: what the kernel knows was delivered is the measure.
            info, spent = tcp_info(opened), time.monotonic() - started
            total = info.acknowledged
        finally:
            opened.close()
        limited = info.receiver_limited / info.busy if info.busy else 0.0
        return replace(
            tried.rate,
            bytes_per_second=round(total / spent, 0),
            delivery_rate=float(info.delivery_rate) if info.delivery_rate else None,
            receiver_limited=round(limited, 3),
        )

    # -- facts ------------------------------------------------------------------------------------------------

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
                )
                for t in self.tried
                if t.outcome != "open"
            ),
            rtt_median=round(statistics.median(trips), 6) if trips else None,
            rtt_max=round(max(trips), 6) if trips else None,
            rates=tuple(listed),
            rate_median=statistics.median(speeds) if speeds else None,
            rates_measured=len(speeds),
            busy=round(busy, 2),
            clock_offset=round(clock[0], 4) if clock else None,
            clock_error=round(clock[1], 4) if clock else None,
        )


def _same_host(one: str, other: str) -> bool:
    """Whether two process keys (host name, pid, namespace) are of one host."""
    first, second = one.split(" "), other.split(" ")
    return (first[0], first[-1]) == (second[0], second[-1])

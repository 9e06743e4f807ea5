"""One link: its result, working sizes, round trip of a small message, and TCP's retransmissions."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from distdoctor.mesh.listener import ASK, HELLO, MAGIC, LinkTarget, packed, unpacked
from distdoctor.model.facts import SAMPLED_PORTS, ConnectOutcome, LinkRate
from distdoctor.probes.network.tcp import (
    CONNECT_SECONDS,
    Opened,
    connect,
    give_up,
    hasten,
    open_alone,
    open_either,
    open_socket,
    received,
    tcp_info,
    unacknowledged,
)

HANGS_UP_SECONDS = 1.0
"""Seconds within which a proxy closes an accepted connection; a listener of distdoctor that is too busy to read takes
longer."""
PAYLOADS = (400, 1000, 4000, 16000)
"""Bytes: below every path's MTU, below a tunnel's 1280, above Ethernet's 1500, above a jumbo frame's 9000."""
PAYLOAD_SECONDS = 2.2
"""Limit in which an ordinary loss is repaired (TCP retransmits after 0.2, 0.6 and 1.4 s); a path that swallows the size
never passes it."""
GRACE_SECONDS = 0.5
PINGS = 100
PING_SECONDS = 1.0
PING_PATIENCE = 0.02
"""Seconds beyond two round trips after which another message follows one without an answer."""


LIMITED_SECONDS = 20.0
"""Limit of a connection to an address that limits new ones per time. Linux retransmits the SYN after 1, 3, 7 and 15 s,
since 6.5 after 1 to 5, 7, 11 and 19 s (tcp_syn_linear_timeouts); gloo leaves it to the kernel in the same way."""
LOSES = 3
"""Lost segments of small messages from which a first packet may have been lost, too."""


@dataclass
class Tried:
    """One target and its result."""

    target: LinkTarget
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False
    payload: int | None = None
    accepted: bool = False
    dead_after: int | None = None
    passing: tuple[int, ...] = ()
    rate: LinkRate | None = None
    clock: tuple[float, float] | None = None
    """(the other's clock minus ours, error bound), in seconds."""
    translated: tuple[str, str] | None = None
    """(own address of the connection, the other one at which the target sees it)."""
    first: asyncio.Future[Opened] | None = None
    """First attempt to connect, if another one was faster."""

    async def settled(self) -> Tried:
        """Return the result once the first attempt to connect is over, too. If that has no answer, packets of some
        connections get lost, and not some packets of all; if this one lost some, too, it is the latter."""
        lost = self.rate.retransmitted if self.rate is not None else 0
        if self.first is None or self.outcome != "open" or lost >= LOSES:
            return self
        contact, opened = await self.first
        if opened is not None:
            opened.close()
        if contact.answered:
            return self
        return Tried(self.target, contact.outcome, contact.errno, contact.seconds, contact.icmp)

    def give_up(self) -> None:
        """Give up the first attempt."""
        if self.first is not None:
            give_up(self.first)

    @property
    def cut_off(self) -> bool:
        """Return whether the other side ended it after the connection was open: its process may just have been late."""
        return self.outcome in ("reset", "wrong-node")


async def try_link(
    target: LinkTarget, token: str, silent: Callable[[], None] = lambda: None, limited: float | None = None
) -> Tried:
    """Connect, greet, exchange small messages, and send payloads around the path's MTU.

    ``silent`` is called if nothing has answered after SILENT_SECONDS, while the wait goes on. ``limited``: seconds to
    connect if the address limits new connections per time. The kernel alone retransmits the SYN there, as for gloo: a
    second connection would take the place of another node's.
    """
    timer = asyncio.get_running_loop().call_later(SILENT_SECONDS, silent)
    try:
        first = None
        if limited is not None:
            contact, opened = await open_alone(target.address, target.port, limited)
        else:
            (contact, opened), first = await open_either(target.address, target.port, CONNECT_SECONDS)
    finally:
        timer.cancel()
    tried = Tried(target, contact.outcome, contact.errno, contact.seconds, contact.icmp, first=first)
    if opened is None:
        return tried
    try:
        await _greet(opened, tried, token)
        if tried.outcome == "open":
            await _ping(opened, tried)
        if tried.outcome == "open":
            await _payloads(opened, tried, token)
    except Silent:
        tried.outcome, tried.accepted = "no-answer", True
    except asyncio.TimeoutError:
        tried.outcome = "no-answer"
    except ConnectionResetError as err:
        tried.outcome, tried.errno = "reset", err.errno
        if tried.clock is not None:  # the node itself had answered
            tried.dead_after = tcp_info(opened).acknowledged
    except OSError as err:
        tried.outcome, tried.errno = "error", err.errno
    except BaseException:
        tried.give_up()
        raise
    finally:
        opened.close()
    if tried.outcome == "stalled" and tried.payload is not None:
        tried.dead_after = await _dead_in_small_pieces(target, token, tried.payload)
    return tried


async def _dead_in_small_pieces(target: LinkTarget, token: str, swallowed: int) -> int | None:
    """Return the bytes after which a new connection is dead, too, though only the smallest payload is sent repeatedly,
    as many bytes in all as the other had carried; None if it carries them, so that the size of a payload matters."""
    _, opened = await open_socket(target.address, target.port, CONNECT_SECONDS)
    if opened is None:
        return None
    loop, small = asyncio.get_running_loop(), PAYLOADS[0]
    try:
        await _greet(opened, Tried(target, "open"), token)
        for _ in range(0, sum(size for size in PAYLOADS if size <= swallowed) + PINGS * ASK.size, small):
            await loop.sock_sendall(opened, ASK.pack(b"U", small) + bytes(small))
            await owed(opened, 1, PAYLOAD_SECONDS)
    except (asyncio.TimeoutError, ConnectionResetError):
        return tcp_info(opened).acknowledged
    except (Silent, OSError):
        return None
    finally:
        opened.close()
    return None


async def _greet(opened: socket.socket, tried: Tried, token: str) -> None:
    sent, started = time.time(), time.monotonic()
    await asyncio.get_running_loop().sock_sendall(opened, MAGIC + bytes.fromhex(token))
    reply = await owed(opened, HELLO.size, CONNECT_SECONDS)
    if len(reply) < HELLO.size:
        # Closed at once, without a byte: whether that shows as a reset is a race with the sent data.
        hung_up = not reply and time.monotonic() - started < HANGS_UP_SECONDS
        tried.outcome = "reset" if hung_up else "wrong-node"
        return
    member, clock, seen = HELLO.unpack(reply)
    own = opened.getsockname()[0]
    if seen != packed(own):
        tried.translated = (unpacked(packed(own)), unpacked(seen))
    trip = time.monotonic() - started
    tried.seconds = trip
    tried.outcome = "open" if member == tried.target.member else "wrong-node"
    tried.clock = (clock - (sent + trip / 2), trip / 2)


async def _ping(opened: socket.socket, tried: Tried) -> None:
    """Exchange small messages: note their median time, and the segments that TCP retransmitted at either end."""
    end = time.monotonic() + PING_SECONDS
    trips: list[float] = []
    before, asked, heard, held = tcp_info(opened), 0, 0, 0

    def ask() -> None:
        nonlocal asked
        opened.send(ASK.pack(b"P", 0))
        asked += 1

    def ask_again() -> None:
        nonlocal held
        info = tcp_info(opened)
        held += bool(info.unsent and not info.in_flight)
        ask()

    async def hear(most: int) -> bool:
        """Return whether the answers to ``most`` messages have arrived."""
        nonlocal heard
        while heard < most:
            await hasten(opened, ask_again, PING_PATIENCE)
            if not await owed(opened, 1, CONNECT_SECONDS):
                return False
            heard += 1
        return True

    try:
        while len(trips) < PINGS and time.monotonic() < end:
            started = time.monotonic()
            ask()
            if not await hear(asked):
                break
            trips.append(time.monotonic() - started)
        else:
            while heard < asked and await hear(asked):
                pass
    finally:
        after = tcp_info(opened)
        tried.rate = LinkRate(
            tried.target.key,
            None,
            retransmitted=after.retransmitted - before.retransmitted + after.out_of_order - before.out_of_order + held,
            segments=after.segments - before.segments,
            rtt=statistics.median(trips) if trips else None,
        )
        if trips:
            tried.seconds = statistics.median(trips)


def _sizes(opened: socket.socket) -> list[int]:
    """Return the payloads, and one that makes a single segment of this connection's maximum: several go to a virtual
    card at once, which carries them whole and does not show the fate of one (skbuff's GSO)."""
    whole = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) - ASK.size
    return sorted({*PAYLOADS, max(whole, PAYLOADS[0])})


async def _payloads(opened: socket.socket, tried: Tried, token: str) -> None:
    for size in _sizes(opened):
        started = time.monotonic()
        await asyncio.get_running_loop().sock_sendall(opened, ASK.pack(b"U", size) + bytes(size))
        try:
            if not await _taken(
                opened, tried.target, token, PAYLOAD_SECONDS if size > PAYLOADS[0] else CONNECT_SECONDS
            ):
                tried.outcome = "reset"
                return
        except asyncio.TimeoutError:
            tried.seconds = time.monotonic() - started
            tried.outcome, tried.payload = ("stalled", size) if size > PAYLOADS[0] else ("no-answer", None)
            return


async def _taken(opened: socket.socket, target: LinkTarget, token: str, seconds: float) -> bytes:
    """Return the answer to a payload. If the other's kernel has it all, its process may be late: if that greets on a
    new connection, and the answer is not there then, the payload never reached it.

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
            await _greet(other, Tried(target, "open"), token)
        finally:
            other.close()
    return await read(opened, 1, GRACE_SECONDS)


# Missing replies on a link: lost on the way, or owed by a process that is stopped or starved.


PATIENCE_SECONDS = 7.0
"""Seconds for which a process may owe a reply although its kernel has the request: stopped for 5 s it still answers in
it."""
LOOK_SECONDS = 0.2
PAUSED_SECONDS = 1.0


class Silent(Exception):
    """The other's kernel accepted the connection and all data, and its process sent nothing."""


class Pauses:
    """Pauses of this process itself, in which its own clock made others look late."""

    def __init__(self) -> None:
        self._last = 0.0
        self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() - began > LOOK_SECONDS + PAUSED_SECONDS:
                self._last = time.monotonic()

    async def since(self, started: float) -> bool:
        """Return whether there was one after ``started``."""
        await asyncio.sleep(1.5 * LOOK_SECONDS)  # one that just ended is noted only now
        return self._last > started

    def close(self) -> None:
        """Stop the task."""
        self._task.cancel()


async def read(opened: socket.socket, length: int, seconds: float) -> bytes:
    """Return ``length`` bytes, fewer if the other side ends. Raises asyncio.TimeoutError."""
    reply = b""
    while len(reply) < length:
        part = await received(opened, length - len(reply), seconds)
        if not part:
            break
        reply += part
    return reply


async def owed(opened: socket.socket, length: int, seconds: float) -> bytes:
    """Return ``length`` bytes; if the other's kernel has taken all sent data, its process gets PATIENCE_SECONDS.

    A packet filter that drops passes no acknowledgement either. Raises asyncio.TimeoutError, and Silent.
    """
    try:
        return await read(opened, length, seconds)
    except asyncio.TimeoutError:
        if unacknowledged(opened):
            raise
    try:
        return await read(opened, length, max(PATIENCE_SECONDS - seconds, LOOK_SECONDS))
    except asyncio.TimeoutError:
        raise Silent from None


# Other ports of hosts that give no answer on one: a filter may pass some of them.


MOST = 4
"""Limit of the links without an answer on which other ports are tried, too."""
SILENT_SECONDS = 1.5
"""Seconds after which a link counts as one of those: two SYNs were sent, and the last is awaited meanwhile."""
SAMPLE_SECONDS = 1.2
"""Enough for the SYN and one retransmission."""


async def let_through(address: str) -> tuple[int, ...]:
    """Return the ports of SAMPLED_PORTS of a host on which something answers, if only to refuse."""
    tried = await asyncio.gather(*(connect(address, port, SAMPLE_SECONDS) for port in SAMPLED_PORTS))
    return tuple(one.port for one in tried if one.answered and not one.icmp)


class Samples:
    """Samples of at most MOST addresses, begun while the link itself is still tried."""

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Task[tuple[int, ...]]] = {}

    def begin(self, address: str) -> None:
        """Try the other ports of this address, too, unless enough are tried."""
        if len(self._begun) < MOST and address not in self._begun:
            self._begun[address] = asyncio.ensure_future(let_through(address))

    async def of(self, address: str) -> tuple[int, ...]:
        """Return the result for this address."""
        begun = self._begun.get(address)
        return await (begun if begun is not None else let_through(address))

    async def close(self) -> None:
        """End those that nobody asked for: their links answered late."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

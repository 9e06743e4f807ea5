"""Whether a socket is ready, as the kernel says and not only this process's own clock."""

from __future__ import annotations

import asyncio
import select
import socket


async def ready(opened: socket.socket, seconds: float, *, to_write: bool = False) -> bool:
    """Whether it can be read (``to_write``: written) within so many seconds; after them the kernel is asked once more.

    A process that had no processor meanwhile finds its time over and the answer there, both at once. wait_for() around
    sock_recv() or sock_connect() then takes the time for the truth, and loses what had come.
    """
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not seen.done():
            seen.set_result(None)

    (loop.add_writer if to_write else loop.add_reader)(opened, note)
    try:
        await asyncio.wait({seen}, timeout=max(0.0, seconds))
    finally:
        if opened.fileno() >= 0:  # else it was closed meanwhile, and its number may be another's
            (loop.remove_writer if to_write else loop.remove_reader)(opened)
    return seen.done() or _now(opened, select.POLLOUT if to_write else select.POLLIN)


async def connected(opened: socket.socket, address: str, port: int, seconds: float) -> bool:
    """Connect a socket that does not block to an address in numbers; False where nothing came back in time.

    Raises OSError.
    """
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    where = socket.getaddrinfo(address, port, opened.family, opened.type, flags=flags)[0][4]
    try:
        opened.connect(where)
    except BlockingIOError:
        if not await ready(opened, seconds, to_write=True):
            return False
        if error := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "connect") from None
    return True


async def received(opened: socket.socket, most: int, seconds: float) -> bytes:
    """What there is to be read, up to ``most`` bytes; nothing where the other side ended.

    Raises asyncio.TimeoutError, and OSError.
    """
    if not await ready(opened, seconds):
        raise asyncio.TimeoutError
    try:
        return opened.recv(most)
    except BlockingIOError:  # what was there was damaged, and is gone (select(2))
        return await received(opened, most, seconds)


def _now(opened: socket.socket, event: int) -> bool:
    poll = select.poll()
    poll.register(opened, event)
    return bool(poll.poll(0))

"""A process that had no processor for a while takes what came meanwhile for what it is, and not for silence."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from distdoctor.mesh.link import read
from distdoctor.probes.network.tcp import connect, ready, received


def late(seconds: float) -> None:
    """This process does nothing for so long, as one that gets no processor."""
    asyncio.get_running_loop().call_soon(time.sleep, seconds)


def test_an_answer_that_came_in_time_is_read_by_a_process_that_was_late() -> None:
    async def ask() -> bytes:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            threading.Timer(0.05, theirs.sendall, [b"here"]).start()
            late(0.4)
            return await read(ours, 4, 0.2)

    assert asyncio.run(ask()) == b"here"


def test_a_connection_that_was_made_in_time_is_open_though_this_process_was_late() -> None:
    """The first SYN is dropped for want of room in the queue; the second one, after a second, is let in."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        held = [socket.create_connection(("127.0.0.1", port))]

        def make_room() -> None:
            held.append(listener.accept()[0])

        threading.Timer(0.3, make_room).start()

        async def ask() -> str:
            asyncio.get_running_loop().call_later(0.1, time.sleep, 1.6)
            return (await connect("127.0.0.1", port, 1.5)).outcome

        assert asyncio.run(ask()) == "open"
        for opened in held:
            opened.close()


def test_silence_is_silence_and_an_end_is_no_silence() -> None:
    async def ask() -> None:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            assert not await ready(ours, 0.1)
            with pytest.raises(asyncio.TimeoutError):
                await received(ours, 1, 0.05)
            assert await ready(ours, 0.1, to_write=True)
            theirs.close()
            assert await received(ours, 1, 0.1) == b""

    asyncio.run(ask())

"""Attempts to reach the servers of an engine, on real ports."""

from __future__ import annotations

import asyncio
import os
import socket

from distdoctor.probes.network.ports import reached


def test_a_listener_a_closed_port_and_a_name_without_an_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = asyncio.run(reached("localhost", port))
        assert (found.contact and found.contact.outcome, found.holders) == ("open", ())
        assert server.accept()[0].recv(1) == b""  # nothing is sent
    closed = asyncio.run(reached("127.0.0.1", port))
    assert (closed.contact and closed.contact.outcome, closed.resolution, closed.holders) == ("refused", None, ())
    nowhere = asyncio.run(reached("no-such-host.invalid", port))
    assert nowhere.contact is None and nowhere.resolution is not None and not nowhere.resolution.addresses


def test_the_listener_on_this_port_of_another_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = asyncio.run(reached("127.0.0.2", server.getsockname()[1]))
    assert found.contact is not None and found.contact.outcome == "refused"
    assert [(one.address, one.pid) for one in found.holders] == [("127.0.0.1", os.getpid())]

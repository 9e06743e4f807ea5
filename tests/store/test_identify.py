"""Tests of what answers on an open port, told by handshakes that leave a live store unharmed."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from distdoctor.model.facts import Answer
from distdoctor.store.identify import identify
from tests.helpers.servers import RealStore, full_backlog, serving, unused_port


def answer(port: int) -> Answer | None:
    return asyncio.run(identify("127.0.0.1", port))


def test_a_store_is_known_and_goes_on_serving(store: RealStore) -> None:
    store.set("before", "1")
    for _ in range(20):
        assert answer(store.port) == Answer("tcpstore", "2.5+")
    assert store.get("before") == "1"
    store.set("after", "2")
    assert store.get("after") == "2"


@pytest.mark.parametrize("nonce", [b"abcd", b"\nbcd", b"abc\n"])
def test_a_web_server(nonce: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: nonce[:count])

    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        found = answer(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
    assert found is not None and found.kind == "foreign"
    assert found.sample.startswith(("HTTP/1.", "<!DOCTYPE"))


def test_a_banner_is_quoted() -> None:
    def greet(opened: socket.socket) -> None:
        opened.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        opened.recv(100)

    with serving(greet) as port:
        found = answer(port)
    assert found is not None and (found.kind, found.sample[:4]) == ("foreign", "SSH-")


def test_a_sample_holds_only_what_can_be_printed() -> None:
    def shout(opened: socket.socket) -> None:
        opened.sendall(b"\x1b[2J\x00\xff")
        opened.recv(100)

    with serving(shout) as port:
        found = answer(port)
    assert found is not None and found.kind == "foreign"
    assert found.sample.isascii() and found.sample.isprintable()


def test_the_bytes_of_what_cannot_be_printed_are_told() -> None:
    def settings(opened: socket.socket) -> None:  # gRPC's first frame
        opened.sendall(b"\0\0\x12\4\0\0\0\0\0" + bytes(18))
        opened.recv(100)

    with serving(settings) as port:
        found = answer(port)
    assert found is not None and (found.kind, found.sample) == ("foreign", "00 00 12 04")


def test_one_that_never_speaks_is_silent() -> None:
    def hold(opened: socket.socket) -> None:
        while opened.recv(4096):
            pass

    with serving(hold) as port:
        assert answer(port) == Answer("silent")


def test_one_that_hangs_up_at_once_is_closed() -> None:
    with serving(lambda opened: None) as port:
        assert answer(port) == Answer("closed")


def test_one_that_resets_is_closed() -> None:
    def reset(opened: socket.socket) -> None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with serving(reset) as port:
        assert answer(port) == Answer("closed")


@pytest.mark.parametrize("reply", [b"\0" * 4, b"\xff" * 4, b"\x0d"])
def test_one_that_answers_something_else_than_the_nonce_is_no_store(reply: bytes) -> None:
    def lie(opened: socket.socket) -> None:
        opened.recv(100)
        opened.sendall(reply)

    with serving(lie) as port:
        found = answer(port)
    assert found is not None and found.kind == "foreign"


def test_an_echo_server_is_no_store() -> None:
    """It sends back the nonce, too, but not as the first bytes."""

    def echo(opened: socket.socket) -> None:
        while data := opened.recv(4096):
            opened.sendall(data)

    with serving(echo) as port:
        found = answer(port)
    assert found is not None and found.kind == "foreign"


@pytest.mark.parametrize(
    ("generation", "closes_on", "request_", "reply"),
    [("2.2-2.4", b"\x0d", b"\x0c" * 4, b"\x01" * 4), ("<=2.1", b"\x00", b"\x06", struct.pack("=q", 3))],
)
def test_stores_of_older_generations(generation: str, closes_on: bytes, request_: bytes, reply: bytes) -> None:
    """As their sources say: an operation they do not know makes them drop the connection."""
    validate = struct.pack("=BI", 0, 0x3C85F7CE)

    def old(opened: socket.socket) -> None:
        data = opened.recv(100)
        if generation == "2.2-2.4":
            if not data.startswith(validate) or data[5:6] == closes_on:
                return
            data = data[5:]
        if data == request_:
            opened.sendall(reply)
            opened.recv(1)

    with serving(old) as port:
        assert answer(port) == Answer("tcpstore", generation)


def test_nobody_there() -> None:
    assert answer(unused_port()) is None


def test_silence_instead_of_a_connection_ends_with_the_deadline() -> None:
    with full_backlog() as port:
        assert asyncio.run(identify("127.0.0.1", port, 0.3)) is None

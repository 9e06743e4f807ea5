"""The mesh's listener under hostile input: it answers its friends all the same, and its memory does not grow."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from distdoctor.mesh.listener import (
    ASK,
    END,
    HELLO,
    MAGIC,
    MAX_OPEN,
    MAX_PAYLOAD,
    TOKEN_BYTES,
    LinkTarget,
    packed,
    unpacked,
)
from distdoctor.mesh.measurement import Measurement
from distdoctor.model.facts import MeshFacts
from tests.helpers.namespaces import ROOT

TOKEN = secrets.token_hex(TOKEN_BYTES)
RIGHT = MAGIC + bytes.fromhex(TOKEN)
WRONG = MAGIC + bytes(TOKEN_BYTES)
FLOOD = 2000
_LISTENER = """
import asyncio, sys
from distdoctor.mesh.listener import Listener
async def main():
    print(await Listener(sys.argv[1], 7).start(), flush=True)
    await asyncio.sleep(120)
asyncio.run(main())
"""


@dataclass
class Running:
    """A listener in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    @property
    def memory(self) -> int:
        """Its resident memory, in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def sockets(self) -> int:
        """Return how many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, data: bytes = b"") -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port), 5)
        opened.sendall(data)
        return opened

    def climb(self) -> MeshFacts:
        """Return what another node sees of it."""
        targets = [
            LinkTarget(1, "me 1 n", "127.0.0.1", 1, ()),
            LinkTarget(7, "it 2 m", "127.0.0.1", self.port, ("gloo",)),
        ]
        return asyncio.run(Measurement(TOKEN, 1, targets, 1).run(measure=False))


@pytest.fixture
def listener() -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-c", _LISTENER, TOKEN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    yield Running(process, int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    assert process.communicate()[1] == "", "it complained"


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def rest(opened: socket.socket, seconds: float = 10.0) -> bytes:
    """All that comes until the other side ends."""
    opened.settimeout(seconds)
    received = b""
    try:
        while part := opened.recv(1 << 16):
            received += part
    except ConnectionResetError:
        pass
    return received


def test_a_friend_is_told_who_answers(listener: Running) -> None:
    with listener.connect(RIGHT) as opened:
        member, clock, seen = HELLO.unpack(opened.recv(HELLO.size, socket.MSG_WAITALL))
        assert member == 7 and abs(clock - time.time()) < 5
        assert unpacked(seen) == opened.getsockname()[0], "the address at which the caller is seen"
        opened.sendall(ASK.pack(b"P", 0))
        assert opened.recv(1) == b"P"


@pytest.mark.parametrize(
    "data",
    [
        WRONG,
        RIGHT[:-1] + bytes([RIGHT[-1] ^ 1]),
        b"distdoctor mesh 1\n" + RIGHT[len(MAGIC) :],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(100),
        random.Random(1).randbytes(1 << 20),
        b"\xff" * 4096,
    ],
    ids=["wrong token", "almost the token", "another version", "http", "garbage", "all ones"],
)
def test_a_stranger_is_told_nothing(listener: Running, data: bytes) -> None:
    try:
        with listener.connect(data) as opened:
            assert rest(opened) == b""
    except (ConnectionResetError, BrokenPipeError):
        pass
    assert listener.climb().good == 1


def test_half_a_handshake_is_dropped_in_time(listener: Running) -> None:
    started = time.monotonic()
    halves = [listener.connect(RIGHT[:sent]) for sent in (0, 1, len(MAGIC), len(RIGHT) - 1)]
    for opened in halves:
        with opened:
            assert rest(opened, 20) == b""
            assert 1 < time.monotonic() - started < 15


@pytest.mark.parametrize("kind", [b"U", b"X", b"\0"])
def test_huge_lengths_and_unknown_requests_end_the_connection(listener: Running, kind: bytes) -> None:
    before = listener.memory
    for length in (MAX_PAYLOAD + 1, (1 << 32) - 1):
        with listener.connect(RIGHT + ASK.pack(kind, length)) as opened:
            assert len(rest(opened)) == HELLO.size
    assert listener.memory - before < 8 << 20


def test_payloads_of_every_size_up_to_the_largest_are_answered(listener: Running) -> None:
    with listener.connect(RIGHT) as opened:
        opened.recv(HELLO.size, socket.MSG_WAITALL)
        for size in (0, 1, 1500, MAX_PAYLOAD):
            opened.sendall(ASK.pack(b"U", size) + bytes(size))
            assert opened.recv(1) == b"U"


@pytest.mark.parametrize("end", [END, b""], ids=["by a byte", "by FIN"])
def test_what_a_friend_sends_without_end_is_counted_and_not_kept(listener: Running, end: bytes) -> None:
    before = listener.memory
    with listener.connect(RIGHT) as opened:
        opened.recv(HELLO.size, socket.MSG_WAITALL)
        opened.sendall(ASK.pack(b"S", 0))
        for _ in range(256):
            opened.sendall(bytes(1 << 20))
        assert listener.memory - before < 16 << 20
        opened.sendall(end)
        if not end:
            opened.shutdown(socket.SHUT_WR)
        assert int.from_bytes(opened.recv(8, socket.MSG_WAITALL), sys.byteorder) == (256 << 20) + len(end)


def test_a_flood_changes_neither_the_verdict_nor_the_memory(listener: Running, many_files: None) -> None:
    """2000 connections that say little or nothing are held open while a node is being looked at, again and again."""
    before, held = listener.memory, []
    try:
        for number in range(FLOOD):
            opened = socket.socket()
            opened.setblocking(False)
            opened.connect_ex(("127.0.0.1", listener.port))
            held.append(opened)
            if number % 500 == 250:
                seen = listener.climb()
                assert (seen.good, seen.bad) == (1, ()), f"after {number} connections"
        for opened in held[::3]:
            try:
                opened.send(RIGHT[:-1])
            except OSError:
                pass
        seen = listener.climb()
        assert (seen.good, seen.bad) == (1, ())
        assert listener.sockets < MAX_OPEN + 100, "strangers are not held without bound"
        grown = listener.memory - before
        assert grown < 48 << 20, f"{grown >> 20} MiB more"
    finally:
        for opened in held:
            opened.close()
    assert listener.climb().good == 1


def test_a_burst_at_once_does_not_drop_the_friend_among_them(listener: Running, many_files: None) -> None:
    """The listener is stopped meanwhile, so that all of them, the friend in front, are accepted in one go."""
    os.kill(listener.process.pid, signal.SIGSTOP)
    held = []
    try:
        friend = listener.connect(RIGHT)
        for _ in range(MAX_OPEN + 300):
            opened = socket.socket()
            opened.setblocking(False)
            opened.connect_ex(("127.0.0.1", listener.port))
            held.append(opened)
        os.kill(listener.process.pid, signal.SIGCONT)
        friend.settimeout(10)
        assert len(friend.recv(HELLO.size, socket.MSG_WAITALL)) == HELLO.size
        deadline = time.monotonic() + 10
        while (count := listener.sockets) > MAX_OPEN + 50:
            assert time.monotonic() < deadline, f"{count} open"
            time.sleep(0.02)
        friend.close()
    finally:
        os.kill(listener.process.pid, signal.SIGCONT)
        for opened in held:
            opened.close()


@pytest.mark.parametrize("address", ["10.77.0.10", "fd77::a", "::1", "127.0.0.1"])
def test_an_address_is_packed_and_unpacked(address: str) -> None:
    assert unpacked(packed(address)) == address and len(packed(address)) == 16
    assert packed("fe80::1%eth0") == packed("fe80::1") and packed("::ffff:10.0.0.1") == packed("10.0.0.1")

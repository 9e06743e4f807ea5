"""Stores that are none, or that lie: they cost no time beyond the limit, no memory, and run nothing."""

from __future__ import annotations

import base64
import os
import pickle
import random
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from distdoctor.hang.store.view import read_view, read_views
from distdoctor.model.facts import StoreView
from tests.helpers.servers import serving

LIMIT = 0.8
"""Seconds that each look is given."""
RAN: list[str] = []


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return RAN.append, ("it ran",)


def number(value: int) -> bytes:
    return struct.pack("=Q", value)


def text(value: bytes) -> bytes:
    return number(len(value)) + value


class Speaker:
    """A server that takes a torch 2.10's requests one by one, and answers with what it is made of."""

    def __init__(self, values: dict[bytes, bytes], raw: dict[int, bytes] | None = None) -> None:
        """``raw``: the bytes that answer an operation, whatever was asked."""
        self.values, self.raw = values, raw or {}

    def __call__(self, opened: socket.socket) -> None:
        read = opened.makefile("rb")
        while kind := read.read(1):
            (operation,) = kind
            asked = self._asked(read, operation)
            opened.sendall(self.raw[operation] if operation in self.raw else self._answer(operation, asked))

    def _asked(self, read: object, operation: int) -> bytes:
        def take(size: int) -> bytes:
            return read.read(size)  # type: ignore[attr-defined, no-any-return]

        if operation in (0, 13):
            return take(4)
        if operation == 5:
            take(8)
        if operation in (3, 5):
            return take(struct.unpack("=Q", take(8))[0])
        assert operation in (7, 17), "no other operation may be asked for"
        return b""

    def _answer(self, operation: int, asked: bytes) -> bytes:
        if operation == 0:
            return b""
        if operation == 13:
            return asked
        if operation == 5:
            return b"\0" if asked in self.values else b"\1"
        if operation == 3:
            return text(self.values[asked])
        if operation == 7:
            return number(len(self.values))
        return number(len(self.values)) + b"".join(map(text, self.values))


def flood(opened: socket.socket) -> None:
    while True:
        opened.sendall(os.urandom(1 << 16))


def dribble(opened: socket.socket) -> None:
    opened.recv(100)
    while True:
        opened.sendall(b"\0")
        time.sleep(0.3)


def dribble_answers(opened: socket.socket) -> None:
    """A PING is echoed, and then the answer comes a byte at a time."""
    message = opened.recv(10)
    if len(message) == 10:
        opened.sendall(message[6:])
    dribble(opened)


def noise(opened: socket.socket) -> None:
    opened.recv(100)
    opened.sendall(random.Random(7).randbytes(4096))
    opened.recv(100)


def half(opened: socket.socket) -> None:
    message = opened.recv(100)
    opened.sendall(message[6:8])
    opened.recv(100)


def silent(opened: socket.socket) -> None:
    while opened.recv(100):
        pass


def endless_list(opened: socket.socket) -> None:
    message = opened.recv(100)
    if len(message) == 10:
        opened.sendall(message[6:10])
        return
    opened.sendall(number(299_999))
    while True:
        opened.sendall(text(b"/default_pg/0//cpu//0/1") * 4000)


STATE = b"/torch.rendezvous.job7"
RANK = b"/default_pg/0//cpu//0/%d"


def blob(host: bytes = b"node7", world: int = 4, size: int = 136) -> bytes:
    where = struct.pack("=H", 2) + struct.pack("!H", 4000) + bytes([10, 0, 0, 7]) + bytes(120)
    return text(host) + number(size) + where + bytes(8) + bytes(8 * world)


STORES: dict[str, Callable[[socket.socket], None]] = {
    "endless noise": flood,
    "a byte at a time": dribble,
    "the answers a byte at a time": dribble_answers,
    "noise": noise,
    "half an echo": half,
    "silence": silent,
    "hangs up": lambda opened: None,
    "more keys than there can be": Speaker({}, {17: number(1 << 63)}),
    "endless keys": endless_list,
    "a key of four gigabytes": Speaker({}, {17: number(1) + number(1 << 32)}),
    "a value of four gigabytes": Speaker({RANK % 1: b""}, {3: number(1 << 32) + b"x"}),
    "a negative count": Speaker({}, {7: b"\xff" * 8}),
    "a check that says something else": Speaker({b"init/": b"4"}, {5: b"\x07"}),
    "a counter that is none": Speaker({b"init/": b"-4e9"}),
    "a huge counter": Speaker({b"init/": b"9" * 4000}),
    "a pickle that runs": Speaker({STATE: base64.b64encode(pickle.dumps(Runs()))}),
    "a state that is none": Speaker({STATE: b"\xff" * 1000}),
    "a rank of a huge number": Speaker({RANK % 99999999: blob()}),
    "an address that is none": Speaker({RANK % 1: blob(size=135), RANK % 2: b"", RANK % 3: b"\xff" * 500}),
    "json that is deep": Speaker({b"/none/torchelastic/role_info/0": b"[" * 4000}),
    "many odd keys": Speaker({b"/" * 300 + b"%d" % place: b"" for place in range(20_000)}),
}


@contextmanager
def measured() -> Iterator[None]:
    """Bound the memory; who never ends meets the time limit of a test."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6
    assert not RAN


@pytest.mark.parametrize("handle", STORES.values(), ids=STORES)
def test_it_costs_nothing_and_accuses_nobody(handle: Callable[[socket.socket], None]) -> None:
    with serving(handle) as port, measured():
        first, *further = read_views("127.0.0.1", port, timeout=LIMIT, run_id="job7")
    assert not further and not first.missing
    assert all(problem.isprintable() for problem in first.problems)


def half_a_list(opened: socket.socket) -> None:
    opened.sendall(opened.recv(100)[6:10])
    opened.recv(100)
    opened.sendall(number(100) + text(RANK % 1) * 3)
    opened.recv(100)


def test_what_is_cut_short_is_not_taken_for_the_whole() -> None:
    with serving(half_a_list) as port:
        seen = read_view("127.0.0.1", port, timeout=LIMIT)
    assert seen.state == "partly" and seen.problems and not seen.tells_missing


def seen_of(values: dict[bytes, bytes]) -> StoreView:
    with serving(Speaker(values)) as port:
        return read_view("127.0.0.1", port, timeout=5)


def test_names_are_cleaned() -> None:
    seen = seen_of({RANK % 1: blob(b"\x1b]0;no\x07\xe2\x80\xaede"), b"/debug_server/rank0": b"http://\x1b[2J:1"})
    (member,) = seen.groups[0].members
    assert member.host == "\\x1b]0;no\\x07\\u202ede"
    assert seen.debug_servers == {0: "http://\\x1b[2J:1"}


def test_members_that_count_differently_are_told_apart() -> None:
    seen = seen_of({RANK % 0: blob(b"a", 4), RANK % 1: blob(b"a", 4), RANK % 2: blob(b"b", 2)})
    assert seen.groups[0].worlds == {4: (0, 1), 2: (2,)}


@pytest.mark.parametrize("master", [b"192.0.2.9", b"evil.example.org", b"10.0.0.1"])
def test_no_store_elsewhere_is_asked_because_this_one_says_so(master: bytes) -> None:
    prefix = STATE + b".0/MASTER_"
    with serving(Speaker({STATE: b"Y2FuaW1hZGFt", prefix + b"ADDR": master, prefix + b"PORT": b"22"})) as port:
        first, further = read_views("127.0.0.1", port, timeout=5, run_id="job7")
    assert first.rendezvous[0].master == f"{master.decode()}:22"
    assert further.state == "unreached" and further.contact is None and "not asked" in further.problems[0]


def test_one_connection_has_to_do() -> None:
    """Each makes a real store look up a name, and all its ranks wait meanwhile."""
    came = []
    store = Speaker({RANK % 0: blob(), RANK % 1: blob(), b"init/": b"2", STATE: b"Y2FuaW1hZGFt"})

    def handle(opened: socket.socket) -> None:
        came.append(opened.getpeername())
        store(opened)

    with serving(handle) as port:
        seen = read_view("127.0.0.1", port, timeout=5)
    assert seen.state == "read" and seen.joined == (0, 1) and len(came) == 1


def test_a_port_that_gives_no_answer_is_told_as_that() -> None:
    """As one behind a cable that was pulled out: the backlog is full, and further requests are dropped."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(address)
        found = read_view(*address, timeout=LIMIT)
        for one in filling:
            one.close()
    assert found.contact is not None and found.contact.outcome == "no-answer"

"""The store client in plain sockets, against torch's own TCPStore with both of its servers."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from distdoctor.probes.network.tcp import TcpInfo
from distdoctor.ranks.supervisor import Child
from distdoctor.store import client
from distdoctor.store.client import MAX_VALUE, StoreClient, StoreError, StoreGone, StoreSilent
from tests.helpers.namespaces import lines_of
from tests.helpers.running import Running
from tests.helpers.servers import RealStore, serving, unused_port

T = TypeVar("T")


def using(port: int, work: Callable[[StoreClient], Awaitable[T]], seconds: float = 10.0) -> T:
    """Return what ``work`` returns with a client of the store on ``port``."""

    async def main() -> T:
        client = await StoreClient.connect("127.0.0.1", port, seconds)
        try:
            return await work(client)
        finally:
            client.close()

    return asyncio.run(main())


def test_torch_reads_what_it_writes_and_it_reads_what_torch_writes(store: RealStore) -> None:
    store.set("from/torch", "hello")

    async def work(client: StoreClient) -> bytes | None:
        await client.set("from/doctor", b"good day")
        assert await client.has("from/doctor")
        return await client.get("from/torch")

    assert using(store.port, work) == b"hello"
    assert store.get("from/doctor") == "good day"


def test_add_counts_from_nothing_and_torch_sees_the_sum(store: RealStore) -> None:
    async def work(client: StoreClient) -> list[int]:
        return [await client.add("count", amount) for amount in (1, 5, -2)]

    assert using(store.port, work) == [1, 6, 4]
    assert store.get("count") == "4"


def test_a_missing_key_is_none_and_the_connection_survives_it(store: RealStore) -> None:
    async def work(client: StoreClient) -> tuple[object, ...]:
        missing = await client.get("nowhere")
        await client.set("here", b"")
        return missing, await client.get("here"), await client.has("here"), await client.has("here", "nowhere")

    assert using(store.port, work) == (None, b"", True, False)


@pytest.mark.parametrize("size", [0, 1, 999, 1001, 70_000, MAX_VALUE])
def test_values_of_every_size_come_back_whole(store: RealStore, size: int) -> None:
    value = random.Random(size).randbytes(size)

    async def work(client: StoreClient) -> bytes | None:
        await client.set(f"size/{size}", value)
        return await client.get(f"size/{size}")

    assert using(store.port, work, 30.0) == value


def test_a_value_that_breaks_the_connection_is_not_sent(store: RealStore) -> None:
    async def work(client: StoreClient) -> bool:
        with pytest.raises(StoreError, match="more than a store takes"):
            await client.set("huge", bytes(MAX_VALUE + 1))
        return await client.has("huge")

    assert using(store.port, work) is False


def test_requests_of_many_tasks_do_not_mix(store: RealStore) -> None:
    async def work(client: StoreClient) -> None:
        async def one(number: int) -> None:
            for turn in range(20):
                await client.set(f"mix/{number}", f"{number} {turn}".encode())
                assert await client.get(f"mix/{number}") == f"{number} {turn}".encode()

        await asyncio.gather(*(one(number) for number in range(10)))

    using(store.port, work)


def test_a_request_given_up_half_way_does_not_spoil_the_next(
    store: RealStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A reply that is still on its way must not be taken for that of the request after it: Ctrl-C cancels anywhere."""

    async def work(client: StoreClient) -> None:
        await client.set("given/up", b"a value of some length")
        for turn in range(150):
            task = asyncio.create_task(client.get("given/up"))
            for _ in range(turn % 12):
                await asyncio.sleep(0)
            task.cancel()
            assert await client.add(f"after/{turn}", 7) == 7
            assert await client.get("given/up") == b"a value of some length"

    with caplog.at_level(logging.WARNING):
        using(store.port, work)
    assert caplog.records == []


def hosted(shared: Running) -> tuple[Child, int]:
    """A store in a process that may be killed, and its port."""
    host = shared.child()
    return host, shared.do(host.call("store_host", port=0, timeout=10.0))["port"]


def test_a_store_that_ends_is_noticed_by_who_waits_for_it(shared: Running) -> None:
    host, port = hosted(shared)

    async def work(client: StoreClient) -> bool:
        await client.set("a", b"b")
        assert not await client.closed(0.2)
        threading.Timer(0.3, host.kill).start()
        return await client.closed(20.0)

    assert using(port, work)
    host.close()


def test_a_store_killed_between_two_requests_is_gone(shared: Running) -> None:
    host, port = hosted(shared)

    async def work(client: StoreClient) -> None:
        await client.set("a", b"b")
        assert await client.has("a")
        host.kill()
        with pytest.raises(StoreGone):
            for _ in range(100):
                await client.get("a")
                await asyncio.sleep(0.05)

    using(port, work)
    host.close()


def test_nobody_there() -> None:
    async def work(client: StoreClient) -> None:
        raise AssertionError("connected")

    with pytest.raises(StoreError, match="refused"):
        using(unused_port(), work)


def hold(opened: socket.socket) -> None:
    """Accept and do nothing until the other side leaves."""
    while opened.recv(1 << 16):
        pass


def test_a_store_that_stops_answering_is_given_up_after_the_deadline() -> None:
    async def work(client: StoreClient) -> float:
        started = time.monotonic()
        with pytest.raises(StoreSilent, match=r"did not answer for 0\.4 s"):
            await client.has("a")
        return time.monotonic() - started

    with serving(hold) as port:
        assert 0.3 < using(port, work, 0.4) < 5


def test_one_of_which_it_is_not_known_whether_it_was_asked_is_only_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent is not acknowledged, as where the network is cut."""
    monkeypatch.setattr(client, "tcp_info", lambda _: TcpInfo(acknowledged=1, in_flight=1))

    async def work(one: StoreClient) -> None:
        with pytest.raises(StoreGone, match=r"did not answer for 0\.4 s") as raised:
            await one.has("a")
        assert not isinstance(raised.value, StoreSilent)

    with serving(hold) as port:
        using(port, work, 0.4)


def test_a_store_that_takes_nothing_is_given_up_after_the_deadline() -> None:
    """The kernel's buffers fill up, then sending waits."""

    def take_nothing(opened: socket.socket) -> None:
        time.sleep(3)

    async def work(client: StoreClient) -> float:
        started = time.monotonic()
        with pytest.raises(StoreGone, match=r"took nothing for 0\.4 s"):
            for _ in range(8):
                await client.set("a", bytes(MAX_VALUE))
        return time.monotonic() - started

    with serving(take_nothing) as port:
        assert 0.3 < using(port, work, 0.4) < 10


def test_a_length_beyond_all_values_is_refused_before_anything_is_read() -> None:
    def lie(opened: socket.socket) -> None:
        opened.recv(1 << 16)
        opened.sendall(b"\0")
        opened.recv(1 << 16)
        opened.sendall(b"\xff" * 7 + b"\x0f")
        hold(opened)

    async def work(client: StoreClient) -> None:
        with pytest.raises(StoreError, match="has 1152921504606846975 bytes"):
            await client.get("a")

    with serving(lie) as port:
        using(port, work)


_LOSSY = """
import asyncio, subprocess, sys
from torch.distributed import TCPStore
from distdoctor.store.client import StoreClient
rule = "meta length < 200 tcp flags & (syn | fin | psh) == psh numgen inc mod 7 == 3 drop"
table = f"table ip f {{ chain i {{ type filter hook input priority 0; {rule}; }}; }}"
subprocess.run("ip link set lo up", shell=True, check=True)
store = TCPStore("127.0.0.1", 4000, is_master=True, wait_for_workers=False, use_libuv=LIBUV)
subprocess.run(f"nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
beside = []
ask = StoreClient._ask_extra
StoreClient._ask_extra = lambda self: (beside.append(1), ask(self))
async def main():
    client = await StoreClient.connect("127.0.0.1", 4000)
    told = []
    for number in range(20):
        await client.set(f"key{number}", b"v" * number)
        told.append((await client.get(f"key{number}"), await client.has("none"), await client.add("sum", 1)))
    print(told == [(b"v" * number, False, number + 1) for number in range(20)], bool(beside))
    print(await client.closed(0.3))
    client.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("libuv", [True, False])
def test_answers_do_not_mix_where_packets_get_lost(libuv: bool) -> None:
    """What is asked beside a request, so that its answer comes sooner, has an answer, too."""
    assert lines_of(f"LIBUV = {libuv}\n{_LOSSY}", "--net", tools=("ip", "nft")) == ["True True", "False"]


_UNANSWERED = """
import asyncio, subprocess
from distdoctor.store.client import StoreClient, StoreError
subprocess.run("ip link set lo up", shell=True, check=True)
table = "table ip f { chain i { type filter hook input priority 0; tcp dport 4000 drop; }; }"
subprocess.run(f"nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
async def main():
    for port in (4000, 4001):
        try:
            await StoreClient.connect("127.0.0.1", port, 0.5)
        except StoreError as err:
            print(type(err).__name__)
asyncio.run(main())
"""


def test_a_host_that_does_not_answer_is_told_from_a_port_that_is_shut() -> None:
    assert lines_of(_UNANSWERED, "--net", tools=("ip", "nft")) == ["StoreUnanswered", "StoreError"]

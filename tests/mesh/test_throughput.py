"""Throughput of the links: between which it is measured, and when."""

from __future__ import annotations

import asyncio
import socket
import time
from functools import partial

from distdoctor.mesh.listener import Listener
from distdoctor.mesh.measurement import Measurement
from tests.mesh.links import TOKEN, pass_on, target


def test_throughput_does_not_wait_for_a_silent_link_and_one_that_answers_late_gets_its_turn() -> None:
    """The third SYN of the late one, 3 s after the first, finds room in the queue."""

    async def climb() -> None:
        listeners = {number: Listener(TOKEN, number) for number in (2, 3)}
        ports = {number: await listener.start() for number, listener in listeners.items()}
        arrived: dict[int, list[float]] = {2: [], 3: []}

        async def forward(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived[number].append(time.monotonic())
            there, to = await asyncio.open_connection("127.0.0.1", ports[number])
            back = asyncio.ensure_future(pass_on(there, writer, 1 << 40))
            await pass_on(reader, to, 1 << 40)
            to.write_eof()
            await back

        quick = await asyncio.start_server(partial(forward, 2), "127.0.0.1", 0)
        late = socket.socket()
        late.bind(("127.0.0.1", 0))
        late.listen(0)
        fillers = [socket.socket() for _ in range(2)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(late.getsockname())
        targets = [
            target(1, 1, key="host1 1 net:[1]"),
            target(2, quick.sockets[0].getsockname()[1], key="host2 2 net:[2]"),
            target(3, late.getsockname()[1], key="host3 3 net:[3]"),
        ]
        measuring = asyncio.ensure_future(Measurement(TOKEN, 1, targets, lead=1).run())
        await asyncio.sleep(2.2)
        for one in fillers:
            one.close()
        slow = await asyncio.start_server(partial(forward, 3), sock=late, backlog=16)
        facts = await measuring
        for server in (quick, slow):
            server.close()
        for listener in listeners.values():
            listener.close()
        assert (facts.good, facts.bad) == (2, ())
        assert len(facts.rates) == 2 and all(rate.bytes_per_second for rate in facts.rates)
        assert len(arrived[2]) == 2, "it is tried, and measured"
        assert arrived[2][1] < arrived[3][-2], "the measure waited for the silent link"

    asyncio.run(climb())


def test_throughput_is_measured_between_hosts_and_not_within_one() -> None:
    async def climb(key: str) -> int:
        listeners = {number: Listener(TOKEN, number) for number in (1, 2)}
        ports = {number: await listener.start() for number, listener in listeners.items()}
        targets = [target(1, ports[1], key="host1 1 net:[1]"), target(2, ports[2], key=key)]
        facts = await Measurement(TOKEN, 1, targets, lead=1).run()
        for listener in listeners.values():
            listener.close()
        assert (facts.good, facts.bad) == (1, ())
        measured = [rate for rate in facts.rates if rate.bytes_per_second is not None]
        if measured:
            assert facts.rate_median is not None and facts.rate_median > 1e6
            assert measured[0].to == key and measured[0].segments > 0
        return len(measured)

    assert asyncio.run(climb("host2 1 net:[2]")) == 1
    assert asyncio.run(climb("host1 2 net:[1]")) == 0

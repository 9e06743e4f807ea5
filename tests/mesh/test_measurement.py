"""One node's climb of the mesh against real listeners."""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
import time

import pytest

from distdoctor.mesh import link as mesh_link
from distdoctor.mesh import measurement
from distdoctor.mesh.listener import ASK, HELLO, REQUEST, TOKEN_BYTES, Listener
from distdoctor.mesh.measurement import Measurement
from distdoctor.model.facts import SAMPLED_PORTS, LinkRate
from tests.helpers.namespaces import lines_of
from tests.mesh.links import TOKEN, pass_on, target


def test_good_links_are_counted_and_bad_ones_are_listed_with_their_reason() -> None:
    async def climb() -> None:
        listeners = {number: Listener(TOKEN, number) for number in (1, 2, 3)}
        ports = {number: await listener.start() for number, listener in listeners.items()}
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed = unused.getsockname()[1]
            targets = [
                target(1, ports[1]),
                target(2, ports[2]),
                target(4, ports[3]),  # another process than the one meant
                target(5, closed),
            ]
            facts = await Measurement(TOKEN, 1, targets, lead=2).run(measure=False)
        for listener in listeners.values():
            listener.close()
        assert facts.good == 1
        assert [(link.to.split()[0], link.outcome) for link in facts.bad] == [
            ("host4", "wrong-node"),
            ("host5", "refused"),
        ]
        assert facts.rtt_median is not None and 0 < facts.rtt_median < 1
        assert facts.clock_offset is not None and abs(facts.clock_offset) < 0.5

    asyncio.run(climb())


WHOLE = """
import asyncio, subprocess
from distdoctor.mesh.link import try_link
from distdoctor.mesh.listener import Listener
from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
table = f"table ip f {{ chain i {{ type filter hook input priority 0; meta length {DROPPED} drop; }}; }}"
subprocess.run(f"ip link set lo mtu 1500 up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
async def main():
    listener, token = Listener("00" * TOKEN_BYTES, 1), "00" * TOKEN_BYTES
    tried = await try_link(LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", await listener.start(), ("gloo",)), token)
    listener.close()
    print(tried.outcome, tried.payload)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("dropped", "told"), [("1490-1510", "stalled 1443"), ("> 1000", "stalled 1000"), ("> 65535", "open None")]
)
def test_a_path_that_swallows_packets_by_their_size_stalls(dropped: str, told: str) -> None:
    """A card that takes no packets of 1500 bytes gets several at once as one from another card of the same machine."""
    assert lines_of(f"DROPPED = {dropped!r}\n{WHOLE}", "--net", tools=("nft",)) == [told]


LOSSY = """
import asyncio, subprocess
from distdoctor.mesh.link import PINGS, try_link
from distdoctor.mesh.listener import Listener
from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
async def main():
    listener, token = Listener("00" * TOKEN_BYTES, 1), "00" * TOKEN_BYTES
    port = await listener.start()
    rule = f"meta length < 100 tcp flags & (syn | fin | psh) == psh {WHICH} {port} numgen inc mod 10 == 3 drop"
    table = f"table ip f {{ chain i {{ type filter hook {HOOK} priority 0; {rule}; }}; }}"
    subprocess.run(f"ip link set lo mtu 1500 up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
    tried = await try_link(LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", port, ("gloo",)), token)
    listener.close()
    rate = tried.rate
    told = 2 < rate.retransmitted < 0.3 * rate.segments and rate.segments > PINGS
    print(tried.outcome, told or (rate.retransmitted, rate.segments))
asyncio.run(main())
"""


@pytest.mark.parametrize(("hook", "which"), [("input", "tcp dport"), ("input", "tcp sport"), ("output", "tcp dport")])
def test_a_link_that_loses_a_packet_in_ten_carries_every_small_message_in_the_time_for_them(
    hook: str, which: str
) -> None:
    """TCP by itself repeats one after 0.2 s (RFC 6298; Linux's TCP_RTO_MIN): five losses would be all of that time.

    Lost are messages, then answers; last those that the own packet filter drops: of these TCP has sent nothing.
    """
    assert lines_of(f"HOOK, WHICH = {hook!r}, {which!r}\n{LOSSY}", "--net", tools=("ip", "nft")) == ["open True"]


SOME = """
import asyncio, subprocess, time
from distdoctor.mesh.listener import Listener
from distdoctor.mesh.measurement import Measurement
from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
rules = {
    "one packet": "tcp flags syn numgen inc mod 1000 < 1 drop",
    "one connection": "tcp flags syn numgen inc mod 1000 < 1 add @of {{ tcp sport }} drop; tcp sport @of drop",
}
chain = f"chain i {{ type filter hook input priority 0; {rules[LOST].format()}; }}"
table = f"table ip f {{ set of {{ type inet_service; size 9; }}; {chain}; }}"
subprocess.run(f"ip link set lo up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
async def main():
    listener, token = Listener("00" * TOKEN_BYTES, 1), "00" * TOKEN_BYTES
    targets = [LinkTarget(0, "host0 1 net:[0]", "127.0.0.1", 9, ("gloo",))]
    targets.append(LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", await listener.start(), ("gloo",)))
    began = time.monotonic()
    facts = await Measurement(token, 0, targets, 0).run(measure=False)
    listener.close()
    print(facts.good, [link.outcome for link in facts.bad])
    print(time.monotonic() - began)
asyncio.run(main())
"""


def measured(lost: str) -> tuple[str, float]:
    """Return what a measurement finds where one packet or one connection is lost, and how long it takes."""
    told, seconds = lines_of(f"LOST = {lost!r}\n{SOME}", "--net", tools=("ip", "nft"))
    return told, float(seconds)


@pytest.mark.parametrize(("lost", "told"), [("one packet", "1 []"), ("one connection", "0 ['no-answer']")])
def test_one_of_several_paths_that_is_dead_is_no_lost_packet(lost: str, told: str) -> None:
    """Where the way of a packet is chosen by its ports, as in a bonded link, another connection may come through."""
    assert measured(lost)[0] == told


@pytest.mark.perf
def test_a_lost_packet_is_not_waited_for_as_a_dead_path_is() -> None:
    assert measured("one packet")[1] < 0.7 * measured("one connection")[1]


DEAD = """
import asyncio, subprocess
from distdoctor.mesh.listener import Listener
from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
from distdoctor.mesh.measurement import CutOff, measure_rate
from distdoctor.model.facts import LinkRate
rule = "ct direction original ct bytes > 300000 drop" if DROPPED else "accept"
table = f"table ip f {{ chain i {{ type filter hook {DROPPED or 'input'} priority 0; {rule}; }}; }}"
subprocess.run(f"ip link set lo up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
async def main():
    listener, token = Listener("00" * TOKEN_BYTES, 1), "00" * TOKEN_BYTES
    target = LinkTarget(1, "host1 1 net:[1]", "127.0.0.1", await listener.start(), ("gloo",))
    try:
        rate = await measure_rate(target, token, LinkRate(target.key, None), 0.3)
        print("open", rate.bytes_per_second > 1e6)
    except CutOff as err:
        print(err.args[1], 10_000 < err.args[0] < 1e6)
    listener.close()
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("dropped", "told"), [("input", "stalled True"), ("output", "stalled True"), ("", "open True")]
)
def test_a_connection_that_carries_nothing_more_is_dead_and_not_slow(dropped: str, told: str) -> None:
    """Also where the own host's filter drops it: TCP has sent none of that."""
    assert lines_of(f"DROPPED = {dropped!r}\n{DEAD}", "--net", tools=("nft",)) == [told]


def test_who_takes_nothing_more_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped: its kernel has acknowledged what there was room for."""
    monkeypatch.setattr(measurement, "TAKING_SECONDS", 0.5)

    async def take_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(REQUEST)
        writer.write(HELLO.pack(2, 0.0, bytes(16)))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(30)

    async def climb() -> None:
        server = await asyncio.start_server(take_nothing, "127.0.0.1", 0)
        there = target(2, server.sockets[0].getsockname()[1])
        rate = await measurement.measure_rate(there, TOKEN, LinkRate(there.key, None), 0.3)
        server.close()
        assert rate.bytes_per_second

    asyncio.run(climb())


def test_a_listener_of_another_run_hangs_up() -> None:
    async def climb() -> None:
        listener = Listener(secrets.token_hex(TOKEN_BYTES), 2)
        port = await listener.start()
        facts = await Measurement(TOKEN, 1, [target(1, 1), target(2, port)], lead=1).run(measure=False)
        listener.close()
        assert [link.outcome for link in facts.bad] == ["reset"]

    asyncio.run(climb())


@pytest.mark.parametrize("most", [8_000, 400_000])
def test_a_connection_that_is_reset_after_some_bytes_worked_at_first(most: int) -> None:
    """Small amounts show it while payloads are tried, larger ones while throughput is."""

    async def climb() -> None:
        listener = Listener(TOKEN, 2)
        port = await listener.start()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, to = await asyncio.open_connection("127.0.0.1", port)
            back = asyncio.ensure_future(pass_on(there, writer, 1 << 40))
            await pass_on(reader, to, most)
            back.cancel()
            to.transport.abort()
            opened: socket.socket = writer.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

        server = await asyncio.start_server(forward, "127.0.0.1", 0)
        targets = [target(1, 1), target(2, server.sockets[0].getsockname()[1])]
        facts = await Measurement(TOKEN, 1, targets, lead=1).run()
        server.close()
        listener.close()
        (link,) = facts.bad
        assert (link.outcome, facts.good) == ("reset", 0)
        assert link.dead_after is not None and link.dead_after > most / 4

    asyncio.run(climb())


def test_a_port_that_refuses_is_let_through() -> None:
    assert asyncio.run(mesh_link.let_through("127.0.0.1")) == SAMPLED_PORTS


def test_other_ports_are_tried_while_the_silent_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they cost each node with a silent link more than a second."""
    begun: list[float] = []

    async def let_through(address: str) -> tuple[int, ...]:
        begun.append(time.monotonic())
        return (2000,)

    monkeypatch.setattr(mesh_link, "let_through", let_through)
    # A queue of accepted connections that is full drops SYNs, as a filter does.
    with socket.socket() as full, socket.socket() as fills, socket.socket() as fills_too:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for one in (fills, fills_too):
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        targets = [target(1, 1), target(2, full.getsockname()[1])]
        began = time.monotonic()
        facts = asyncio.run(Measurement(TOKEN, 1, targets, lead=1).run(measure=False))
    (link,) = facts.bad
    assert (link.outcome, link.passing) == ("no-answer", (2000,))
    (at,) = begun
    assert at - began < link.seconds, "the samples waited for the link's end"


@pytest.mark.parametrize("reads", [0, 1], ids=["before it reads", "after it read"])
def test_one_that_accepts_and_hangs_up_is_one_and_the_same_however_its_end_comes(reads: int) -> None:
    """What is closed with data unread ends in a reset, and else in an end of file: a proxy does either."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads:
            await reader.read(1 << 16)
        writer.transport.abort()

    async def climb() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        targets = [target(1, 1), target(2, server.sockets[0].getsockname()[1])]
        facts = await Measurement(TOKEN, 1, targets, lead=1).run(measure=False)
        server.close()
        assert [link.outcome for link in facts.bad] == ["reset"]

    asyncio.run(climb())


def test_one_that_accepts_and_says_nothing_is_no_answer_and_one_that_swallows_large_payloads_stalls() -> None:
    """The second answers small messages, as a path does that drops full-size packets."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(REQUEST)
        writer.write(HELLO.pack(3, 0.0, bytes(16)))
        try:
            while True:
                kind, length = ASK.unpack(await reader.readexactly(ASK.size))
                await reader.readexactly(length)
                if length <= 1000:
                    writer.write(kind)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def climb() -> None:
        server = await asyncio.start_server(swallow, "127.0.0.1", 0)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            targets = [target(1, 1), target(2, silent.getsockname()[1]), target(3, server.sockets[0].getsockname()[1])]
            facts = await Measurement(TOKEN, 1, targets, lead=1).run(measure=False)
        server.close()
        (stalled,) = [link for link in facts.bad if link.outcome == "stalled"]
        assert stalled.payload == 4000 and stalled.seconds > 2.0, "bytes are bytes, seconds are seconds"
        assert stalled.dead_after is None, "small payloads pass, however many"
        assert [link.to.split()[0] for link in facts.bad if link.outcome == "no-answer"] == ["host2"]

    asyncio.run(climb())

"""Having what got lost on the way sent again at once."""

from __future__ import annotations

import asyncio
import socket

import pytest

from distdoctor.probes.network.tcp import MOST, hasten
from tests.helpers.namespaces import lines_of

_LOSS = """
import asyncio, subprocess, time
from distdoctor.probes.network.tcp import open_socket
from distdoctor.probes.network.tcp import hasten
from distdoctor.probes.network.tcp import received
rule = "meta length < 100 tcp flags & (syn | fin | psh) == psh numgen inc mod 10 == 3 drop"
table = f"table ip f {{ chain i {{ type filter hook input priority 0; {rule}; }}; }}"
async def answer(reader, writer):
    while data := await reader.read(1):
        writer.write(data)
async def trips(hastened):
    _, opened = await open_socket("127.0.0.1", 4000, 3.3)
    began, asked = time.monotonic(), 0
    def ask():
        nonlocal asked
        opened.send(b"x")
        asked += 1
    for _ in range(60):
        ask()
        while asked:
            if hastened:
                await hasten(opened, ask)
            asked -= len(await received(opened, 10, 5.0))
    opened.close()
    return time.monotonic() - began
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 4000)
    for listening in server.sockets:
        listening.setsockopt(6, 1, 1)  # TCP_NODELAY
    subprocess.run(f"ip link set lo up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
    await trips(False)
    alone, hastened = await trips(False), await trips(True)
    server.close()
    print(hastened < 0.6 * alone or (alone, hastened))
asyncio.run(main())
"""


@pytest.mark.perf
def test_losses_cost_less_than_tcp_s_own_patience() -> None:
    assert lines_of(_LOSS, "--net", tools=("ip", "nft")) == ["True"]


def asked_beside(wait: float, question: bytes) -> int:
    """Return how often something was sent beside a question that is answered after ``wait`` seconds."""

    async def main() -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            await asyncio.sleep(wait)
            writer.write(b"a")

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        opened = socket.create_connection(server.sockets[0].getsockname())
        opened.setblocking(False)
        times = 0

        def again() -> None:
            nonlocal times
            times += 1

        with opened:
            opened.send(question)
            await hasten(opened, again)
        server.close()
        return times

    return asyncio.run(main())


def test_a_process_that_is_late_with_its_answer_is_not_asked_again() -> None:
    assert [asked_beside(wait, b"q") for wait in (0.0, 0.4)] == [0, 0]


_SILENT = """
import asyncio, subprocess
from distdoctor.probes.network.tcp import open_socket
from distdoctor.probes.network.tcp import hasten
table = "table ip f { chain i { type filter hook input priority 0; tcp dport 4000 drop; }; }"
async def main(size):
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 4000)
    subprocess.run("ip link set lo up", shell=True, check=True)
    _, opened = await open_socket("127.0.0.1", 4000, 3.3)
    subprocess.run(f"nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
    times = []
    opened.send(bytes(size))
    await hasten(opened, lambda: times.append(1))
    opened.close()
    server.close()
    subprocess.run("nft delete table ip f", shell=True, check=True)
    print(len(times))
for size in (10, 10000):
    asyncio.run(main(size))
"""


def test_one_of_whom_nothing_is_heard_is_asked_a_few_times_and_not_behind_much_that_is_under_way() -> None:
    assert lines_of(_SILENT, "--net", tools=("ip", "nft")) == [str(MOST), "0"]

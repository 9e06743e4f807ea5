"""One connect() and exactly how it ended."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time

import pytest

from distdoctor.model.facts import Contact
from distdoctor.probes.network.tcp import connect, open_socket, parse_extended_error
from tests.helpers.namespaces import lines_of
from tests.helpers.servers import full_backlog, serving, unused_port


def hold_one(opened: socket.socket) -> None:
    opened.recv(1)


def contact(port: int, address: str = "127.0.0.1", seconds: float = 3.0) -> Contact:
    return asyncio.run(connect(address, port, seconds))


def test_open() -> None:
    with serving(lambda opened: None) as port:
        found = contact(port)
    assert (found.outcome, found.errno, found.icmp) == ("open", None, False)
    assert found.seconds >= 0


def test_refused_by_the_host_itself() -> None:
    found = contact(unused_port())
    assert (found.outcome, found.errno, found.icmp) == ("refused", errno.ECONNREFUSED, False)


def test_refused_over_ipv6() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    assert contact(unused_port(), "::1").outcome in ("refused", "unreachable")


def test_no_answer_ends_with_the_deadline() -> None:
    with full_backlog() as port:
        started = time.monotonic()
        found = contact(port, seconds=0.4)
        assert time.monotonic() - started > 0.3
    assert (found.outcome, found.errno) == ("no-answer", None)


def test_no_connection_to_oneself() -> None:
    """Within the ephemeral ports a socket can connect to itself where nothing listens: that is nobody's answer."""
    port = unused_port()
    for _ in range(30):
        assert contact(port).outcome == "refused"


def test_what_is_no_address_is_an_error_and_raises_nothing() -> None:
    assert contact(80, "999.1.2.3").outcome == "error"


def test_a_segment_limit_holds() -> None:
    async def limited(port: int) -> int:
        _, opened = await open_socket("127.0.0.1", port, 3.0, max_segment=1000)
        assert opened is not None
        with opened:
            return opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

    with serving(hold_one) as port:
        assert 500 <= asyncio.run(limited(port)) <= 1000


def extended_error(origin: int, kind: int, code: int, offender: bytes) -> bytes:
    return struct.pack("=IBBBBII", errno.ECONNREFUSED, origin, kind, code, 0, 0, 0) + offender


V4 = struct.pack("=H2x4s8x", socket.AF_INET, bytes([10, 0, 0, 7]))
V6 = struct.pack("=H2xI16sI", socket.AF_INET6, 0, socket.inet_pton(socket.AF_INET6, "fd00::7"), 0)
# Recorded from Linux 6.18 over loopback: what `nft reject` and `reject with icmpx admin-prohibited` leave on a socket.
REJECT_V4 = "6f000000020303000000000000000000020000007f0000010000000000000000"
PROHIBITED_V4 = "7100000002030d000000000000000000020000007f0000010000000000000000"
REJECT_V6 = "6f0000000301040000000000000000000a000000000000000000000000000000000000000000000100000000"
PROHIBITED_V6 = "0d0000000301010000000000000000000a000000000000000000000000000000000000000000000100000000"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes.fromhex(REJECT_V4), (2, 3, 3, "127.0.0.1")),
        (bytes.fromhex(PROHIBITED_V4), (2, 3, 13, "127.0.0.1")),
        (bytes.fromhex(REJECT_V6), (3, 1, 4, "::1")),
        (bytes.fromhex(PROHIBITED_V6), (3, 1, 1, "::1")),
        (extended_error(2, 3, 13, V4), (2, 3, 13, "10.0.0.7")),
        (extended_error(3, 1, 1, V6), (3, 1, 1, "fd00::7")),
        (extended_error(1, 0, 0, b""), (1, 0, 0, None)),
        (extended_error(1, 0, 0, bytes(16)), (1, 0, 0, None)),
        (extended_error(3, 1, 4, V6[:12]), (3, 1, 4, None)),
    ],
)
def test_the_kernels_extended_error(data: bytes, expected: tuple[int, int, int, str | None]) -> None:
    assert parse_extended_error(data) == expected


TCP_SECONDS = 1.0
"""Seconds after which Linux sends a SYN again (TCP_TIMEOUT_INIT in include/net/tcp.h)."""
_LOST = """
import asyncio, subprocess
from distdoctor.probes.network.tcp import connect
table = "table ip f { chain i { type filter hook input priority 0; tcp flags syn numgen inc mod 1000 < 1 drop; }; }"
subprocess.run(f"ip link set lo up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
async def main():
    accepted = []
    server = await asyncio.start_server(lambda reader, writer: accepted.append(reader), "127.0.0.1", 4000)
    found = await connect("127.0.0.1", 4000)
    await asyncio.sleep(0.1)
    ended = [await asyncio.wait_for(reader.read(1), 2) for reader in accepted]
    server.close()
    print(found.outcome, ended)
    print(found.seconds)
asyncio.run(main())
"""


def test_of_the_two_connections_after_a_lost_first_packet_none_is_left_open() -> None:
    outcome, seconds = lines_of(_LOST, "--net", tools=("ip", "nft"))
    assert outcome == "open [b'']" and float(seconds) > 0.2


@pytest.mark.perf
def test_a_lost_first_packet_costs_less_than_the_second_after_which_tcp_sends_it_again() -> None:
    assert float(lines_of(_LOST, "--net", tools=("ip", "nft"))[1]) < 0.9 * TCP_SECONDS


_OWN_FILTER = """
import asyncio, subprocess
from distdoctor.probes.network.tcp import connect
def sh(line): subprocess.run(line, shell=True, check=True)
sh("ip link set lo up && ip link add d0 type bridge && ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up")
sh("iptables -A OUTPUT -p tcp -d 10.9.0.77 -j REJECT; iptables -A INPUT -p tcp -d 10.9.0.1 -j REJECT")
for address in ("10.9.0.77", "10.9.0.1", "127.0.0.1"):
    found = asyncio.run(connect(address, 4000, 5.0))
    print(address, found.outcome, found.icmp_from or "-")
"""


def test_who_rejected_it_is_known_without_its_rules() -> None:
    assert lines_of(_OWN_FILTER, "--net", tools=("ip", "iptables")) == [
        "10.9.0.77 rejected 10.9.0.1",
        "10.9.0.1 rejected 10.9.0.1",
        "127.0.0.1 refused -",
    ]


_IN_A_NAMESPACE = """
import asyncio, subprocess, sys
from distdoctor.probes.network.tcp import connect
def sh(line): subprocess.run(line, shell=True, check=True)
sh("ip link set lo up && ip link add d0 type bridge && ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up")
sh("ip route add unreachable 10.8.0.0/24; ip route add prohibit 10.7.0.0/24; ip route add blackhole 10.6.0.0/24")
sh("nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; }'")
rules = (
    "4001 reject", "4002 reject with tcp reset", "4003 drop", "4004 reject with icmpx admin-prohibited",
)
for rule in rules:
    sh("nft add rule inet t in tcp dport " + rule)
for address, port in [("127.0.0.1", p) for p in (4000, 4001, 4002, 4003, 4004)] + [
    ("::1", 4001), ("10.9.0.1", 4001), ("10.9.0.77", 80), ("10.8.0.1", 80), ("10.7.0.1", 80), ("192.0.2.1", 80)
]:
    seconds = 5.0 if address == "10.9.0.77" else 0.7
    found = asyncio.run(connect(address, port, seconds))
    print(address, port, found.outcome, int(found.icmp))
"""


def test_firewalls_and_missing_routes_are_told_apart() -> None:
    """With a real packet filter and real routes, in a network namespace of its own that reaches nothing."""
    assert lines_of(_IN_A_NAMESPACE, "--net", tools=("ip", "nft")) == [
        "127.0.0.1 4000 refused 0",
        "127.0.0.1 4001 rejected 1",
        "127.0.0.1 4002 refused 0",
        "127.0.0.1 4003 no-answer 0",
        "127.0.0.1 4004 rejected 1",
        "::1 4001 rejected 1",
        "10.9.0.1 4001 rejected 1",
        "10.9.0.77 80 unreachable 1",
        "10.8.0.1 80 unreachable 0",
        "10.7.0.1 80 error 0",
        "192.0.2.1 80 unreachable 0",
    ]

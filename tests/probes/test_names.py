"""Names: look-ups that end in time."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import pytest

from distdoctor.probes.host.processes import in_thread
from distdoctor.probes.network.names import announced, resolve, reverse
from tests.helpers.namespaces import lines_of


def test_an_address_is_its_own_answer() -> None:
    found = asyncio.run(resolve("127.0.0.1"))
    assert (found.addresses, found.error, found.timed_out) == (("127.0.0.1",), None, False)


def test_localhost() -> None:
    assert set(asyncio.run(resolve("localhost")).addresses) & {"127.0.0.1", "::1"}


@pytest.mark.parametrize("name", ["a" * 300, "a" * 64, "a..b", "x.." * 3, "\udcff", "a b.invalid"])
def test_what_is_no_name_is_an_error_with_a_reason(name: str) -> None:
    found = asyncio.run(resolve(name, 2.0))
    assert found.addresses == () and found.error


def test_what_does_not_return_is_left_behind_and_keeps_nobody() -> None:
    """Neither the caller nor, as an executor's thread would, the end of the process."""
    ended = threading.Event()

    async def wait() -> float:
        started = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await in_thread(lambda: ended.wait(20), 0.2)
        return time.monotonic() - started

    try:
        assert 0.15 < asyncio.run(wait()) < 3
    finally:
        ended.set()


def test_an_error_in_the_thread_is_raised_to_who_waits() -> None:
    async def fail() -> None:
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0, 5)

    asyncio.run(fail())


_SILENT_DNS = """
import asyncio, socket, subprocess, sys, time
from distdoctor.probes.network.names import resolve, reverse
def sh(line): subprocess.run(line, shell=True, check=True)
open("resolv.conf", "w").write("nameserver 127.0.0.1\\n")
open("nsswitch.conf", "w").write("hosts: files dns\\n")
sh("ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf")
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
for look_up in (resolve("gpu07.cluster.example", 0.5), reverse("10.1.2.3", 0.5)):
    started = time.monotonic()
    found = asyncio.run(look_up)
    print(found.timed_out, found.addresses, found.error, time.monotonic() - started > 0.4)
silent.settimeout(3)
print("asked", b"gpu07" in silent.recv(512))
"""


def test_a_name_server_that_drops_the_question_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    """In namespaces of its own, with a resolver that is never answered."""
    late = "True () no answer within 0.5 s True"
    assert lines_of(_SILENT_DNS, "--net", "--mount", tools=("ip", "mount"), cwd=tmp_path) == [late, late, "asked True"]


_DEAD_THEN_ALIVE = """
import asyncio, socket, struct, subprocess, threading
from distdoctor.probes.network.names import resolve
def sh(line): subprocess.run(line, shell=True, check=True)
open("resolv.conf", "w").write("nameserver 127.0.0.1\\nnameserver 127.0.0.2\\n")
open("nsswitch.conf", "w").write("hosts: files dns\\n")
sh("ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf")
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.2", 53))
def serve():
    while True:
        data, peer = server.recvfrom(512)
        end = data.index(0, 12) + 5
        is_a = data[end - 4 : end - 2] == bytes((0, 1))
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
        record = struct.pack(">HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton("10.1.2.3")) if is_a else b""
        server.sendto(head + data[12:end] + record, peer)
threading.Thread(target=serve, daemon=True).start()
found = asyncio.run(resolve("gpu07.cluster.example", 2.5))
print(found.timed_out, found.addresses, found.error)
"""


def test_a_second_name_server_that_answers_gives_the_address_however_late(tmp_path: Path) -> None:
    """By resolv.conf's defaults the first, dead one costs 5 s: the name has its address all the same."""
    lines = lines_of(_DEAD_THEN_ALIVE, "--net", "--mount", tools=("ip", "mount"), cwd=tmp_path)
    assert lines == ["True ('10.1.2.3',) None"]


_DEAF = """
import subprocess
from distdoctor.probes.network.names import patience
def patient(text):
    open("resolv.conf", "w").write(text)
    return patience("resolv.conf")
ours = "search x.example\\nnameserver 127.0.0.53\\nnameserver ::1\\n"
mixed = "nameserver 127.0.0.53\\nnameserver 10.1.2.3\\n"
print(patient(ours), patient(""), patient(mixed), patient("nameserver\\nnameserver x%y"))
subprocess.run("ip link set lo up", shell=True, check=True)
print(patient(ours), patient(""), patience("no such file"))
"""


def test_a_host_that_hears_nothing_of_its_own_does_not_wait_long_for_its_own_name_server(tmp_path: Path) -> None:
    assert lines_of(_DEAF, "--net", tools=("ip",), cwd=tmp_path) == ["2.0 2.0 4.0 4.0", "4.0 4.0 4.0"]


def test_what_torchrun_calls_this_host_is_a_name_with_its_addresses_or_says_why_not() -> None:
    found = asyncio.run(announced(socket.gethostname()))
    assert found.name == socket.getfqdn() and bool(found.addresses) != bool(found.error)


def test_the_reverse_look_up_of_loopback_is_a_name_or_says_why_not() -> None:
    found = asyncio.run(reverse("127.0.0.1"))
    assert bool(found.addresses) != bool(found.error)


_LINK_LOCAL = """
import asyncio, subprocess
from distdoctor.probes.network.names import resolve
subprocess.run("ip link set lo up && ip link add eth0 type bridge && ip link set eth0 up", shell=True, check=True)
print(*asyncio.run(resolve("fe80::a%eth0")).addresses, *asyncio.run(resolve("fd77::a")).addresses)
"""


def test_a_link_local_address_keeps_its_zone_without_which_nothing_reaches_it() -> None:
    assert lines_of(_LINK_LOCAL, "--net", tools=("ip",)) == ["fe80::a%eth0 fd77::a"]


_NO_IPV6 = """
import asyncio, subprocess
from distdoctor.probes.network.names import resolve, resolve_store
def sh(line): subprocess.run(line, shell=True, check=True)
sh("ip link set lo up; mount -t tmpfs lab /mnt; echo '::1 localhost ip6-localhost' > /mnt/hosts")
sh("mount --bind /mnt/hosts /etc/hosts")
print(*asyncio.run(resolve_store("localhost")).addresses)
sh("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
print(*asyncio.run(resolve("localhost")).addresses)
print(*asyncio.run(resolve_store("localhost")).addresses)
"""


def test_without_ipv6_a_store_at_the_ipv6_localhost_is_reached_by_the_other() -> None:
    """As its clients do (c10d asks for IPv4 addresses, too); gloo does not."""
    found = lines_of(_NO_IPV6, "--net", "--mount", tools=("ip", "mount"))
    assert found == ["::1", "::1", "127.0.0.1 ::1"]

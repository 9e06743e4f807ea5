"""Names: look-ups that end in time, and /etc/hosts as it is written."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from distdoctor.facts import HostsLine
from distdoctor.probes.names import hosts_lines, in_thread, name_in_hosts, resolve, reverse
from tests.engine.namespaces import lines_of


def test_an_address_is_its_own_answer() -> None:
    found = asyncio.run(resolve("127.0.0.1"))
    assert (found.addresses, found.error, found.timed_out) == (("127.0.0.1",), None, False)


def test_localhost() -> None:
    assert set(asyncio.run(resolve("localhost")).addresses) & {"127.0.0.1", "::1"}


@pytest.mark.parametrize("name", ["a" * 300, "x.." * 3, "\udcff", "a b.invalid"])
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
from distdoctor.probes.names import resolve, reverse
def sh(line): subprocess.run(line, shell=True, check=True)
open("resolv.conf", "w").write("nameserver 127.0.0.1\\n")
open("nsswitch.conf", "w").write("hosts: files dns\\n")
sh("ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf")
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
for look_up in (resolve("gpu07.cluster.example", 0.5), reverse("10.1.2.3", 0.5)):
    started = time.monotonic()
    found = asyncio.run(look_up)
    print(found.timed_out, found.addresses, found.error, 0.4 < time.monotonic() - started < 3)
silent.settimeout(3)
print("asked", b"gpu07" in silent.recv(512))
"""


def test_a_name_server_that_drops_the_question_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    """In namespaces of its own, with a resolver that is never answered."""
    late = "True () no answer within 0.5 s True"
    assert lines_of(_SILENT_DNS, "--net", "--mount", tools=("ip", "mount"), cwd=tmp_path) == [late, late, "asked True"]


def test_the_reverse_look_up_of_loopback_is_a_name_or_says_why_not() -> None:
    found = asyncio.run(reverse("127.0.0.1"))
    assert bool(found.addresses) != bool(found.error)


HOSTS = """\
127.0.0.1\tlocalhost
# 10.0.0.9 gpu09
127.0.1.1  gpu07.cluster.example gpu07   # set by the installer
10.0.0.7 gpu07
10.0.0.8
10.0.0.10 gpu07x\xff
::1 localhost ip6-localhost
"""


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    path = tmp_path / "hosts"
    path.write_bytes(HOSTS.encode("latin-1"))
    return str(path)


def test_lines_that_name_a_host_with_their_numbers_and_without_comments(hosts: str) -> None:
    assert hosts_lines(lambda fields: "gpu07" in fields[1:], hosts) == (
        HostsLine(3, "127.0.1.1  gpu07.cluster.example gpu07"),
        HostsLine(4, "10.0.0.7 gpu07"),
    )


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("127.0.1.1", "gpu07.cluster.example"),
        ("10.0.0.7", "gpu07"),
        ("10.0.0.8", None),
        ("10.0.0.9", None),
        ("10.0.0.1", None),
        ("::1", "localhost"),
    ],
)
def test_what_the_file_calls_an_address(hosts: str, address: str, name: str | None) -> None:
    assert name_in_hosts(address, hosts) == name


def test_at_most_20_lines_and_no_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("".join(f"10.0.0.{n} a {'b' * 999}\n" for n in range(50)))
    found = hosts_lines(lambda fields: "a" in fields, str(path))
    assert len(found) == 20 and max(len(line.text) for line in found) == 200


def test_without_the_file_there_are_no_lines(tmp_path: Path) -> None:
    assert hosts_lines(lambda fields: True, str(tmp_path / "none")) == ()
    assert name_in_hosts("127.0.0.1", str(tmp_path / "none")) is None

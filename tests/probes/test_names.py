"""Names: look-ups that end in time, and /etc/hosts as it is written."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from distdoctor.model.facts import HostsLine
from distdoctor.probes import look_up
from distdoctor.probes.look_up import Asker, Reply
from distdoctor.probes.names import announced, closed, hosts_lines, name_in_hosts, resolve, reverse
from distdoctor.probes.threads import in_thread
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


_DEAD_THEN_ALIVE = """
import asyncio, socket, struct, subprocess, threading
from distdoctor.probes.names import resolve
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
from distdoctor.probes.names import patience
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


_LOOKS_UP_FOR_EVER = """
import asyncio, os, socket, subprocess, sys, time
from pathlib import Path
from distdoctor.probes.look_up import ASKER
def sh(line): subprocess.run(line, shell=True, check=True)
def below(pid): return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
open("resolv.conf", "w").write("nameserver 127.0.0.1\\n")
open("nsswitch.conf", "w").write("hosts: files dns\\n")
sh("ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf")
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
if os.fork() == 0:
    asyncio.run(ASKER.ask("addresses", "gpu07.cluster.example", 30.0))
    os._exit(0)
def until(true):
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end: time.sleep(0.02)
    return true()
(user,) = below(os.getpid())
print("looks up", until(lambda: [1 for asker in below(user) if below(asker)]))
(asker,) = below(user)
(child,) = below(asker)
os.kill(user, 9)
os.wait()
def gone(pid):
    try: return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError: return True
print("gone", until(lambda: gone(asker) and gone(child)))
"""


def test_nothing_is_left_of_a_look_up_whose_user_is_killed(tmp_path: Path) -> None:
    lines = lines_of(_LOOKS_UP_FOR_EVER, "--net", "--mount", "--pid", "--fork", "--mount-proc", cwd=tmp_path)
    assert lines == ["looks up [1]", "gone True"]


def test_what_waits_for_a_processor_is_no_slow_look_up() -> None:
    """An asker that runs only when nothing else wants its processor, and something does."""
    own, all_of_them = Asker(), os.sched_getaffinity(0)
    spinner = None
    try:
        os.sched_setaffinity(0, {min(all_of_them)})
        own.start()
        assert own._process is not None
        os.sched_setscheduler(own._process.pid, os.SCHED_IDLE, os.sched_param(0))
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        os.sched_setaffinity(0, all_of_them)
        started = time.monotonic()
        replies = [asyncio.run(own.ask("addresses", "localhost", 20)) for _ in range(2)]
        spent = time.monotonic() - started
    finally:
        os.sched_setaffinity(0, all_of_them)
        if spinner is not None:
            spinner.kill()
            spinner.wait()
        own.stop()
    assert all(reply.found for reply in replies)
    taken = [reply.seconds for reply in replies if reply.seconds is not None]
    assert len(taken) == len(replies) and sum(taken) < spent / 2, (taken, spent)


def test_without_a_process_for_it_names_are_looked_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", none_left)

    async def ask() -> list[Reply]:
        asker = Asker()
        return [await asker.ask("addresses", name, 5.0) for name in ("127.0.0.1", "a..b")]

    found, none = asyncio.run(ask())
    assert found == Reply(("127.0.0.1",)) and none.error and not none.timed_out


def test_a_question_that_waits_for_a_processor_is_answered_when_it_has_one() -> None:
    """What would ask is stopped for longer than an answer may take."""

    async def ask() -> Reply:
        asker = Asker()
        await asker.ask("addresses", "127.0.0.1", 5.0)
        assert asker._process is not None
        number = asker._process.pid
        os.kill(number, signal.SIGSTOP)
        threading.Timer(0.8, os.kill, (number, signal.SIGCONT)).start()
        try:
            return await asker.ask("addresses", "127.0.0.1", 0.4)
        finally:
            asker.stop()

    found = asyncio.run(ask())
    assert (found.found, found.timed_out) == (("127.0.0.1",), False)


def test_what_torchrun_calls_this_host_is_a_name_with_its_addresses_or_says_why_not() -> None:
    found = asyncio.run(announced(socket.gethostname()))
    assert found.name == socket.getfqdn() and bool(found.addresses) != bool(found.error)


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


def test_a_file_that_this_user_may_not_read_is_closed_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    assert not closed(str(tmp_path / "none"))
    (tmp_path / "hosts").write_text("")
    (tmp_path / "hosts").chmod(0)
    if os.geteuid():
        assert closed(str(tmp_path / "hosts"))
        return
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    try:
        os.seteuid(65534)  # who is not root, and not the owner
    except OSError as err:
        pytest.skip(f"nobody else to be here: {err}")  # a user namespace that has one user
    try:
        assert closed(str(tmp_path / "hosts"))
    finally:
        os.seteuid(0)


_LINK_LOCAL = """
import asyncio, subprocess
from distdoctor.probes.names import resolve
subprocess.run("ip link set lo up && ip link add eth0 type bridge && ip link set eth0 up", shell=True, check=True)
print(*asyncio.run(resolve("fe80::a%eth0")).addresses, *asyncio.run(resolve("fd77::a")).addresses)
"""


def test_a_link_local_address_keeps_its_zone_without_which_nothing_reaches_it() -> None:
    assert lines_of(_LINK_LOCAL, "--net", tools=("ip",)) == ["fe80::a%eth0 fd77::a"]


_NO_IPV6 = """
import asyncio, subprocess
from distdoctor.probes.names import resolve, resolve_store
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


IGNORING = """
import asyncio, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from distdoctor.probes.look_up import Asker

async def main():
    asker = Asker()
    for _ in range(4):
        print(await asker.ask("of_store", "127.0.0.1", 5.0))
        await asyncio.sleep(0.2)
    print(asker._process.poll())
    asker.stop()

asyncio.run(main())
"""


def test_names_are_looked_up_below_a_shell_that_ignores_sigchld() -> None:
    """It hands that on: the process that asks waited for its children in vain, and ended; the name had no address."""
    done = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True, timeout=60, check=False)
    *replies, status = done.stdout.splitlines()
    assert len(replies) == 4 and all("found=('127.0.0.1',), error=None" in reply for reply in replies), done.stderr
    assert status == "None", "it runs until it is stopped"


def test_who_ends_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it ended says nothing of the name."""
    real, asked = look_up._answer, list[int]()

    async def answer(channel: socket.socket, seconds: float) -> Reply:
        asked.append(1)
        return Reply(error=look_up.LOST) if len(asked) == 1 else await real(channel, seconds)

    monkeypatch.setattr(look_up, "_answer", answer)
    asker = Asker()
    try:
        reply = asyncio.run(asker.ask("of_store", "127.0.0.1", 10.0))
        assert (reply.found, reply.error, len(asked)) == (("127.0.0.1",), None, 2)
        asked[:] = [0, 0, 0]
        monkeypatch.setattr(look_up, "TRIES", 0)
        assert asyncio.run(asker.ask("of_store", "127.0.0.1", 10.0)).found == ("127.0.0.1",)
    finally:
        asker.stop()

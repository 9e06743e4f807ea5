"""Faults of names: /etc/hosts, and the name servers."""

from __future__ import annotations

import sys

from tests.lab.faults import everywhere
from tests.lab.faults.packet_filter import nft
from tests.lab.harness.host import PRIVATE, Host
from tests.lab.harness.launch import Fault, Launch


def own_name_at(address: str, *hosts: int) -> Fault:
    """The named hosts' own names are at ``address`` in their own /etc/hosts, as Debian writes 127.0.1.1."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            host = launch.cluster[index]
            _name_at(host, host.name, address)

    return inject


def name_at(on: int, name: str, address: str) -> Fault:
    """On host ``on``, /etc/hosts says ``address`` for ``name``."""
    return lambda launch: _name_at(launch.cluster[on], name, address)


def name_removed(on: int, name: str) -> Fault:
    """Host ``on`` has no entry for ``name``, and no name service answers."""
    return lambda launch: _name_at(launch.cluster[on], name, None)


def _name_at(host: Host, name: str, address: str | None) -> None:
    """Take ``name`` off all lines of the host's /etc/hosts, then give it a line of its own with ``address``."""
    lines = []
    for line in host.hosts_file.splitlines():
        number, *names = line.split()
        if kept := [n for n in names if n not in (name, name.partition(".")[0])]:
            lines.append(" ".join([number, *kept]))
    if address is not None:
        lines.append(f"{address} {name}")
    host.hosts_file = "\n".join(lines) + "\n"


def silent_name_server(on: int, server: int) -> Fault:
    """Host ``on`` asks host ``server`` for names, which drops the questions."""

    def inject(launch: Launch) -> None:
        peer = launch.cluster[server]
        nft(server, 'iifname "lo" accept', "udp dport 53 drop")(launch)
        launch.cluster[on].anchor.path(f"{PRIVATE}/lab/resolv.conf").write_text(f"nameserver {peer.address}\n")

    return inject


def named_late(on: int, name: str, seconds: float) -> Fault:
    """On host ``on``, ``name`` is known some seconds after it was first asked for, as a Kubernetes record is: counted
    from there, it is late on a machine of any speed. A name server of the host's own says so."""

    def inject(launch: Launch) -> None:
        host = launch.cluster[on]
        _name_at(host, name, None)
        host.anchor.path(f"{PRIVATE}/lab/resolv.conf").write_text("nameserver 127.0.0.1\n")
        address = launch.cluster.by_name(name).address
        server = host.popen([sys.executable, "-c", _LATE_NAME_SERVER, name, address, str(seconds)])
        assert server.stdout is not None and server.stdout.readline() == "ready\n"

    return inject


_LATE_NAME_SERVER = """
import socket, sys, time

name, address, seconds = sys.argv[1], socket.inet_aton(sys.argv[2]), float(sys.argv[3])
asked = None
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    question, peer = server.recvfrom(512)
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode())
        at += 1 + length
    kind, there = question[at + 1 : at + 3], ".".join(labels) == name
    if there and asked is None:
        asked = time.monotonic()
    there = there and time.monotonic() - asked >= seconds
    # RFC 1035, 4.1: NXDOMAIN (3) until then; a record for type A (1) alone, its name a pointer to the question's.
    record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4" + address if there and kind == b"\\0\\1" else b""
    flags, count = b"\\x81\\x80" if there else b"\\x81\\x83", b"\\0\\1" if record else b"\\0\\0"
    head = question[:2] + flags + b"\\0\\1" + count + b"\\0\\0\\0\\0"
    server.sendto(head + question[12 : at + 5] + record, peer)
"""


def huge_hosts_file(launch: Launch) -> None:
    """/etc/hosts holds 50,000 other hosts, as on sites that copy their whole table to every node."""
    numbers = ((i, f"10.100.{i // 256}.{i % 256}") for i in range(50_000))
    others = "".join(f"{number} node{i}.site.example node{i}\n" for i, number in numbers)
    for host in launch.cluster:
        host.hosts_file += others


def no_name_server(launch: Launch) -> None:
    """/etc/resolv.conf is empty."""
    everywhere(": > /etc/resolv.conf")(launch)

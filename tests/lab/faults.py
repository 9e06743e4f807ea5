"""Faults: small functions, each giving one thing that is wrong. ``together`` puts several into one case.

A fault is called with the launch before anything is started; it changes the cluster (names, packet filter, what
holds a port) or the launch (flags, variables, who is started, when). Hosts are named by their number.
"""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable

from tests.lab.cluster import NOBODY_UID, PRIVATE, ROOT, Host
from tests.lab.launch import PORT, Launch

Fault = Callable[[Launch], None]
SITE = sysconfig.get_path("purelib")
"""The folder that torch is installed in."""
NO_CUDA = "raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')\n"

HTTP_SERVER = """
import http.server, sys
server = http.server.ThreadingHTTPServer(("", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
print("ready", flush=True)
server.serve_forever()
"""
SILENT_LISTENER = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
kept = []
while True: kept.append(server.accept())
"""
OUTGOING = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
kept = socket.create_connection(server.getsockname(), source_address=("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True: time.sleep(9)
"""
FOREIGN_STORE = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("0.0.0.0", int(sys.argv[1]), None, True, wait_for_workers=False)
print("ready", flush=True)
time.sleep(600)
"""


def together(*faults: Fault) -> Fault:
    """Several faults at once."""

    def inject(launch: Launch) -> None:
        for fault in faults:
            fault(launch)

    return inject


def nothing(launch: Launch) -> None:
    """No fault."""


# -- names ------------------------------------------------------------------------------------------------------------


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


# -- interfaces -------------------------------------------------------------------------------------------------------


def second_network(*addresses: str, interface: str = "eth1", joined: bool = False) -> Fault:
    """Host i gets another interface with the i-th address (with /prefix; empty: none), on a network that joins them
    or, by default, leads nowhere."""

    def inject(launch: Launch) -> None:
        for host, address in zip(launch.cluster, addresses, strict=True):
            if address:
                bridge = "second" if joined else f"alone{host.index}"
                host.add_interface(interface, address, bridge=bridge)

    return inject


def docker0(*hosts: int) -> Fault:
    """The named hosts have docker's bridge, at the address it has everywhere."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].add_interface("docker0", "172.17.0.1/16")

    return inject


# -- variables and flags ----------------------------------------------------------------------------------------------


def variable(name: str, value: str | None, *hosts: int) -> Fault:
    """The variable is ``value`` (None: not set) on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.env[name] = value

    return inject


def flag(name: str, value: str | None, *hosts: int) -> Fault:
    """The launch line has ``name value`` (None: not at all) on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.flags[name] = value

    return inject


def not_started(*hosts: int) -> Fault:
    """Nobody starts anything on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.started = False

    return inject


def late(seconds: float, *hosts: int) -> Fault:
    """The named hosts start later than the others."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.delay = seconds

    return inject


def as_user(*hosts: int) -> Fault:
    """On the named hosts, the job is started by a user other than root."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].open_to_users()
            for start in launch.on(index):
                start.uid = NOBODY_UID

    return inject


# -- packet filters ---------------------------------------------------------------------------------------------------


def nft(on: int, *rules: str, hook: str = "input", policy: str = "accept", family: str = "inet") -> Fault:
    """An nftables chain with these rules on host ``on``; ``{hostN}`` in a rule is host N's address."""

    def inject(launch: Launch) -> None:
        addresses = {host.name: host.address for host in launch.cluster}
        chain = f"type filter hook {hook} priority 0; policy {policy};"
        text = "\n".join(rule.format_map(addresses) for rule in rules)
        launch.cluster[on].inside(
            f"nft -f - <<'END'\ntable {family} filter {{\nchain {hook} {{\n{chain}\n{text}\n}}\n}}\nEND"
        )

    return inject


def iptables(on: int, *arguments: str) -> Fault:
    """iptables rules on host ``on``, one command each."""
    return lambda launch: [launch.cluster[on].inside(f"iptables {a}") for a in arguments].clear()


def master_port(on: int, verdict: str) -> Fault:
    """nft on host ``on`` answers packets from other hosts for MASTER_PORT with ``verdict``."""
    return nft(on, 'iifname "lo" accept', f"tcp dport {PORT} {verdict}")


def only_master_port(on: int) -> Fault:
    """nft on host ``on`` lets MASTER_PORT in, and what belongs to connections that are there; the rest is dropped."""
    return nft(
        on,
        'iifname "lo" accept',
        "ct state established,related accept",
        "meta l4proto {{ icmp, ipv6-icmp }} accept",
        f"tcp dport {PORT} accept",
        policy="drop",
    )


def only_master_port_iptables(on: int) -> Fault:
    """The same with iptables."""
    return iptables(
        on,
        "-P INPUT DROP",
        "-A INPUT -i lo -j ACCEPT",
        "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        "-A INPUT -p icmp -j ACCEPT",
        f"-A INPUT -p tcp --dport {PORT} -j ACCEPT",
    )


# -- what holds the port ----------------------------------------------------------------------------------------------


def port_held(on: int, program: str, port: int = PORT, uid: int = 0) -> Fault:
    """A process on host ``on`` holds the port: one of those programs above (``SILENT_LISTENER``, ``OUTGOING``)."""

    def inject(launch: Launch) -> None:
        if uid:
            launch.cluster[on].open_to_users()
        launch.cluster[on].python(program, str(port), uid=uid, wait_for="ready")

    return inject


# -- what is installed ------------------------------------------------------------------------------------------------


def torch_removed(*hosts: int) -> Fault:
    """On the named hosts torch is not installed, all else is: another folder lies over Python's site-packages."""

    def inject(launch: Launch) -> None:
        real, other = f"{PRIVATE}/lab/site-packages", f"{PRIVATE}/lab/site-without-torch"
        for index in hosts:
            launch.cluster[index].inside(
                f"set -e; mkdir {real} {other}; mount --bind {SITE} {real}; "
                f"for one in {real}/*; do case $one in {real}/torch|{real}/torch-*) ;; *) ln -s $one {other}/ ;; esac; "
                f"done; mount --bind {other} {SITE}"
            )

    return inject


def torch_installed(launch: Launch) -> None:
    """Install torch where it is missing."""
    for host in launch.cluster:
        host.inside(f"[ -e {SITE}/torch ] || umount {SITE}")


def on_pythonpath(package: str, text: str, *hosts: int) -> Fault:
    """On the named hosts, the first folder of PYTHONPATH has a package of this name."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/modules"
            place = launch.cluster[index].anchor.path(folder) / package
            place.mkdir(parents=True)
            (place / "__init__.py").write_text(text)
            for start in launch.on(index):
                start.env["PYTHONPATH"] = f"{folder}:{ROOT}"

    return inject


def in_working_folder(name: str, text: str, *hosts: int) -> Fault:
    """On the named hosts, the job is started in a folder with such a file."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/job"
            launch.cluster[index].anchor.path(folder).mkdir(mode=0o755)
            launch.cluster[index].anchor.path(f"{folder}/{name}").write_text(text)
            for start in launch.on(index):
                start.before += (f"cd {folder}",)

    return inject


def working_folder_deleted(*hosts: int) -> Fault:
    """On the named hosts, the folder that the job is started in has been deleted."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.before += (f"mkdir {PRIVATE}/lab/gone; cd {PRIVATE}/lab/gone; rmdir {PRIVATE}/lab/gone",)

    return inject


def other_version(version: str, *hosts: int) -> Fault:
    """On the named hosts, another version of distdoctor is installed."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/other-version"
            root = launch.cluster[index].anchor.path(folder)
            for package in ("distdoctor", "checks"):
                shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
            (root / "distdoctor" / "__init__.py").write_text(f'"""Another version."""\n\n__version__ = "{version}"\n')
            for start in launch.on(index):
                start.env["PYTHONPATH"] = folder

    return inject


# -- what a person does, where a fix is text only ---------------------------------------------------------------------


def start_all(launch: Launch) -> None:
    """Start what was not started."""
    for start in launch.starts:
        start.started = True


def usual_installation(launch: Launch) -> None:
    """Install the same distdoctor as everywhere: PYTHONPATH is the usual one again."""
    for start in launch.starts:
        start.env.pop("PYTHONPATH", None)


def existing_folder(launch: Launch) -> None:
    """Start the job from a folder that is there."""
    for start in launch.starts:
        start.before = ()

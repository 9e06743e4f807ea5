"""Faults of the field: limits and leftovers of a host, clocks, names that come late, links that are half there.

As in faults.py, each is called with the launch before anything is started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from tests.lab.cluster import PRIVATE, ROOT, SHARED, Host
from tests.lab.faults import Fault, nft, together
from tests.lab.launch import PORT, Launch

FROM_OTHERS = ('iifname "lo" accept', "ct state established,related accept")
"""The nft rules after which only new connections from other hosts are left."""
INIT_FILE = f"file://{SHARED}/init"
"""An init method on a file system that all hosts share."""
APPEARS_WITHIN = 60.0
"""Seconds after which a watcher gives up."""

ORPHAN = """
import socket, sys, time
if sys.argv[1] != "0":
    server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
open(sys.argv[2], "w").close()
time.sleep(600)
"""
BUSY_WHEN_TOLD = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.sched_setaffinity(0, {int(sys.argv[1])})
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.setsid()
        break
else:
    print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
while True: pass
"""
"""A session each: the kernel shares a core among sessions first (sched(7), autogroup)."""
OTHER_CLOCK = """
import time
real, offset = time.time, {offset}
time.time = lambda: real() + offset
time.time_ns = lambda: round((real() + offset) * 1e9)
"""
SILENT_FORWARD = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
kept = []
while True: kept.append(server.accept())
"""


def inside(on: int, script: str) -> Fault:
    """A shell script run as root on host ``on``; ``{hostN}`` in it is host N's address."""

    def inject(launch: Launch) -> None:
        launch.cluster[on].inside(script.format_map({host.name: host.address for host in launch.cluster}))

    return inject


def everywhere(script: str) -> Fault:
    """A shell script run as root on every host."""
    return lambda launch: [host.inside(script) for host in launch.cluster].clear()


# -- launch -----------------------------------------------------------------------------------------------------------


def c10d(*ids: str) -> Fault:
    """Every host has torchrun's c10d rendezvous in its launch line, host i with the i-th id."""

    def inject(launch: Launch) -> None:
        for start in launch.starts:
            endpoint = f"{launch.master or launch.cluster[0].name}:29400"
            start.flags |= {"--node-rank": None, "--master-addr": None, "--rdzv-backend": "c10d"}
            start.flags |= {"--rdzv-endpoint": endpoint, "--rdzv-id": ids[start.host.index]}

    return inject


def c10d_on(on: int, port: int = PORT) -> Fault:
    """Host ``on`` alone is started with torchrun's c10d rendezvous, at this port of the master."""

    def inject(launch: Launch) -> None:
        for start in launch.on(on):
            start.flags |= {"--node-rank": None, "--master-addr": None, "--rdzv-backend": "c10d"}
            start.flags |= {"--rdzv-endpoint": f"{launch.master or launch.cluster[0].name}:{port}"}

    return inject


def shell(line: str, *hosts: int) -> Fault:
    """The shell that starts the job on the named hosts runs ``line`` first."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.before += (line,)

    return inject


def shared_file(text: str) -> Fault:
    """The file of :data:`INIT_FILE` is there already, with this text in it."""
    return inside(0, f"printf %s '{text}' > {SHARED}/init")


# -- the host ---------------------------------------------------------------------------------------------------------


def shared_memory(size: str, *hosts: int) -> Fault:
    """/dev/shm of the named hosts has this size, as in a container."""
    return together(*(inside(index, f"mount -o remount,size={size} /dev/shm") for index in hosts))


def port_range(low: int, high: int, *hosts: int) -> Fault:
    """net.ipv4.ip_local_port_range of the named hosts."""
    return together(*(inside(i, f"echo {low} {high} > /proc/sys/net/ipv4/ip_local_port_range") for i in hosts))


def leftover(on: int, port: int = 0) -> Fault:
    """A rank of an earlier run is still there on host ``on``, without its launcher; it listens on ``port`` if not 0."""

    def inject(launch: Launch) -> None:
        host, ready = launch.cluster[on], f"{PRIVATE}/lab/orphan-is-ready"
        code = f"{PRIVATE}/lab/train.py"
        host.anchor.path(code).write_text(ORPHAN)
        host.inside(
            f"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=host0 MASTER_PORT={PORT} "
            f"setsid {quote(sys.executable)} -S -E {code} {port} {ready} >/dev/null 2>&1 </dev/null &"
        )
        _until(lambda: host.anchor.path(ready).exists(), "the process of an earlier run")

    return inject


def clock(offset: float, *hosts: int) -> Fault:
    """The clocks of the named hosts are off by so many seconds, for every Python there.

    The kernel has one wall clock for all namespaces, and libfaketime 0.9.10 breaks time.sleep() of Python 3.11.
    """

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/clock"
            root = launch.cluster[index].anchor.path(folder)
            root.mkdir()
            (root / "sitecustomize.py").write_text(OTHER_CLOCK.format(offset=offset))
            for start in launch.on(index):
                start.env["PYTHONPATH"] = f"{folder}:{ROOT}"

    return inject


def busy(launch: Launch) -> None:
    """Every core of the machine has as much to do as it can."""
    for _ in range(os.cpu_count() or 1):
        launch.cluster[0].python("print('busy')\nwhile True: pass", wait_for="busy")


def starved(on: int, *ranks: int, others: int = 15) -> Fault:
    """In the first run, these ranks on host ``on`` may only use one core; ``others`` keep it busy from then on."""
    core = max(os.sched_getaffinity(0))

    def act(host: Host) -> bool:
        wanted = {f"distdoctor:r{rank}" for rank in ranks}
        found = [pid for pid in host.anchor.pids() if _name(pid) in wanted]
        if len(found) < len(ranks):
            return False
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(pid, {core})
        _signal_load(host, signal.SIGUSR1)
        return True

    def inject(launch: Launch) -> None:
        launch.cluster[on].python(BUSY_WHEN_TOLD, str(core), str(others), wait_for="ready")
        _watch(launch.cluster[on], act)

    return inject


def load_ended(launch: Launch) -> None:
    """What else ran on the hosts has ended."""
    for host in launch.cluster:
        _signal_load(host, signal.SIGKILL)


def _signal_load(host: Host, sig: signal.Signals) -> None:
    for pid, command in host.processes().items():
        if "signal.sigwait" in command:
            _signal(pid, sig)


# -- names ------------------------------------------------------------------------------------------------------------


def silent_name_server(on: int, server: int) -> Fault:
    """Host ``on`` asks host ``server`` for names, which drops the questions."""

    def inject(launch: Launch) -> None:
        peer = launch.cluster[server]
        nft(server, 'iifname "lo" accept', "udp dport 53 drop")(launch)
        launch.cluster[on].anchor.path(f"{PRIVATE}/lab/resolv.conf").write_text(f"nameserver {peer.address}\n")

    return inject


def named_late(on: int, name: str, seconds: float) -> Fault:
    """On host ``on``, ``name`` is known some seconds from now, as a Kubernetes record is."""

    def inject(launch: Launch) -> None:
        host = launch.cluster[on]
        kept = [line for line in host.hosts_file.splitlines() if name not in line.split()]
        host.hosts_file = "\n".join(kept) + "\n"
        address = launch.cluster.by_name(name).address
        host.popen(["sh", "-c", f"sleep {seconds}; echo {address} {name} >> /etc/hosts"])

    return inject


def one_node(launch: Launch) -> None:
    """The launch line of one node alone: nothing but the number of ranks."""
    for start in launch.starts:
        start.flags = {"--nproc-per-node": str(launch.nproc)}


def huge_hosts_file(launch: Launch) -> None:
    """/etc/hosts holds 50,000 other hosts, as on sites that copy their whole table to every node."""
    numbers = ((i, f"10.100.{i // 256}.{i % 256}") for i in range(50_000))
    others = "".join(f"{number} node{i}.site.example node{i}\n" for i, number in numbers)
    for host in launch.cluster:
        host.hosts_file += others


def no_name_server(launch: Launch) -> None:
    """/etc/resolv.conf is empty."""
    everywhere(": > /etc/resolv.conf")(launch)


# -- links ------------------------------------------------------------------------------------------------------------


def other_subnet(on: int, address: str) -> Fault:
    """Host ``on`` has this address (with /prefix) only, and no default route."""
    return inside(on, f"ip address flush dev eth0 && ip address add {address} dev eth0")


def deaf_to(on: int, *others: int) -> Fault:
    """Host ``on`` drops new connections from these hosts, but for those to MASTER_PORT."""
    sources = (f"ip saddr {{host{other}}} tcp dport != {PORT} drop" for other in others)
    return nft(on, *FROM_OTHERS, *sources)


def mute_to(on: int, *others: int) -> Fault:
    """Host ``on`` drops its own new connections to these hosts, but for those to MASTER_PORT."""
    targets = (f"ip daddr {{host{other}}} tcp dport != {PORT} drop" for other in others)
    return nft(on, 'oifname "lo" accept', "ct state established,related accept", *targets, hook="output")


def cut(on: int, *others: int) -> Fault:
    """Host ``on`` and these hosts cannot connect in either direction, by the packet filter of ``on``."""
    return together(deaf_to(on, *others), mute_to(on, *others))


def cut_in_switch(left: tuple[int, ...], right: tuple[int, ...]) -> Fault:
    """The switch lets no new connection through between the two sides, but for those to and from MASTER_PORT."""

    def inject(launch: Launch) -> None:
        hosts = launch.cluster
        pairs = [(hosts[a].address, hosts[b].address) for a in left for b in right]
        rules = "\n".join(
            f"ip saddr {a} ip daddr {b} tcp dport != {PORT} tcp flags & (syn | ack) == syn drop"
            for one, other in pairs
            for a, b in ((one, other), (other, one))
        )
        hosts.in_switch(
            "nft -f - <<'END'\ntable bridge switch {\nchain forward {\ntype filter hook forward priority 0; "
            f"policy accept;\n{rules}\n}}\n}}\nEND"
        )

    return inject


def switch_repaired(launch: Launch) -> None:
    """The switch lets everything through again."""
    launch.cluster.in_switch("nft delete table bridge switch")


def jumbo_frames(launch: Launch) -> None:
    """Every interface, and every port of the switch, takes frames of 9000 bytes."""
    everywhere("ip link set dev eth0 mtu 9000")(launch)
    ports = "$(ls /sys/class/net | grep '^lan')"
    launch.cluster.in_switch(f"mount -t sysfs lab /sys && for port in {ports}; do ip link set dev $port mtu 9000; done")


def slow(*hosts: int, rate: str = "10mbit", interface: str = "eth0") -> Fault:
    """What the named hosts send is held to this rate."""
    shaper = f"tc qdisc add dev {interface} root tbf rate {rate} burst 32kbit latency 100ms"
    return together(*(inside(index, shaper) for index in hosts))


def shapers_removed(launch: Launch) -> None:
    """No host holds back what it sends."""
    everywhere("tc qdisc del dev eth0 root 2>/dev/null || true")(launch)


def loses(on: int, percent: int) -> Fault:
    """Host ``on`` loses so many of a hundred small packets from others."""
    return nft(on, f'iifname "eth0" meta length < 400 numgen random mod 100 < {percent} drop')


def damages(on: int) -> Fault:
    """The network card of host ``on`` damages two bytes of each large packet that comes in."""
    return nft(on, 'iifname "eth0" meta length > 8000 @th,1600,16 set 0xdead')


def card_changed(on: int) -> Fault:
    """Host ``on`` has a network card that damages nothing."""
    return inside(on, "nft delete table inet filter")


def forwarded_into_silence(on: int, to: int, port: int = 29999) -> Fault:
    """What host ``on`` sends to MASTER_PORT is forwarded to another port of host ``to``, which never answers."""

    def inject(launch: Launch) -> None:
        launch.cluster[to].python(SILENT_FORWARD, str(port), wait_for="ready")
        launch.cluster[on].inside(
            "nft -f - <<'END'\ntable ip forwarding {\nchain output {\ntype nat hook output priority -100;\n"
            f"ip daddr {launch.cluster[to].address} tcp dport {PORT} dnat to {launch.cluster[to].address}:{port}\n"
            "}\n}\nEND"
        )

    return inject


# -- processes --------------------------------------------------------------------------------------------------------


def signalled_rank(on: int, rank: int, sig: signal.Signals) -> Fault:
    """The process of a rank on host ``on`` gets ``sig`` as soon as it is there, in the first run only."""

    def act(host: Host) -> bool:
        pids = [pid for pid in host.anchor.pids() if _name(pid) == f"distdoctor:r{rank}"]
        return [_signal(pid, sig) for pid in pids] != []

    return lambda launch: _watch(launch.cluster[on], act)


def killed_doctor(on: int) -> Fault:
    """The whole doctor on host ``on`` is killed (SIGKILL) as soon as its ranks are there, in the first run only."""

    def act(host: Host) -> bool:
        if not any(_name(pid).startswith("distdoctor:r") for pid in host.anchor.pids()):
            return False
        mains = [pid for pid, command in host.processes().items() if "-m distdoctor check" in command]
        return [_signal(pid, signal.SIGKILL) for pid in mains if _parent(pid) not in mains] != []

    return lambda launch: _watch(launch.cluster[on], act)


def stopped_doctor(on: int, seconds: float, after: float) -> Fault:
    """The doctor itself on host ``on`` is stopped for so long, some seconds after its ranks are there; in the first
    run only."""

    def act(host: Host) -> bool:
        if not any(_name(pid).startswith("distdoctor:r") for pid in host.anchor.pids()):
            return False
        time.sleep(after)
        mains = [pid for pid, command in host.processes().items() if "-m distdoctor check" in command]
        stopped = [_signal(pid, signal.SIGSTOP) for pid in mains if _parent(pid) not in mains]
        time.sleep(seconds)
        # nsenter(1), which waits for it, stops with its child and is the one to let it go on.
        return [_signal(pid, signal.SIGCONT) for child in stopped for pid in (_parent(child), child) if pid] != []

    return lambda launch: _watch(launch.cluster[on], act)


def _watch(host: Host, act: Callable[[Host], bool]) -> None:
    def watch() -> None:
        deadline = time.monotonic() + APPEARS_WITHIN
        while time.monotonic() < deadline and Path(f"/proc/{host.anchor.pid}").exists():
            if act(host):
                return
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _signal(pid: int, sig: signal.Signals) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
    return pid


def _until(true: Callable[[], bool], what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start within {seconds:.0f} s")
        time.sleep(0.01)

"""Faults of a host: its shared memory, ports, clock, and what an earlier run or another program left there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from tests.lab.faults import inside, together
from tests.lab.faults.launch import variable
from tests.lab.harness.cgroups import MEMORY, PIDS, limited_cgroup
from tests.lab.harness.host import PRIVATE, ROOT
from tests.lab.harness.launch import PORT, Fault, Launch

LOGIND = f"{PRIVATE}/systemd/logind.conf.d/lab.conf"
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
ACCEPTS_AND_CLOSES = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True: server.accept()[0].close()
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
store.set("/none/torchelastic/role_info/0", "what torchrun writes first")
print("ready", flush=True)
time.sleep(600)
"""
TUNNEL = """
import socket, sys, threading
def carry(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
server = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print("ready", flush=True)
while True:
    near = server.accept()[0]
    try:
        far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    except OSError:
        near.close()
        continue
    for ends in ((near, far), (far, near)):
        threading.Thread(target=carry, args=ends, daemon=True).start()
"""
ORPHAN = """
import socket, sys, time
if sys.argv[1] != "0":
    server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
open(sys.argv[2], "w").close()
time.sleep(600)
"""
OTHER_CLOCK = """
import time
real, offset = time.time, {offset}
time.time = lambda: real() + offset
time.time_ns = lambda: round((real() + offset) * 1e9)
"""


def port_held(on: int, program: str, port: int = PORT, uid: int = 0) -> Fault:
    """A process on host ``on`` holds the port: one of those programs above (``SILENT_LISTENER``, ``OUTGOING``)."""

    def inject(launch: Launch) -> None:
        if uid:
            launch.cluster[on].open_to_users()
        launch.cluster[on].python(program, str(port), uid=uid, wait_for="ready")

    return inject


def tunnel(on: int, to: int) -> Fault:
    """Host ``on`` reaches MASTER_PORT of host ``to`` at its own loopback, as by ``ssh -L``."""

    def inject(launch: Launch) -> None:
        launch.cluster[on].python(TUNNEL, launch.cluster[to].address, str(PORT), wait_for="ready")

    return inject


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


def full_folder(name: str, *hosts: int) -> Fault:
    """The variable names a folder on the hosts whose disk has no space left."""
    folder = f"{PRIVATE}/full"
    filled = f"mkdir {folder}; mount -t tmpfs -o size=64k lab {folder}; head -c 1m /dev/zero > {folder}/fill || true"
    return together(
        variable(name, folder, *hosts), *(inside(index, f"{{{{ {filled}; }}}} 2>/dev/null") for index in hosts)
    )


def folder_without_files(name: str, *hosts: int) -> Fault:
    """The variable names a folder on the hosts whose file system has room, and no inode left."""
    folder = f"{PRIVATE}/few"
    made = f"mkdir {folder}; mount -t tmpfs -o nr_inodes=2,mode=1777 lab {folder}; touch {folder}/last"
    return together(variable(name, folder, *hosts), *(inside(index, made) for index in hosts))


def long_temporary_folder(*hosts: int) -> Fault:
    """TMPDIR has 90 letters on the hosts."""
    folder = f"{PRIVATE}/{'x' * (90 - len(PRIVATE) - 1)}"
    return together(variable("TMPDIR", folder, *hosts), *(inside(index, f"mkdir -m 1777 {folder}") for index in hosts))


def build_lock(hours: int, *hosts: int) -> Fault:
    """On the hosts, a build of an extension was killed so many hours ago."""
    folder = f"{PRIVATE}/extensions"
    made = f"mkdir -p {folder}/fused && touch -d '{hours} hours ago' {folder}/fused/lock"
    return together(variable("TORCH_EXTENSIONS_DIR", folder, *hosts), *(inside(index, made) for index in hosts))


def kernel_says(lines: str, *hosts: int) -> Fault:
    """On the hosts the kernel's log ends with these lines, written just now. That of the real kernel is everybody's."""
    library = f"{PRIVATE}/lab/kernel-log.so"
    written = r"\n".join(f"<4>[%1$5ld.000000] {line}" for line in lines.splitlines())
    source = (
        "#include <stdio.h>\n#include <time.h>\nint klogctl(int type, char *text, int size) {{ struct timespec now; "
        f'clock_gettime(CLOCK_MONOTONIC, &now); return snprintf(text, size, "{written}", now.tv_sec); }}}}\n'
    )
    made = f"cc -shared -fPIC -x c - -o {library} <<'END'\n{source}END\n"
    return together(variable("LD_PRELOAD", library, *hosts), *(inside(index, made) for index in hosts))


def own_folder(path: str, *hosts: int) -> Fault:
    """All hosts have this folder in common, but for those named, where another file system is mounted on it."""
    return together(inside(0, f"mkdir -p {path}"), *(inside(index, f"mount -t tmpfs lab {path}") for index in hosts))


def no_locks(*hosts: int) -> Fault:
    """On the hosts flock() says ENOSYS, as on a file system without locks."""
    library = f"{PRIVATE}/lab/no-locks.so"
    source = "#include <errno.h>\nint flock(int fd, int how) {{ errno = ENOSYS; return -1; }}\n"
    made = f"printf {quote(source)} | cc -shared -fPIC -x c - -o {library}"
    return together(variable("LD_PRELOAD", library, *hosts), *(inside(index, made) for index in hosts))


def unknown_user(uid: int, *hosts: int) -> Fault:
    """On the hosts the job runs under a number that has no entry, and has neither a name nor a home."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].open_to_users()
            for start in launch.on(index):
                start.uid = uid
                start.env |= {"HOME": None, "USER": None, "LOGNAME": None}

    return inject


def logind_removes(uid: int, on: int) -> Fault:
    """Host ``on`` has logind with RemoveIPC=yes, and the job runs as a user with an entry who is in no session."""
    entry = f"ann:x:{uid}:{uid}::{PRIVATE}/tmp:/bin/sh"

    def inject(launch: Launch) -> None:
        launch.cluster[on].open_to_users()
        for start in launch.on(on):
            start.uid = uid

    return together(
        inject,
        inside(on, f"mkdir -p {PRIVATE}/systemd/users {PRIVATE}/systemd/logind.conf.d"),
        inside(on, f"printf '[Login]\\nRemoveIPC=yes\\n' > {LOGIND}"),
        inside(on, f"(cat /etc/passwd; echo {entry}) > {PRIVATE}/passwd; mount --bind {PRIVATE}/passwd /etc/passwd"),
    )


def logind_keeps(launch: Launch) -> None:
    """RemoveIPC=no on every host that has the setting."""
    for host in launch.cluster:
        host.inside(f"[ ! -e {LOGIND} ] || printf '[Login]\\nRemoveIPC=no\\n' > {LOGIND}")


def memory_limit(megabytes: int, *hosts: int) -> Fault:
    """Return what is started on the hosts may use so much memory, all together."""
    return _in_cgroup(MEMORY, megabytes << 20, *hosts)


def process_limit(count: int, *hosts: int) -> Fault:
    """Return what is started on the hosts may have so many processes and threads, all together."""
    return _in_cgroup(PIDS, count, *hosts)


def _in_cgroup(kind: tuple[tuple[Path, str], ...], limit: int, *hosts: int) -> Fault:
    def inject(launch: Launch) -> None:
        for index in hosts:
            cgroup = limited_cgroup(launch.cluster[index], kind, limit)
            for start in launch.on(index):
                start.before += (f"echo $$ > {cgroup}/cgroup.procs",)

    return inject


def _until(true: Callable[[], bool], what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start within {seconds:.0f} s")
        time.sleep(0.01)

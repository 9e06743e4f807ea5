"""One host of a cluster: its own interfaces, files, processes, and what runs in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import IO, TYPE_CHECKING

from tests.helpers.programs import PATH
from tests.lab.harness.namespaces import Anchor, LabUnavailable, children, command_line, run

if TYPE_CHECKING:
    from tests.lab.harness.cluster import Cluster

ROOT = Path(__file__).resolve().parents[3]
"""The checkout that distdoctor is imported from."""
_PREFIXES = {Path(prefix).resolve() for prefix in (sys.base_prefix, sys.prefix)}
"""Where this Python lies, and its virtual environment."""
PRIVATE = "/run"
"""Where each host has a file system in memory of its own: its files live there and die with it."""
SHARED = "/mnt"
"""A file system in memory that all hosts of one cluster have in common, as a network file system is."""
TEMPORARY = Path("/tmp")
"""Each host has one of its own: what is made there, by a fix for instance, stays in the lab."""
NOBODY_UID = 65534
_DROPPED = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "PYTHONPATH", "TMPDIR", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
)  # fmt: skip
_DROPPED_PREFIXES = ("PET_", "GLOO_", "NCCL_", "TORCH", "SLURM_", "PYTEST_", "COV_", "DISTDOCTOR_")


def clean_environment() -> dict[str, str]:
    """This process's environment without anything that a launcher, a backend or a test runner put there."""
    kept = {k: v for k, v in os.environ.items() if k not in _DROPPED and not k.startswith(_DROPPED_PREFIXES)}
    path = f"{Path(sys.executable).parent}:{PATH}"  # as in root's shell, with the environment activated
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": f"{PRIVATE}/tmp", "PYTHONUNBUFFERED": "1"}


class Process(subprocess.Popen[str]):
    """A process started inside a host; its signals go to the process itself, not to the nsenter before it."""

    @property
    def inner(self) -> int | None:
        """The number, out here, of the process inside; None once it is gone."""
        below = children(self.pid)
        return below[0] if below else None

    def send_signal(self, sig: int) -> None:
        """Send ``sig`` to the process inside. Does nothing where it is gone."""
        inner = self.inner
        if inner is not None and self.poll() is None:
            os.kill(inner, sig)

    def kill(self) -> None:
        """SIGKILL to the process inside."""
        self.send_signal(signal.SIGKILL)


class Host:
    """One host of the cluster."""

    def __init__(self, cluster: Cluster, index: int, name: str, switch: Anchor) -> None:
        self.cluster, self.index, self.name = cluster, index, name
        self.anchor = Anchor(outer=switch)
        self.addresses: list[str] = []
        """Its addresses on the cluster's networks, in the order in which they were added."""
        self._own: list[Process] = []
        self._closing: list[Callable[[], None]] = []
        self._kept = [path for path in (ROOT, *_PREFIXES, *cluster.shown) if TEMPORARY in path.parents]
        self._prepare()

    def _prepare(self) -> None:
        """Own file system in memory, host name, loopback, hosts and resolver files."""
        files = {"/etc/hosts": "", "/etc/resolv.conf": "nameserver 127.0.0.1\n"}
        if Path("/etc/nsswitch.conf").exists():  # no myhostname, resolve or mdns: they know names that files do not
            files["/etc/nsswitch.conf"] = "passwd: files\ngroup: files\nhosts: files dns\n"
        # Targets first: /etc/resolv.conf is often a link into /run, which is about to be covered.
        targets = {path: Path(path).resolve() for path in files}
        script = [
            "set -e",
            f"mount -t tmpfs -o mode=755 lab {PRIVATE}",
            "mount -t tmpfs -o mode=1777 lab /dev/shm",
            f"mkdir -m 1777 {PRIVATE}/tmp {PRIVATE}/lock",
            f"mkdir {PRIVATE}/lab",
            *_cover(TEMPORARY, self._kept),
            "ip link set lo up",
            f"{quote(sys.executable)} -S -E -c 'import socket; socket.sethostname(\"{self.name}\")'",
            *(
                f"echo 0 > /proc/sys/net/ipv6/conf/{which}/{key} || true"
                for which in ("all", "default")
                for key in ("accept_dad", "accept_ra")
            ),
        ]
        for path, target in targets.items():
            own = f"{PRIVATE}/lab/{Path(path).name}"
            script += [f"touch {own}", f"mkdir -p {target.parent}", f"[ -e {target} ] || touch {target}"]
            script += [f"mount --bind {own} {target}"]
        self.inside("\n".join(script))
        for path, text in files.items():
            self._file(path).write_text(text)

    def _file(self, path: str) -> Path:
        return self.anchor.path(f"{PRIVATE}/lab/{Path(path).name}")

    @property
    def hosts_file(self) -> str:
        """The text of its /etc/hosts."""
        return self._file("/etc/hosts").read_text()

    @hosts_file.setter
    def hosts_file(self, text: str) -> None:
        self._file("/etc/hosts").write_text(text)

    @property
    def address(self) -> str:
        """Its first address on the cluster's network."""
        return self.addresses[0]

    # -- running things inside ----------------------------------------------------------------------------------

    def inside(self, script: str) -> str:
        """Run a shell script of the lab's own as root inside and give its output. Raises RuntimeError."""
        return run([*self.anchor.enter(), "sh", "-c", script])

    def environment(self, env: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Return what a command inside gets: a clean environment, changed by ``env`` (None: unset)."""
        changed: dict[str, str | None] = {**clean_environment(), "HOSTNAME": self.name, **(env or {})}
        return {key: value for key, value in changed.items() if value is not None}

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        uid: int = 0,
        stdout: int | IO[str] | None = subprocess.PIPE,
        stderr: int | IO[str] | None = subprocess.PIPE,
        stdin: int | IO[str] | None = subprocess.DEVNULL,
    ) -> Process:
        """Start ``command`` inside, in the folder ``/``, as user number ``uid``, in a session of its own."""
        if not self.anchor.has_user(uid):
            raise LabUnavailable("no user but root in here; that needs root")
        as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"] if uid else []
        process = Process(
            [*self.anchor.enter(), "env", "-C", "/", "--", *as_user, *command],
            env=self.environment(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._own.append(process)
        return process

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None, uid: int = 0, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` inside to its end. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        process = self.popen(command, env=env, uid=uid)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(list(command), process.returncode, out, err)

    def sh(self, script: str, *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a shell script inside to its end, whatever its status."""
        return self.run(["sh", "-c", script], timeout=timeout)

    def python(self, code: str, *args: str, uid: int = 0, wait_for: str | None = None) -> Process:
        """Start a Python program inside; with ``wait_for``, return once it has printed that line."""
        process = self.popen([sys.executable, "-u", "-c", code, *args], uid=uid)
        if wait_for is not None:
            assert process.stdout is not None
            line = process.stdout.readline()
            if line.strip() != wait_for:
                raise RuntimeError(f"expected {wait_for!r}, got {line!r}: {process.communicate(timeout=5)}")
        return process

    def open_to_users(self) -> None:
        """Let users other than root reach this Python and this checkout, where they lie in folders closed to them.

        The checkout is copied, as its files themselves may be closed too. Nothing outside this host is changed.
        """
        closed = {f for p in (*_PREFIXES, ROOT) for f in p.parents if not f.stat().st_mode & 0o001}
        outermost = [folder for folder in closed if not closed & set(folder.parents)]
        covered = [ROOT, *(p for p in _PREFIXES if {ROOT, *closed} & set(p.parents))]
        script = ["set -e"]
        for number, path in enumerate(covered):
            own = f"{PRIVATE}/open/{number}"
            script.append(f"mkdir -p {own}")
            if path == ROOT:
                script += [f"cp -R {quote(f'{ROOT}/{part}')} {own}" for part in ("distdoctor", "checks")]
                script.append(f"chmod -R a+rX {own}")
            else:
                script.append(f"mount --bind {quote(str(path))} {own}")
        script += [f"mount -t tmpfs -o mode=755 lab {quote(str(folder))}" for folder in outermost]
        # From the top down: the virtual environment often lies within the checkout.
        for number, path in sorted(enumerate(covered), key=lambda pair: len(pair[1].parents)):
            script += [f"mkdir -p {quote(str(path))}", f"mount --bind {PRIVATE}/open/{number} {quote(str(path))}"]
        self.inside("\n".join(script))

    # -- interfaces ---------------------------------------------------------------------------------------------

    def add_interface(self, name: str, *addresses: str, bridge: str | None = None) -> None:
        """Add an interface with ``addresses`` (each with /prefix), plugged into ``bridge`` of the switch.

        Without ``bridge`` nothing is at its other end: a bridge of the host's own, as docker0 is.
        """
        if bridge is None:
            self.inside(f"ip link add {name} type bridge && ip link set {name} up")
        else:
            self.cluster.plug(self, name, bridge)
        for address in addresses:
            nodad = " nodad" if ":" in address else ""
            self.inside(f"ip address add {address} dev {name}{nodad}")

    # -- what is left -------------------------------------------------------------------------------------------

    def processes(self) -> dict[int, str]:
        """The processes inside, by their numbers out here, with their commands."""
        return {pid: command_line(pid) for pid in self.anchor.pids()}

    def bound_ports(self) -> dict[int, str]:
        """The TCP ports that something inside holds, each ``LISTEN`` or the number of another state."""
        ports: dict[int, str] = {}
        for family in ("tcp", "tcp6"):
            # The file of the anchor, not of this process: /proc/net is per network namespace.
            for line in Path(f"/proc/{self.anchor.pid}/net/{family}").read_text().splitlines()[1:]:
                fields = line.split()
                port, state = int(fields[1].rpartition(":")[2], 16), fields[3]
                if state == "0A":
                    ports[port] = "LISTEN"
                elif fields[9] != "0":  # without an inode it is the kernel's: TIME_WAIT and the like
                    ports.setdefault(port, state)
        return ports

    def files(self) -> list[str]:
        """The files in its temporary folders and /dev/shm, without those out here that it may see."""
        known = {*self._kept, *(folder for path in self._kept for folder in path.parents)}
        found, folders = [], [Path(f"{PRIVATE}/tmp"), Path("/dev/shm"), TEMPORARY]
        while folders:
            folder = folders.pop()
            for entry in os.scandir(self.anchor.path(str(folder))):
                path = folder / entry.name
                if path not in known:
                    found.append(str(path))
                if entry.is_dir(follow_symlinks=False) and path not in self._kept:
                    folders.append(path)
        return sorted(found)

    def leftovers(self) -> list[str]:
        """Everything that a run left behind, in words; empty where it left nothing."""
        left = [f"process {pid}: {command}" for pid, command in self.processes().items()]
        left += [f"port {port}" for port in self.bound_ports()]
        return left + [f"file {path}" for path in self.files()]

    def when_closed(self, do: Callable[[], None]) -> None:
        """Have this done once everything inside was killed."""
        self._closing.append(do)

    def close(self) -> None:
        """Kill everything inside."""
        self.anchor.close()
        for process in self._own:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        while self._closing:
            self._closing.pop()()


def _cover(folder: Path, kept: Sequence[Path]) -> list[str]:
    """The commands after which ``folder`` is empty but for what lies at the ``kept`` paths below it."""
    outermost = [path for path in dict.fromkeys(kept) if not set(kept) & set(path.parents)]
    aside = [(quote(str(path)), f"{PRIVATE}/lab/kept{number}") for number, path in enumerate(outermost)]
    return [
        *(f"mkdir {place} && mount --rbind {path} {place}" for path, place in aside),
        f"mount -t tmpfs -o mode=1777 lab {folder}",
        *(f"mkdir -p {path} && mount --rbind {place} {path}" for path, place in aside),
    ]

"""sshd on the lab's hosts, each with a key of its own, and the configuration of a person who may log in to all.

Keys, pid files and configuration are in the folder that the hosts share, or in each host's own; nothing of /etc/ssh,
of anybody's ~/.ssh or of this machine's ~/.bashrc is read.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import PRIVATE, SHARED, Host, Process
from tests.launchers.harness.slurm import within

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
FOLDER = f"{SHARED}/ssh"
PROGRAM_FOLDER = f"{FOLDER}/bin"
"""Has an ``ssh`` that reads the configuration of the lab and no other; to be the first of PATH."""

SSHD = f"""HostKey {PRIVATE}/ssh-key
PidFile {PRIVATE}/sshd.pid
AuthorizedKeysFile {FOLDER}/user.pub
StrictModes no
PermitRootLogin yes
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 200
"""
CONFIG = f"""Host *
  IdentityFile {FOLDER}/user
  IdentitiesOnly yes
  UserKnownHostsFile {FOLDER}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


class Sshd:
    """sshd on ``hosts``, for whom every host of the cluster has a key."""

    def __init__(self, cluster: Cluster, hosts: Sequence[Host]) -> None:
        self.cluster, self.hosts = cluster, hosts
        self._daemons: dict[str, Process] = {}
        self.folder.mkdir(mode=0o755)
        _keygen(self.folder / "user")
        self._keys: dict[str, str] = {}
        """What is known of each host."""
        for host in hosts:
            self._keys[host.name] = self.new_key(host)
        self._write_known_hosts()
        (self.folder / "config").write_text(CONFIG)
        (self.folder / "bin").mkdir()
        program = self.folder / "bin/ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {FOLDER}/config "$@"\n')
        program.chmod(0o755)
        for host in hosts:
            self.start(host)
        for host in hosts:
            within(5, f"sshd on {host.name}", lambda host=host: 22 in host.bound_ports())  # type: ignore[misc]

    @property
    def folder(self) -> Path:
        """Return where this process finds what all share."""
        return self.cluster.shared / "ssh"

    def new_key(self, host: Host) -> str:
        """Give the host a new key, as after it was installed anew; the public one."""
        key = self._key(host)
        for path in (key, key.with_name("ssh-key.pub")):
            path.unlink(missing_ok=True)
        _keygen(key)
        return " ".join(key.with_name("ssh-key.pub").read_text().split()[:2])

    def mend(self, host: Host) -> None:
        """Its sshd as it was at first, and its key known."""
        known = " ".join(self._key(host).with_name("ssh-key.pub").read_text().split()[:2])
        if host.name in self._daemons:
            self.stop(host)
        if known != self._keys[host.name]:
            self._keys[host.name] = known
            self._write_known_hosts()
        self.start(host)
        within(5, f"sshd on {host.name}", lambda: 22 in host.bound_ports())

    def _key(self, host: Host) -> Path:
        return host.anchor.path(f"{PRIVATE}/ssh-key")

    def _write_known_hosts(self) -> None:
        (self.folder / "known_hosts").write_text("".join(f"{name} {key}\n" for name, key in self._keys.items()))

    def start(self, host: Host, more: str = "") -> None:
        """Start its sshd, with further lines of configuration before the usual ones."""
        host.anchor.path(f"{PRIVATE}/sshd_config").write_text(more + SSHD)
        host.inside("mkdir -p /run/sshd")  # sshd refuses to start without the folder for its privilege separation
        # A shell that sshd starts reads it; one that waits for a lock (pyenv's) would be waited for on every host.
        host.inside("! [ -e ~root/.bashrc ] || mount --bind /dev/null ~root/.bashrc")
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", f"{PRIVATE}/sshd_config"]
        out = subprocess.DEVNULL
        self._daemons[host.name] = host.popen(command, stdout=out, stderr=out)

    def stop(self, host: Host, *, connections: bool = False) -> None:
        """Stop listening; with ``connections`` those that are there end, too."""
        if connections:
            for pid, command in host.processes().items():
                if command.startswith("sshd:"):
                    os.kill(pid, signal.SIGKILL)
        daemon = self._daemons.pop(host.name)
        daemon.kill()
        daemon.wait()

    def restart(self, host: Host, more: str = "") -> None:
        """Start it anew, with other lines of configuration or with another key."""
        self.stop(host)
        self.start(host, more)
        within(5, f"sshd on {host.name}", lambda: 22 in host.bound_ports())

    def close(self) -> None:
        """End all of them."""
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=20)

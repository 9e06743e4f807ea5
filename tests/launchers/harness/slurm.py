"""A real SLURM on the lab's hosts: slurmctld on one of them, a slurmd on each node, one munged for all.

    with Slurm(cluster, controller="login") as slurm:
        slurm.run(["srun", "-N2", "hostname"])

Everything is in the folder that the hosts share or in each host's own; nothing of /etc/slurm or /etc/munge is read.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import SHARED, Host, Process

PROGRAMS = ("slurmctld", "slurmd", "srun", "sinfo", "munged")
FOLDER = f"{SHARED}/slurm"
SOCKET = f"{FOLDER}/munge/socket"

# proctrack/linuxproc, task/none, jobacct_gather/none: no cgroup is needed. config_overrides: CPUs= is believed, so that
# more tasks fit than this machine has processors. sched/backfill: sched/builtin refuses heterogeneous jobs.
CONF = f"""ClusterName=lab
SlurmctldHost={{controller}}
AuthType=auth/munge
AuthInfo=socket={SOCKET}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1
ReturnToService=2
SlurmUser=root
SlurmdParameters=config_overrides
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
StateSaveLocation={FOLDER}/state
SlurmctldLogFile={FOLDER}/log/slurmctld
SlurmdLogFile={FOLDER}/log/slurmd-%n
SlurmdTimeout=10
KillWait=5
MinJobAge=10
{{extra}}
NodeName={{nodes}} CPUs={{cpus}} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
LIMITS_MEMORY = {
    "TaskPlugin=task/none": "TaskPlugin=task/cgroup",
    "SelectTypeParameters=CR_CPU": "SelectTypeParameters=CR_CPU_Memory",
    " State=UNKNOWN": " RealMemory=2000 State=UNKNOWN",
}
"""What else slurm.conf says of nodes that keep their jobs to the memory they asked for."""
CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"


class Slurm:
    """SLURM on the hosts of ``cluster``: a controller, on which people type, and the others as nodes.

    ``cpus``: processors that each node claims. ``extra``: further lines of slurm.conf.
    ``files``: further files beside it. ``limits_memory``: a step that
    takes more than it asked for is killed by the kernel; needs cgroup v1 (:data:`MEMORY_CGROUPS`).
    """

    def __init__(
        self,
        cluster: Cluster,
        controller: str,
        *,
        cpus: int = 4,
        extra: str = "",
        limits_memory: bool = False,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.controller = cluster.by_name(controller)
        self.nodes = [host for host in cluster if host is not self.controller]
        self._cluster, self._daemons = cluster, dict[str, Process]()
        names = ",".join(host.name for host in self.nodes)
        self._conf = CONF.format(controller=controller, nodes=names, cpus=cpus, extra=extra)
        self._limits_memory, self._files = limits_memory, files or {}
        for line, instead in LIMITS_MEMORY.items() if limits_memory else ():
            self._conf = self._conf.replace(line, instead)

    def __enter__(self) -> Slurm:
        folder = self._cluster.shared / "slurm"
        for name in ("", "state", "log", "munge"):
            (folder / name).mkdir(mode=0o755)
        for name, text in {**self._files, "slurm.conf": self._conf}.items():
            (folder / name).write_text(text)
        if self._limits_memory:
            (folder / "cgroup.conf").write_text(CGROUP_CONF)
        self._munge(self.controller)
        within(60, "munge's socket", (folder / "munge/socket").exists)
        self._start(self.controller, ["slurmctld", "-D", "-i"])
        for node in self.nodes:
            self.boot(node)
        within(60, f"{len(self.nodes)} idle nodes", lambda: len(self._idle()) == len(self.nodes))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End its daemons; the steps that they started end with the hosts."""
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        for node in self.nodes if self._limits_memory else ():
            for left, _, _ in os.walk(MEMORY_CGROUPS / f"slurm_{node.name}", topdown=False):
                with suppress(OSError):  # a step that is not gone yet
                    os.rmdir(left)

    def boot(self, node: Host) -> None:
        """Start the slurmd of a node."""
        self._start(node, ["slurmd", "-D", "-N", node.name])

    def crash(self, node: Host) -> None:
        """Kill the slurmd of a node; the node itself stays."""
        daemon = self._daemons.pop(f"{node.name} slurmd")
        daemon.kill()
        daemon.wait()

    def bad_key(self, node: Host) -> None:
        """The node gets another munge key, as after an installation that went wrong."""
        self.crash(node)
        node.inside("mkdir -p /run/munge")
        self._munge(node, "/run/munge")
        within(60, "munge's socket", node.anchor.path("/run/munge/socket").exists)
        node.inside(f"mount --bind /run/munge {FOLDER}/munge")
        self.boot(node)

    def mend(self, node: Host) -> None:
        """Its slurmd and its key as they were at first, and no job left; the node is idle again."""
        if f"{node.name} slurmd" in self._daemons:
            self.crash(node)
        if munged := self._daemons.pop(f"{node.name} munged", None):
            munged.kill()
            munged.wait()
            node.inside(f"umount {FOLDER}/munge")
        self.boot(node)
        within(90, f"idle {node.name}", lambda: node.name in self._idle())

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on the controller to its end, as a person does who is logged in there."""
        return self.controller.run(command, env={**environment(), **(env or {})}, timeout=timeout)

    def popen(self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None) -> Process:
        """Start ``command`` on the controller."""
        return self.controller.popen(command, env={**environment(), **(env or {})})

    def log(self) -> str:
        """The ends of what its daemons wrote."""
        files = sorted((self._cluster.shared / "slurm/log").glob("*"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files)

    def _munge(self, host: Host, folder: str = f"{FOLDER}/munge") -> None:
        key = host.anchor.path(f"{folder}/key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        options = [f"--{option}={folder}/{name}" for option, name in files.items()]
        self._start(host, ["munged", "--foreground", "--force", *options])  # --force: as root, in a folder open to all

    def _start(self, host: Host, command: Sequence[str]) -> None:
        out = subprocess.DEVNULL
        daemon = host.popen(command, env=environment(), stdout=out, stderr=out)
        self._daemons[f"{host.name} {command[0]}"] = daemon

    def _idle(self) -> list[str]:
        return self.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], timeout=20).stdout.split()


def environment() -> dict[str, str]:
    """Return what SLURM's commands and daemons need; slurmd hands it on to every task."""
    return {"SLURM_CONF": f"{FOLDER}/slurm.conf"}


def within(seconds: float, what: str, there: Callable[[], bool]) -> None:
    """Wait until ``there`` says so. Raises RuntimeError after ``seconds``."""
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise RuntimeError(f"no {what} within {seconds:g} s")
        time.sleep(0.05)

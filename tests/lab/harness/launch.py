"""How the job of a case is started: one process per node, or one per rank, each with its flags and variables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from distdoctor.model.launch_settings import (
    LAUNCH_VARIABLES,
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
    RDZV_ID,
    SETTINGS,
)
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import Host, Process

Style = Literal["node", "unset", "pet", "rank", "torchrun", "c10d", "launch"]
"""node: once per node with --node-rank. unset: without. pet: by PET_* variables alone. rank: once per rank with RANK
and the like set by hand (one rank per node). torchrun, c10d: below torchrun, static and with the c10d rendezvous.
launch: below the deprecated torch.distributed.launch, which adds --local-rank=N."""

DISTDOCTOR = (sys.executable, "-m", "distdoctor")
PORT = 29500
C10D_PORT = 29400
BY_FLAG = {setting.flag: setting for setting in SETTINGS if setting.flag}


@dataclass
class Start:
    """The start of one process (a node's launcher or one rank) on one host. Faults and fixes change it."""

    host: Host
    node_rank: int
    flags: dict[str, str | None] = field(default_factory=dict)
    """Flags of the launch line (torchrun's, or distdoctor's own where nothing stands before it); None: left out."""
    env: dict[str, str | None] = field(default_factory=dict)
    """Variables set for it; None: unset."""
    delay: float = 0.0
    """Seconds after the first start."""
    started: bool = True
    uid: int = 0
    before: tuple[str, ...] = ()
    """Shell lines that come before it in the shell that starts it, such as ``ulimit -n 64``."""


@dataclass
class Launch:
    """The job of one case on a cluster."""

    cluster: Cluster
    style: Style = "node"
    nproc: int = 2
    check_flags: tuple[str, ...] = ()
    """Flags of ``distdoctor check`` itself, the same everywhere."""
    starts: list[Start] = field(default_factory=list)
    master: str | None = None
    """MASTER_ADDR; the first host's name unless told."""
    line: tuple[str, ...] = ()
    """Start line of an engine, behind ``distdoctor check --``; its options for each node are the flags."""

    def __post_init__(self) -> None:
        if not self.starts:
            self.starts = [Start(host, host.index) for host in self.cluster]
            for start in self.starts:
                self._fill(start)

    def _fill(self, start: Start) -> None:
        master, nnodes = self.master or self.cluster[0].name, str(len(self.cluster))
        if self.line:
            place = (
                {"--dist-init-addr": f"{master}:{PORT}"}
                if "sglang" in " ".join(self.line)
                else {"--master-addr": master}
            )
            start.flags |= {"--nnodes": nnodes, "--node-rank": str(start.node_rank), **place} if nnodes != "1" else {}
            return
        if self.style == "rank":
            values = (str(start.node_rank), nnodes, master, str(PORT))
            start.env |= dict(zip(LAUNCH_VARIABLES, values, strict=True))
            return
        given = {NNODES: nnodes, NPROC_PER_NODE: str(self.nproc)}
        if self.style == "c10d":
            given |= {RDZV_BACKEND: "c10d", RDZV_ENDPOINT: f"{master}:{C10D_PORT}", RDZV_ID: "lab"}
        else:
            given |= {NODE_RANK: str(start.node_rank), MASTER_ADDR: master}
        if self.style == "unset":
            del given[NODE_RANK]
        if self.style == "pet":
            start.env |= {setting.pet: value for setting, value in given.items()}
        else:
            start.flags |= {setting.flag: value for setting, value in given.items()}

    def on(self, host: int | str) -> list[Start]:
        """The starts on one host, by its number or name."""
        return [s for s in self.starts if host in (s.host.index, s.host.name)]

    def command(self, start: Start, *after: str) -> list[str]:
        """The command line of one start; ``after`` are further flags of ``distdoctor check``."""
        flags = [part for flag, value in start.flags.items() if value is not None for part in (flag, value)]
        check = ["check", *self.check_flags, *after]
        if self.line:
            return [*DISTDOCTOR, *check, "--", *self.line, *flags]
        if self.style in ("node", "unset", "pet", "rank"):
            return [*DISTDOCTOR, *check, *flags]
        module = "launch" if self.style == "launch" else "run"
        return [sys.executable, "-m", f"torch.distributed.{module}", *flags, "-m", "distdoctor", *check]

    def popen(self, start: Start, *after: str) -> Process:
        """Start it on its host, with pipes for stdout and stderr."""
        command = self.command(start, *after)
        if start.before:
            # bash where there is one, as people have it: the limits that ulimit knows differ from shell to shell.
            command = [shutil.which("bash") or "sh", "-c", "\n".join([*start.before, 'exec "$@"']), "sh", *command]
        return start.host.popen(command, env=start.env, uid=start.uid)

    def set_flag(self, start: Start, flag: str, value: str | None) -> None:
        """Change the launch line as a person would: by the flag, or by the variable where only variables are used."""
        setting = BY_FLAG.get(flag)
        if self.style == "rank" and setting is not None and setting in (MASTER_ADDR, MASTER_PORT):
            start.env[setting.variables[0]] = value
        elif self.style == "pet" and setting is not None:
            start.env[setting.pet] = value
        else:
            start.flags[flag] = value

    def copy(self) -> Launch:
        """The same launch again, which can be changed without changing this one."""
        starts = [replace(s, flags=dict(s.flags), env=dict(s.env)) for s in self.starts]
        return replace(self, starts=starts)


Fault = Callable[[Launch], None]
"""Makes something wrong (or odd) on the cluster or in the launch, before anything is started."""

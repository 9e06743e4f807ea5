"""A site as people have it: three nodes with sshd and SLURM, and a login node on which everything is typed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

from tests.helpers.programs import missing
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import PRIVATE, SHARED, Host, Process
from tests.lab.harness.namespaces import why_not
from tests.launchers.harness import slurm, sshd

LOGIN = "login"
JOB = f"{SHARED}/job"
"""How a job of the site is started: with what its node sets for it (:meth:`Site.sets`)."""
JOB_SCRIPT = f"""#!/bin/sh
[ ! -r {PRIVATE}/lab/job.env ] || . {PRIVATE}/lab/job.env
exec "$@"
"""


class Site:
    """``nodes`` hosts host0, host1 ... and ``login``; a context manager. Starts what is first used of it."""

    def __init__(self, nodes: int = 3) -> None:
        self.cluster = Cluster([*(f"host{number}" for number in range(nodes)), LOGIN])
        self._stack = ExitStack()
        self._sshd: sshd.Sshd | None = None
        self._slurm: slurm.Slurm | None = None

    def __enter__(self) -> Site:
        self._stack.enter_context(self.cluster)
        self.cluster.put("job", JOB_SCRIPT)
        (self.cluster.shared / "job").chmod(0o755)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def login(self) -> Host:
        """Return where people type."""
        return self.cluster.by_name(LOGIN)

    @property
    def nodes(self) -> list[Host]:
        """Return where jobs run."""
        return [host for host in self.cluster if host.name != LOGIN]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [host.name for host in self.nodes]

    @property
    def sshd(self) -> sshd.Sshd:
        """Its sshd, on every host."""
        if self._sshd is None:
            self._sshd = sshd.Sshd(self.cluster, self.cluster.hosts)
        return self._sshd

    @property
    def slurm(self) -> slurm.Slurm:
        """Its SLURM."""
        if self._slurm is None:
            self._slurm = self._stack.enter_context(slurm.Slurm(self.cluster, LOGIN))
        return self._slurm

    def sets(self, host: int | str, **variables: str) -> None:
        """From now on jobs have these variables on that node, as from its profile; none: what was set is gone."""
        node = self.cluster[host] if isinstance(host, int) else self.cluster.by_name(host)
        lines = [f"export {name}='{value}'\n" for name, value in variables.items()]
        node.anchor.path(f"{PRIVATE}/lab/job.env").write_text("".join(lines))

    def popen(self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None) -> Process:
        """Start ``command`` on the login node."""
        return self.login.popen(command, env={**self._environment(), **(env or {})})

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None, timeout: float = 170
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on the login node to its end."""
        return self.login.run(command, env={**self._environment(), **(env or {})}, timeout=timeout)

    def _environment(self) -> dict[str, str | None]:
        path = self.login.environment()["PATH"]
        return {**slurm.environment(), "PATH": f"{sshd.PROGRAM_FOLDER}:{path}"}


def unfit(*programs: str) -> str | None:
    """Why there is no such site here, None where there is."""
    if os.geteuid() != 0:
        return "daemons of a site need root"
    return why_not() or missing(programs)


def python_module(module: str, *arguments: str) -> list[str]:
    """The command of a Python module in the environment of the tests, started as a job of the site."""
    return [JOB, sys.executable, "-m", module, *arguments]

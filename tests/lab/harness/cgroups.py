"""Control groups for what is started on a host of the lab."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from tests.lab.harness.host import Host
from tests.lab.harness.namespaces import LabUnavailable

MEMORY = ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max"))
"""Of cgroup v1, and of v2: where a group with a limit of memory is made, and the file that has it."""
PIDS = ((Path("/sys/fs/cgroup/pids"), "pids.max"), (Path("/sys/fs/cgroup"), "pids.max"))
"""The same for the number of processes and threads."""
REMOVED_WITHIN = 5.0


def limited_cgroup(host: Host, kind: tuple[tuple[Path, str], ...], limit: int) -> Path:
    """A new control group with this limit of ``MEMORY`` (in bytes) or ``PIDS``. It is removed when the host is closed.

    Raises LabUnavailable where none can be made.
    """
    for root, name in kind:
        cgroup = root / f"distdoctor-lab-{os.getpid()}-{host.name}-{time.monotonic_ns()}"
        try:
            cgroup.mkdir()
        except OSError:
            continue
        host.when_closed(lambda made=cgroup: _remove(made))  # type: ignore[misc]
        try:
            (cgroup / name).write_text(str(limit))
            return cgroup
        except OSError:
            continue
    raise LabUnavailable(f"no control group with {kind[-1][1]} can be made here")


FROZEN = "cgroup.freeze"
"""The file of a group of cgroup v2 that freezes what is in it; it can be killed all the same."""


def freezer(host: Host) -> Path:
    """A new control group that can be frozen. It is removed when the host is closed. Raises LabUnavailable."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        group = root / f"distdoctor-lab-{os.getpid()}-{host.name}-{time.monotonic_ns()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / FROZEN).exists():
            host.when_closed(lambda made=group: _remove(made))  # type: ignore[misc]
            return group
        group.rmdir()
    raise LabUnavailable("no control group that can be frozen can be made here")


def _remove(cgroup: Path) -> None:
    """It can be removed only when the last process in it is gone."""
    deadline = time.monotonic() + REMOVED_WITHIN
    while True:
        try:
            cgroup.rmdir()
            return
        except OSError as err:
            if err.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)

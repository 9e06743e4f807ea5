"""A memory limit of a cgroup that a host of the lab is put into, and what the kernel writes when it is reached."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.harness.namespaces import LabUnavailable

GROUP = Path("/sys/fs/cgroup/memory/distdoctor-lab")
LIMIT = 1200 << 20
"""Bytes: enough for a launcher and a rank that have imported torch."""
ENTER = (
    "mkdir -p /run/memory && mount -t cgroup -o memory none /run/memory "
    f"&& echo $$ > /run/memory/{GROUP.name}/cgroup.procs"
)
"""What a shell of a host of the lab, which does not see this machine's own mounts, runs to be in it."""


@contextmanager
def limited() -> Iterator[None]:
    """The cgroup (version 1), gone at the end. Raises LabUnavailable where there can be none."""
    try:
        GROUP.mkdir()
        (GROUP / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError as err:
        raise LabUnavailable(f"no memory cgroup can be made: {err}") from None
    try:
        yield
    finally:
        for _ in range(50):
            try:
                GROUP.rmdir()
                break
            except OSError:  # what was killed is not gone yet
                time.sleep(0.1)


def kernel_log() -> list[str]:
    """The lines of dmesg."""
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines(keepends=True)


def killings(before: list[str], after: list[str]) -> str:
    """Return what dmesg told in between of want of memory in this cgroup: from the first such line to the last."""
    new = after[after.index(before[-1]) + 1 :] if before and before[-1] in after else after
    about = [number for number, line in enumerate(new) if "oom" in line.lower() or "out of memory" in line]
    return "".join(new[about[0] : about[-1] + 1]) if about else ""

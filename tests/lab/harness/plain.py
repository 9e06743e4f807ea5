"""What plain PyTorch does on the hosts of a launch: the truth that the doctor's word is held against."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping

from tests.lab.harness.launch import PORT, Launch

JOB = """
import datetime, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
for elements in (4, 300_000):
    value = torch.ones(elements)
    dist.all_reduce(value)
    assert value[0].item() == dist.get_world_size()
dist.barrier()
print("done", flush=True)
time.sleep(0.5)  # the others may still read what this one has sent
dist.destroy_process_group()
"""
SECONDS = 6.0
"""The timeout of its process group: what takes longer would take for ever."""
LIMIT = 25.0
"""Seconds after which a rank that has not ended counts as hanging: gloo waits five times as long for a connection."""


def runs(
    launch: Launch,
    env: Mapping[str, str | None] | None = None,
    *,
    per_host: int = 1,
    seconds: float = SECONDS,
    limit: float = LIMIT,
) -> bool:
    """Return whether a job of ``per_host`` ranks on each host, by env://, ends well on every host.

    With the variables and the shell lines of each host's start, and then ``env``. ``seconds``: the timeout of its
    process group; ``limit``: seconds after which a rank that has not ended counts as hanging.
    """
    master = launch.master or launch.cluster[0].address
    processes = []
    for start, place in ((start, place) for start in launch.starts for place in range(per_host)):
        own = {"RANK": str(start.node_rank * per_host + place), "WORLD_SIZE": str(len(launch.starts) * per_host)}
        own |= {"MASTER_ADDR": master, "MASTER_PORT": str(PORT)}
        command = [
            shutil.which("bash") or "sh",
            "-c",
            "\n".join([*start.before, 'exec "$@"']),
            "sh",
            sys.executable,
            "-c",
            JOB,
            f"{seconds:g}",
        ]
        processes.append(start.host.popen(command, env={**start.env, **own, **(env or {})}, uid=start.uid))
    end = time.monotonic() + limit
    well = True
    for process in processes:
        try:
            out, _ = process.communicate(timeout=max(0.1, end - time.monotonic()) if well else 0.1)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        well = well and "done" in out
    return well

"""Nodes of a Ray cluster as hosts of a remote run: an actor of Ray on each node of the job.

Ray itself runs in a process of its own (``ray_driver``), in the first Python that has it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.resources
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.errors import UsageError
from distdoctor.remote.transports import HostTarget, NamedHost

CONNECT_SECONDS = 60.0
"""Limit of a driver's start: it imports Ray and connects to the cluster, within 2 to 5 s on an idle machine."""
LEAVE_SECONDS = 5.0
_HAS_RAY = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)"
CALLER = (
    "import json, socket, sys\n"
    "to = socket.socket(socket.AF_UNIX)\n"
    "to.connect(sys.argv[1])\n"
    "wanted = {'node': sys.argv[2], 'gpus': int(sys.argv[3]), 'argv': sys.argv[4:]}\n"
    "socket.send_fds(to, [json.dumps(wanted).encode()], [0, 1, 2])\n"
    "sys.exit(int(to.recv(16) or 255))\n"
)
"""Program that asks the driver for one command: the driver reads its stdin and writes its output itself."""


PLACE = -2
"""Index of the node's id, or of the bundle, in the command of a target."""


def nodes_of(address: str) -> tuple[tuple[HostTarget, ...], tuple[str, ...]]:
    """Return the live nodes of a Ray cluster, this one first, and a text on each dead one whose address is not in use.

    Raises UsageError if Ray is not installed or no cluster answers.
    """
    answer = _ask(address)
    if "error" in answer:
        raise UsageError(f"--ray: no Ray cluster answered at {address}: {answer['error']}")
    live = [one for one in answer["nodes"] if one["alive"]]
    names = [one["name"] for one in live]
    there = {one["address"] for one in live}
    dead = {
        one["address"]: f"{one['name']} ({one['address']}) is dead: {one['death'] or 'no reason is known'}"
        for one in answer["nodes"]
        if one["address"] not in there
    }
    targets = tuple(
        HostTarget(
            NamedHost(one["name"] if names.count(one["name"]) == 1 else f"{one['name']}-{one['node'][:8]}"),
            "ray",
            (sys.executable, "-S", "-E", "-c", CALLER, answer["socket"], one["node"], "0"),
            one["address"],
            gpus=one["gpus"],
            cpus=one["cpus"],
        )
        for one in live
    )
    return targets, tuple(dead.values())


def for_job(
    targets: Sequence[HostTarget], dead: Sequence[str], nnodes: int | None, ranks: int | None
) -> tuple[HostTarget, ...]:
    """Return the nodes of a job of ``nnodes`` with ``ranks`` each, and the GPUs that its actor takes there.

    In a cluster with GPUs only the nodes that have some can be a job's. Raises UsageError if there are too few.
    """
    with_gpus = nodes_with_gpus(targets)
    usable = with_gpus or [*targets]
    if nnodes is not None and nnodes > len(usable):
        kind = "nodes with GPUs" if with_gpus else "nodes"
        names = ", ".join(one.host.name for one in usable)
        raise UsageError(f"--ray: the cluster has {len(usable)} of {nnodes} {kind}: {'; '.join((names, *dead))}")
    return tuple(
        replace(one, before=(*one.before[:-1], str(min(one.gpus, ranks or one.gpus)))) for one in usable[:nnodes]
    )


def nodes_with_gpus(targets: Sequence[HostTarget]) -> list[HostTarget]:
    """Return the nodes that have GPUs: those of a job, if there are any."""
    return [one for one in targets if one.gpus]


def each_gpu(targets: Sequence[HostTarget]) -> tuple[HostTarget, ...]:
    """Return a target for each GPU that a job's actors take on these nodes, each with one rank. Raises UsageError."""
    found = tuple(
        replace(one, host=NamedHost(f"{one.host.name}-gpu{number}", 1), before=(*one.before[:-1], "1"), shares=True)
        for one in targets
        for number in range(int(one.before[-1]))
    )
    if not found:
        raise UsageError("--per-gpu: no node of this Ray cluster has a GPU")
    return found


def _ask(address: str) -> dict[str, Any]:
    """Start the driver, which ends with this process, and return its first line. Raises UsageError."""
    source = importlib.resources.files(__package__).joinpath("ray_driver.py").read_text()
    driver = subprocess.Popen(
        [_python(), "-c", source, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C in the terminal does not end it
        env={"RAY_USAGE_STATS_ENABLED": "0", **os.environ},
    )
    atexit.register(_leave, driver)
    assert driver.stdout is not None
    ready, _, _ = select.select([driver.stdout], [], [], CONNECT_SECONDS)
    try:
        answer = json.loads(driver.stdout.readline()) if ready else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        why = "its driver ended" if ready else f"no answer within {CONNECT_SECONDS:.0f} s"
        raise UsageError(f"--ray: no Ray cluster answered at {address}: {why}")
    return answer


def _leave(driver: subprocess.Popen[bytes]) -> None:
    """End the driver; its actors end with it."""
    assert driver.stdin is not None and driver.stdout is not None
    driver.stdin.close()
    driver.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        driver.wait(LEAVE_SECONDS)


def _python() -> str:
    """Return a Python that has Ray: this one, else that on PATH. Raises UsageError."""
    candidates = dict.fromkeys(filter(None, (sys.executable, shutil.which("python3"), shutil.which("python"))))
    for python in candidates:
        if subprocess.run([python, "-c", _HAS_RAY], capture_output=True, check=False).returncode == 0:
            return python
    raise UsageError(f"--ray needs Ray, which is in none of {', '.join(candidates)}: activate the job's environment")

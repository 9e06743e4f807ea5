"""The driver begins anew for each program that asks it, and takes long.

What you see
------------
nvidia-smi takes seconds to answer; each program on an idle GPU begins late, the first step of a job most of all; a job
of many processes misses a timeout that others keep.

Why it happens
--------------
Persistence mode is off: without a process that uses a GPU the driver puts it away, and readies it for the next one,
which takes a second or more for each GPU of the host.

Fix
---
The persistence daemon that comes with the driver (systemctl enable --now nvidia-persistenced), or nvidia-smi -pm 1, on
the host.

When it is harmless
-------------------
Where it takes little time, as on a host with one GPU; that is not told.

See also
--------
gpu/none-visible
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, gpus

SEVERITY = "warn"
MATTERS = "every process that begins on an idle GPU waits that long, and the others wait for it"
SLOW = 5.0
"""Seconds, of the driver's answer and of CUDA's start alike: NVIDIA (Driver Persistence) names 1 to 3 for a GPU."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        driver = gpus.driver(node)
        started = max((facts.started or 0.0 for facts in gpus.looked_at_gpus(node)), default=0.0)
        used = gpus.used_devices(node)
        off = bool(used) and all(device.persistence is False for device in used)
        if not off or min(driver.seconds or 0.0, started) < SLOW or not gpus.wants_gpus(node):
            continue
        yield Finding.about(
            [node],
            f"The GPUs of {node.name} take {started:.0f} s to begin: persistence mode is off.",
            evidence=[f"{node.name}: the driver answered after {driver.seconds:.1f} s, CUDA began in {started:.1f} s"],
            fixes=[
                Fix.on(
                    node,
                    "Keep the driver ready, on the host.",
                    commands=("systemctl enable --now nvidia-persistenced",),
                )
            ],
        )

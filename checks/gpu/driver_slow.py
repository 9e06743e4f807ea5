"""The driver starts again for each program, which takes seconds.

## What you see
nvidia-smi takes seconds to answer. Each program on an idle GPU starts late, above all the first step of a job. A job
with many processes misses a timeout.

## Why it happens
Persistence mode is off. The driver shuts a GPU down when no process uses it, and initializes it for the next process.
That takes a second or more for each GPU of the host.

## Fix
Start the persistence daemon on the host: `systemctl enable --now nvidia-persistenced`. Or run `nvidia-smi -pm 1`.

## Confirm with
`nvidia-smi --query-gpu=persistence_mode --format=csv` and `time nvidia-smi -L`.

## When it is harmless
When it takes little time, as on a host with one GPU; the check then reports nothing.

## See also
gpu/none-visible
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, gpus

SEVERITY = "warn"
MATTERS = "every process that starts on an idle GPU waits that long, and delays the others"
SLOW = 5.0
"""Seconds for the driver's answer and for CUDA's start; NVIDIA (Driver Persistence) names 1 to 3 for a GPU."""


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
            f"The GPUs of {node.name} take {started:.0f} s to start: persistence mode is off.",
            evidence=[
                f"{node.name}: the driver answered after {driver.seconds:.1f} s, CUDA started in {started:.1f} s"
            ],
            fixes=[
                Fix.on(
                    node,
                    "Start the persistence daemon on the host.",
                    commands=("systemctl enable --now nvidia-persistenced",),
                )
            ],
        )

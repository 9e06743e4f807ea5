"""A GPU computes slower than its like.

What you see
------------
Every step takes longer than on other nodes, and on all ranks: each collective waits for the slowest. Nothing fails.

Why it happens
--------------
Its clock is held down (heat, power, a limit that was set, a fault), or somebody else computes on it. The check
multiplies the same matrices on each GPU that the ranks take, several times, and compares the best time of each: with
the best of its own node, and with the median of its model in the job. No table says how fast a GPU ought to be.

Fix
---
nvidia-smi -q -d PERFORMANCE,CLOCK,POWER on the node while something computes; then its cooling, its limits, or another
node.

When it is harmless
-------------------
Where the job waits for data, and not for its GPUs.

See also
--------
gpu/throttled, gpu/busy, collective/slow-rank
"""

from collections.abc import Iterator
from statistics import median

from distdoctor.check_api import Cluster, Finding, Fix, Node, gpus

SEVERITY = "warn"
MATTERS = "every step takes as long as on the slowest GPU"
SLOW = 0.7
"""Of what it is compared with: a model's own GPUs differ by some per cent."""
LEAST = 3
"""GPUs of a model that make a median."""
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    timed = [
        (node, gpu, gpu.speed)
        for node in cluster.nodes
        if gpus.wants_gpus(node)
        for gpu in gpus.taken_gpus(node)
        if gpu.speed and not used_by_others(node, gpu)
    ]
    for node, gpu, speed in timed:
        alike = [(other, its) for other, one, its in timed if one.name == gpu.name]
        usual, best = median(its for _, its in alike), max(its for other, its in alike if other is node)
        alone = sum(other is node for other, _ in alike) == 1
        if len(alike) >= LEAST and speed < SLOW * usual and (alone or speed < SLOW * best):
            device = gpus.device_of(node, gpu)
            name = gpus.device_said(device) if device else f"device {gpu.index}"
            compared = "" if alone else f"; the best of its node: {best:.0f}"
            why = f"; clocks lowered: {', '.join(device.slowed)}" if device and device.slowed else ""
            yield Finding.about(
                [node],
                f"{name} on {node.name} computes at {100 * speed / usual:.0f} % of what its like do.",
                evidence=[
                    f"{node.name}: device {gpu.index}, {gpu.name}: {speed:.0f} products per second; the median of "
                    f"{len(alike)} of its model: {usual:.0f}{compared}{why}"
                ],
                fixes=[Fix.on(node, "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER there; then cool it, or leave it out.")],
            )


def used_by_others(node: Node, gpu: gpus.Gpu) -> bool:
    """Whether another process is on the device, which is told by gpu/busy where it matters."""
    device = gpus.device_of(node, gpu)
    return device is not None and bool(device.processes)

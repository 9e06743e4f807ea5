"""A GPU computes slower than its like.

What you see
------------
Every step takes longer than on other nodes, and on all ranks: each collective waits for the slowest. Nothing fails.

Why it happens
--------------
Its clock is held down (heat, power, a limit that was set, a fault), or somebody else computes on it. The check
multiplies the same matrices on each GPU that the ranks take, several times, and compares the best time of each with the
best GPU of its model on its own node, and from three of its model in the job on with their median. No table says how
fast a GPU ought to be: one alone on its node is not told apart from one other elsewhere.

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
from statistics import median_low

from distdoctor.check_api import Cluster, Finding, Fix, Node, gpus, together

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
        for gpu in gpus.used_gpus(node)
        if gpu.speed and not used_by_others(node, gpu)
    ]
    found: dict[Node, list[tuple[gpus.Gpu, float, dict[str, float]]]] = {}
    for node, gpu, speed in timed:
        alike = [(of, its) for of, one, its in timed if one.name == gpu.name]
        usual = {"the best of its model on its node": max(its for of, its in alike if of is node)}
        if len(alike) >= LEAST:
            usual[f"the median of {len(alike)} of its model"] = median_low(its for _, its in alike)
        if speed < SLOW * max(usual.values()):
            found.setdefault(node, []).append((gpu, speed, usual))
    for node, slow in found.items():
        shares = sorted(round(100 * speed / max(usual.values())) for _, speed, usual in slow)
        range_said = f"{shares[0]}" if shares[0] == shares[-1] else f"{shares[0]} to {shares[-1]}"
        verb = "computes" if len(slow) == 1 else "compute"
        yield Finding.about(
            [node],
            f"{together(said(node, gpu) for gpu, *_ in slow)} on {node.name} {verb} at {range_said} % of what its like "
            "do.",
            evidence=[evidence(node, *one) for one in slow],
            fixes=[Fix.on(node, "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER there; then cool it, or leave it out.")],
        )


def said(node: Node, gpu: gpus.Gpu) -> str:
    device = gpus.device_of(node, gpu)
    return gpus.device_text(device) if device else f"device {gpu.index}"


def evidence(node: Node, gpu: gpus.Gpu, speed: float, usual: dict[str, float]) -> str:
    device = gpus.device_of(node, gpu)
    why = f"; clocks lowered: {', '.join(device.slowed)}" if device and device.slowed else ""
    compared = "; ".join(f"{what}: {value:.0f}" for what, value in usual.items())
    return f"{node.name}: device {gpu.index}, {gpu.name}: {speed:.0f} products per second; {compared}{why}"


def used_by_others(node: Node, gpu: gpus.Gpu) -> bool:
    """Return whether another process is on the device, which is told by gpu/busy where it matters."""
    device = gpus.device_of(node, gpu)
    return device is not None and bool(device.processes)

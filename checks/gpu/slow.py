"""A GPU computes slower than its peers.

## What you see
Every step takes longer than on other nodes, on all ranks: each collective waits for the slowest. Nothing fails.

## Why it happens
Its clock is limited (heat, power, a configured limit, a fault), or another process computes on it. The check
multiplies the same matrices on each used GPU several times. It compares the best time of each GPU with the best GPU of
its model on its node. With three or more GPUs of a model in the job it also compares with their median. No table lists
the speed of a GPU: the check cannot judge one GPU per node with one GPU on another node.

## Fix
Restore its cooling or power (fans, cables, `nvidia-smi -i 3 -rgc`, `nvidia-smi -i 3 -pl 700`), or remove the node from
the job.

## Confirm with
`nvidia-smi -q -d PERFORMANCE,CLOCK,POWER` while a job computes.

## When it is harmless
When the job waits for data and not for its GPUs.

## See also
gpu/throttled, gpu/busy, collective/slow-rank
"""

from statistics import median_low

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, gpus, together

SEVERITY = "warn"
MATTERS = "every step takes as long as on the slowest GPU"
SLOW = 0.7
"""Share of the compared speed; GPUs of one model differ by some per cent."""
LEAST = 3
"""The fewest GPUs of a model for a median."""
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    timed = [
        (node, gpu, gpu.speed)
        for node in cluster.nodes
        if gpus.wants_gpus(node)
        for gpu in gpus.used_gpus(node)
        if gpu.speed and not used_by_others(node, gpu)
    ]
    slow_gpus: dict[Node, list[tuple[gpus.Gpu, float, dict[str, float]]]] = {}
    for node, gpu, speed in timed:
        alike = [(owner, value) for owner, other, value in timed if other.name == gpu.name]
        usual = {"the best of its model on its node": max(value for owner, value in alike if owner is node)}
        if len(alike) >= LEAST:
            usual[f"the median of {len(alike)} of its model"] = median_low(value for _, value in alike)
        if speed < SLOW * max(usual.values()):
            slow_gpus.setdefault(node, []).append((gpu, speed, usual))
    for node, slow in slow_gpus.items():
        shares = sorted(round(100 * speed / max(usual.values())) for _, speed, usual in slow)
        percent = f"{shares[0]}" if shares[0] == shares[-1] else f"{shares[0]} to {shares[-1]}"
        verb = "computes" if len(slow) == 1 else "compute"
        yield Finding.about(
            [node],
            f"{together(device_name(node, gpu) for gpu, *_ in slow)} on {node.name} {verb} at {percent} % of the "
            "speed of "
            f"{'its' if len(slow) == 1 else 'their'} peers.",
            evidence=[evidence(node, *measured) for measured in slow],
            fixes=[
                Fix.on(
                    node,
                    "Restore the GPU's cooling or power, or exclude it. Confirm with: `nvidia-smi -q -d "
                    "PERFORMANCE,CLOCK,POWER`.",
                )
            ],
        )


def device_name(node: Node, gpu: gpus.Gpu) -> str:
    device = gpus.device_of(node, gpu)
    return gpus.device_text(device) if device else f"device {gpu.index}"


def evidence(node: Node, gpu: gpus.Gpu, speed: float, usual: dict[str, float]) -> str:
    device = gpus.device_of(node, gpu)
    why = f"; clocks lowered: {', '.join(device.slowed)}" if device and device.slowed else ""
    compared = "; ".join(f"{what}: {value:.0f}" for what, value in usual.items())
    return f"{node.name}: device {gpu.index}, {gpu.name}: {speed:.0f} products per second; {compared}{why}"


def used_by_others(node: Node, gpu: gpus.Gpu) -> bool:
    """Return whether another process uses the device; gpu/busy reports it if it matters."""
    device = gpus.device_of(node, gpu)
    return device is not None and bool(device.processes)

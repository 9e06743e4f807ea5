"""A GPU's clock is lowered for a fault of its surroundings.

What you see
------------
One rank is slower than all others, step after step, and they wait for it in every collective.

Why it happens
--------------
The GPU is too hot, or the power supply told it to slow down: a fan, a heat sink, an air duct, a power cable. Or it was
told to take less power than its like (nvidia-smi -pl), and nobody told it otherwise since.

Fix
---
nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on the node; then its cooling and its power.

When it is harmless
-------------------
Where it has just cooled down: the driver may say so for some seconds more. The usual limit of its power is no such
reason, and is not told.

See also
--------
collective/slow-rank, gpu/hardware
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, gpus, some_of, together

SEVERITY = "warn"
MATTERS = "every step takes as long as on the slowest GPU"
LESS = 0.95
SHOWN = 4
SAID = {
    "hardware": "by its hardware",
    "hardware-thermal": "by its hardware, for heat",
    "software-thermal": "by the driver, for heat",
    "power-brake": "by the power supply",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    capped: dict[tuple[Node, int, int], list[gpus.Device]] = {}
    for node, device, watts, usual in gpus.deviating_from_model(cluster, lambda device: device.power_limit):
        if watts < usual * LESS and gpus.wants_gpus(node):
            capped.setdefault((node, watts, usual), []).append(device)
    yield from (limited(*of, devices) for of, devices in capped.items())
    for node in cluster.nodes:
        slow = [device for device in gpus.used_device_list(node) if device.slowed]
        if not slow or not gpus.wants_gpus(node):
            continue
        said = {gpus.device_text(d): together(SAID.get(why, why) for why in d.slowed) for d in slow}
        yield Finding.about(
            [node],
            f"{together(f'{name} is slowed {why}' for name, why in said.items())}, on {node.name}.",
            evidence=(f"{node.name}: GPU {d.index}: clocks lowered: {', '.join(d.slowed)}" for d in slow),
            fixes=[Fix.on(node, f"Look at its cooling and its power supply: {shows(node)}.")],
        )


def limited(node: Node, watts: int, usual: int, devices: list[gpus.Device]) -> Finding:
    numbers = ",".join(str(device.index) for device in devices)
    which = some_of([gpus.device_text(device) for device in devices], SHOWN)
    return Finding.about(
        [node],
        f"{which} on {node.name} may take {watts} W; others of that model may take {usual} W.",
        evidence=[f"{node.name}: GPU {d.index}, {d.name}: power limit {watts} W" for d in devices],
        fixes=[Fix.on(node, "Give it that limit.", commands=(f"nvidia-smi -i {numbers} -pl {usual}",))],
    )


def shows(node: Node) -> str:
    """The command that shows more of it."""
    nvidias = bool(gpus.driver(node).devices)
    return "nvidia-smi -q -d PERFORMANCE,TEMPERATURE" if nvidias else "amd-smi metric --temperature --throttle"

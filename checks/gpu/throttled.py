"""Heat or power supply lowers a GPU's clock.

## What you see
One rank is slower than all others in every step, and they wait for it in every collective.

## Why it happens
The GPU is too hot, or the power supply limits it: a fan, a heat sink, an air duct, a power cable. Or its power limit
is lower than that of its peers (nvidia-smi -pl).

## Fix
Repair the cooling or power supply of the node. If the power limit is too low, raise it: `nvidia-smi -i 3 -pl 700`.

## Confirm with
`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` while a job computes.

## When it is harmless
When the GPU has just cooled down: the driver may report it for some seconds more. The check ignores the usual power
limit.

## See also
collective/slow-rank, gpu/hardware
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, gpus, some_of, together

SEVERITY = "warn"
MATTERS = "every step takes as long as on the slowest GPU"
LESS = 0.95
SHOWN = 4
SOURCES = {
    "hardware": "its hardware",
    "hardware-thermal": "its hardware (heat)",
    "software-thermal": "the driver (heat)",
    "power-brake": "the power supply",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    capped: dict[tuple[Node, int, int], list[gpus.Device]] = {}
    for node, device, watts, usual in gpus.deviating_from_model(cluster, lambda device: device.power_limit):
        if watts < usual * LESS and gpus.wants_gpus(node):
            capped.setdefault((node, watts, usual), []).append(device)
    yield from (power_limit_finding(*of, devices) for of, devices in capped.items())
    for node in cluster.nodes:
        slow = [device for device in gpus.used_device_list(node) if device.slowed]
        if not slow or not gpus.wants_gpus(node):
            continue
        causes = {gpus.device_text(d): together(SOURCES.get(why, why) for why in d.slowed) for d in slow}
        yield Finding.about(
            [node],
            f"{together(f'{name} is slowed by {cause}' for name, cause in causes.items())} on {node.name}.",
            evidence=(f"{node.name}: GPU {d.index}: clocks lowered: {', '.join(d.slowed)}" for d in slow),
            fixes=[
                Fix.on(
                    node, f"Repair the cooling or power supply of {node.name}. Confirm with: `{status_command(node)}`."
                )
            ],
        )


def power_limit_finding(node: Node, watts: int, usual: int, devices: list[gpus.Device]) -> Finding:
    numbers = ",".join(str(device.index) for device in devices)
    names = some_of([gpus.device_text(device) for device in devices], SHOWN)
    return Finding.about(
        [node],
        f"{names} on {node.name} has a power limit of {watts} W; its peers have {usual} W."
        if len(devices) == 1
        else f"{names} on {node.name} have a power limit of {watts} W; their peers have {usual} W.",
        evidence=[f"{node.name}: GPU {d.index}, {d.name}: power limit {watts} W" for d in devices],
        fixes=[
            Fix.on(node, f"Raise the power limit to {usual} W.", commands=(f"nvidia-smi -i {numbers} -pl {usual}",))
        ],
    )


def status_command(node: Node) -> str:
    """Return the command that shows clocks and temperatures."""
    nvidias = bool(gpus.driver(node).devices)
    return "nvidia-smi -q -d PERFORMANCE,TEMPERATURE" if nvidias else "amd-smi metric --temperature --throttle"

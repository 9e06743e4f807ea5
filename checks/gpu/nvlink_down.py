"""NVLinks of a GPU are down or had to recover, unlike those of its peers.

## What you see
A job on this node is slower than on the others, or NCCL fails there. `nvidia-smi nvlink -s` shows `<inactive>`.

## Why it happens
A link failed its training or was disabled after errors, or a bridge or switch is broken. A link that is up and had
recovery errors since the driver was loaded (`nvidia-smi nvlink -e`) lost its connection meanwhile.

## Fix
Reset all GPUs of the node together with `nvidia-smi --gpu-reset`, or reboot. If the links stay down, replace the GPU
or its bridge.

## Confirm with
`nvidia-smi nvlink -s` and `nvidia-smi nvlink -e`.

## When it is harmless
When only some cards of a model are bridged on purpose: the check ignores a card without any link.

## See also
nccl/nvls-fabric-manager, gpu/hardware
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, gpus

SEVERITY = "warn"
RESET = "Reset all GPUs of the node while they are idle, or reboot; if it returns, remove the node from the job."
MATTERS = "NCCL has fewer links between these GPUs, and every rank waits for the slowest"


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from fabric_faults(cluster)
    yield from recovered(cluster)
    yield from none_up(cluster)
    # A device without any link may be unbridged on purpose.
    for node, device, up, usual in gpus.deviating_from_model(cluster, lambda device: sum(device.links) or None):
        if up < usual and gpus.wants_gpus(node):
            down = [str(number) for number, active in enumerate(device.links) if not active]
            yield Finding.about(
                [node],
                f"{gpus.device_text(device)} on {node.name} has {up} NVLinks up; its peers have {usual}.",
                evidence=[f"{node.name}: GPU {device.index}, {device.name}: down: {', '.join(down) or 'not shown'}"],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -s", "nvidia-smi --gpu-reset"))],
            )


def none_up(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about SXM or NVSwitch devices without any link, if peers of their model have some."""
    used = [(node, device) for node in cluster.nodes for device in gpus.used_devices(node) if device.links]
    for node in cluster.nodes:
        linkless = [gpu for of, gpu in used if of is node and not any(gpu.links) and (gpu.fabric or "SXM" in gpu.name)]
        most = max((sum(other.links) for _, other in used for gpu in linkless if other.name == gpu.name), default=0)
        if most and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"{gpus.devices_text(linkless)} on {node.name} {'has' if len(linkless) == 1 else 'have'} no NVLink up; "
                f"{'its' if len(linkless) == 1 else 'their'} peers have {most}.",
                evidence=[
                    f"{node.name}: GPU {gpu.index}, {gpu.name}: none of {len(gpu.links)} is up" for gpu in linkless
                ],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -s", "nvidia-smi --gpu-reset"))],
            )


def recovered(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about links that recovered after errors, if those of most peers never did."""
    for node, device, count, usual in gpus.deviating_from_model(cluster, lambda device: device.link_recoveries):
        if usual == 0 and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"NVLinks of {gpus.device_text(device)} on {node.name} recovered {count} times; "
                "those of its peers never.",
                evidence=[
                    f"{node.name}: GPU {device.index}, {device.name}: recoveries since the driver's start: {count}"
                ],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -e", "nvidia-smi --gpu-reset"))],
            )


def fabric_faults(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about faults that the fabric manager reports (nvidia-smi -q, Fabric, Health)."""
    for node in cluster.nodes:
        bad = [device for device in gpus.used_devices(node) if device.fabric_health]
        if bad and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"The NVSwitch fabric of {node.name} reports bad links of {gpus.devices_text(bad)}.",
                evidence=[f"{node.name}: GPU {d.index}: fabric: {', '.join(d.fabric_health)}" for d in bad],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi -q", "nvidia-smi --gpu-reset"))],
            )

"""NVLinks of a GPU are down, or had to be trained anew, and those of its like not.

What you see
------------
A job on this node is slower than on the others, or NCCL fails there; `nvidia-smi nvlink -s` shows `<inactive>`.

Why it happens
--------------
A link failed in training or was taken down for errors; a bridge or a switch is broken. One that is up and was trained
anew since the driver was loaded (`nvidia-smi nvlink -e`: recovery errors) lost its connection meanwhile.

Fix
---
Reset the GPUs of the node together, or reboot; where it stays so, the hardware has a fault.

When it is harmless
-------------------
Where some cards of a model are bridged and others not, on purpose: one with no link up at all is passed over.

See also
--------
nccl/nvls-fabric-manager, gpu/hardware
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, gpus

SEVERITY = "warn"
RESET = "Reset the node's GPUs together when nobody uses them, or reboot; if it stays so, take it out."
MATTERS = "NCCL takes fewer links between these GPUs, or another way, and every rank waits for the slowest"


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from by_the_fabric(cluster)
    yield from trained_anew(cluster)
    for node, device, up, usual in gpus.unlike_its_model(cluster, links_up):
        if up < usual and gpus.wants_gpus(node):
            down = [str(number) for number, active in enumerate(device.links) if not active]
            yield Finding.about(
                [node],
                f"{gpus.device_said(device)} on {node.name} has {up} NVLinks up; its like have {usual}.",
                evidence=[f"{node.name}: GPU {device.index}, {device.name}: down: {', '.join(down) or 'not shown'}"],
                fixes=[
                    Fix.on(
                        node,
                        RESET,
                        commands=("nvidia-smi nvlink -s", "nvidia-smi --gpu-reset"),
                    )
                ],
            )


def links_up(device: gpus.Device) -> int | None:
    """How many are up; None where there need not be any: a card without one is not bridged, which is a way to build a
    machine. A module (SXM), and what is registered with NVSwitches, has its links in the board that it sits on."""
    wired = bool(device.links) and (bool(device.fabric) or "SXM" in device.name)
    return sum(device.links) or (0 if wired else None)


def trained_anew(cluster: Cluster) -> Iterator[Finding]:
    """Links that came back after errors, where those of most others of the model never had to."""
    for node, device, count, usual in gpus.unlike_its_model(cluster, lambda device: device.link_recoveries):
        if usual == 0 and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"NVLinks of {gpus.device_said(device)} on {node.name} were trained anew ({count} times); "
                "those of its like never.",
                evidence=[
                    f"{node.name}: GPU {device.index}, {device.name}: recoveries since the driver's start: {count}"
                ],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -e", "nvidia-smi --gpu-reset"))],
            )


def by_the_fabric(cluster: Cluster) -> Iterator[Finding]:
    """What the NVSwitches' own manager finds wrong: nvidia-smi -q shows it under Fabric, Health."""
    for node in cluster.nodes:
        bad = [device for device in gpus.used_devices(node) if device.fabric_health]
        if bad and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"The NVSwitch fabric of {node.name} finds the links of {gpus.devices_said(bad)} wanting.",
                evidence=[f"{node.name}: GPU {d.index}: fabric: {', '.join(d.fabric_health)}" for d in bad],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi -q", "nvidia-smi --gpu-reset"))],
            )

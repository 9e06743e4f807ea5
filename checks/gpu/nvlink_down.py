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
    yield from none_up(cluster)
    # Without any link a device may be one that is not bridged, which is a way to build a machine.
    for node, device, up, usual in gpus.deviating_from_model(cluster, lambda device: sum(device.links) or None):
        if up < usual and gpus.wants_gpus(node):
            down = [str(number) for number, active in enumerate(device.links) if not active]
            yield Finding.about(
                [node],
                f"{gpus.device_text(device)} on {node.name} has {up} NVLinks up; its like have {usual}.",
                evidence=[f"{node.name}: GPU {device.index}, {device.name}: down: {', '.join(down) or 'not shown'}"],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -s", "nvidia-smi --gpu-reset"))],
            )


def none_up(cluster: Cluster) -> Iterator[Finding]:
    """Devices whose links are in the board that they sit on, a module's (SXM) or one's that is registered with
    NVSwitches, without a single one, where others of their model in the job have some."""
    used = [(node, device) for node in cluster.nodes for device in gpus.used_devices(node) if device.links]
    for node in cluster.nodes:
        bare = [one for of, one in used if of is node and not any(one.links) and (one.fabric or "SXM" in one.name)]
        most = max((sum(other.links) for _, other in used for one in bare if other.name == one.name), default=0)
        if most and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"{gpus.devices_text(bare)} on {node.name} {'has' if len(bare) == 1 else 'have'} no NVLink up; "
                f"{'its' if len(bare) == 1 else 'their'} like have {most}.",
                evidence=[f"{node.name}: GPU {one.index}, {one.name}: none of {len(one.links)} is up" for one in bare],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -s", "nvidia-smi --gpu-reset"))],
            )


def trained_anew(cluster: Cluster) -> Iterator[Finding]:
    """Links that came back after errors, where those of most others of the model never had to."""
    for node, device, count, usual in gpus.deviating_from_model(cluster, lambda device: device.link_recoveries):
        if usual == 0 and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"NVLinks of {gpus.device_text(device)} on {node.name} were trained anew ({count} times); "
                "those of its like never.",
                evidence=[
                    f"{node.name}: GPU {device.index}, {device.name}: recoveries since the driver's start: {count}"
                ],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi nvlink -e", "nvidia-smi --gpu-reset"))],
            )


def by_the_fabric(cluster: Cluster) -> Iterator[Finding]:
    """Return what the NVSwitches' own manager finds wrong: nvidia-smi -q shows it under Fabric, Health."""
    for node in cluster.nodes:
        bad = [device for device in gpus.used_devices(node) if device.fabric_health]
        if bad and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"The NVSwitch fabric of {node.name} finds the links of {gpus.devices_text(bad)} wanting.",
                evidence=[f"{node.name}: GPU {d.index}: fabric: {', '.join(d.fabric_health)}" for d in bad],
                fixes=[Fix.on(node, RESET, commands=("nvidia-smi -q", "nvidia-smi --gpu-reset"))],
            )

"""A GPU's PCIe link has fewer lanes, or is slower, than that of its like.

What you see
------------
One node, or one GPU of it, is slower than the others wherever data comes from the host or goes to the network.

Why it happens
--------------
The card or a riser is not well seated, a lane is dirty or broken, the slot gives it fewer, or the firmware (BIOS) holds
the slot to an older generation. A GPU that rests lowers the generation to save power: only what those in their highest
performance state (P0) have is compared, and what each could have.

Fix
---
nvidia-smi -q | grep -A12 'GPU Link Info' on the node; seat the card anew, or take the node out.

When it is harmless
-------------------
Where the host moves little data to and from the GPU.

See also
--------
gpu/nvlink-down, gpu/hardware
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, gpus, some_of

SEVERITY = "warn"
MATTERS = "what goes through the host to or from this GPU is slower, and the others wait for it"
FIX = "Seat the card anew, look at its slot in the BIOS, or take the node out of use."
SHOWN = 4


def judge(cluster: Cluster) -> Iterator[Finding]:
    alike: dict[tuple[Node, str, str], dict[int, tuple[gpus.Device, str]]] = {}
    for node, device, lanes, usual in gpus.deviating_from_model(cluster, lambda device: device.pcie_width):
        if lanes < usual and gpus.wants_gpus(node):
            seen = f"x{lanes} of x{device.pcie_width_max or '?'}"
            alike.setdefault((node, f"{lanes} lanes", f"{usual}"), {})[device.index] = (device, seen)
    told = set()
    for value in (at_work, lambda device: device.pcie_generation_max):
        for node, device, generation, usual in gpus.deviating_from_model(cluster, value):
            if generation < usual and gpus.wants_gpus(node) and (node, device.index) not in told:
                told.add((node, device.index))
                seen = f"generation {device.pcie_generation} of {device.pcie_generation_max or '?'}"
                of = (node, f"generation {generation}", f"generation {usual}")
                alike.setdefault(of, {})[device.index] = (device, seen)
    for (node, has, its), found in alike.items():
        yield narrow(node, has, its, list(found.values()))


def narrow(node: Node, has: str, usual: str, found: list[tuple[gpus.Device, str]]) -> Finding:
    which = some_of([gpus.device_text(device) for device, _ in found], SHOWN)
    links, have = ("link", "has") if len(found) == 1 else ("links", "have")
    return Finding.about(
        [node],
        f"The PCIe {links} of {which} on {node.name} {have} {has}; those of their like have {usual}.",
        evidence=[f"{node.name}: GPU {device.index}, {device.name}: {seen}" for device, seen in found],
        fixes=[Fix.on(node, FIX)],
    )


def at_work(device: gpus.Device) -> int | None:
    """The generation of one that does not rest."""
    return device.pcie_generation if device.performance == 0 else None

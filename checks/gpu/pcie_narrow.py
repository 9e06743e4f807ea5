"""A GPU's PCIe link has fewer lanes, or is slower, than those of its peers.

## What you see
One node, or one GPU of it, is slower than the others when data comes from the host or goes to the network.

## Why it happens
The card or a riser is not well seated, a lane is dirty or broken, or the slot has fewer lanes. Or the firmware (BIOS)
limits the slot to an older generation. An idle GPU lowers the generation to save power, so the check compares GPUs in
their highest performance state (P0) only, and their maximum.

## Fix
Reseat the card, and set its slot to the full generation in the BIOS. Until then remove the node from the job:
`scontrol update nodename=host1 state=drain reason="PCIe link"`.

## Confirm with
`nvidia-smi -q | grep -A12 "GPU Link Info"` and `lspci -vv | grep LnkSta`.

## When it is harmless
When the host moves little data to and from the GPU.

## See also
gpu/nvlink-down, gpu/hardware
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, gpus, some_of

SEVERITY = "warn"
MATTERS = "data between host and this GPU is slower, and the other ranks wait for it"
FIX = (
    "Reseat the card, set its slot to the full generation in the BIOS, or remove the node from the job. "
    "Confirm with: `lspci -vv | grep LnkSta`."
)
SHOWN = 4


def judge(cluster: Cluster) -> Iterator[Finding]:
    alike: dict[tuple[Node, str, str], dict[int, tuple[gpus.Device, str]]] = {}
    for node, device, lanes, usual in gpus.deviating_from_model(cluster, lambda device: device.pcie_width):
        if lanes < usual and gpus.wants_gpus(node):
            link = f"x{lanes} of x{device.pcie_width_max or '?'}"
            alike.setdefault((node, f"{lanes} lanes", f"{usual}"), {})[device.index] = (device, link)
    reported = set()
    for value in (at_work, lambda device: device.pcie_generation_max):
        for node, device, generation, usual in gpus.deviating_from_model(cluster, value):
            if generation < usual and gpus.wants_gpus(node) and (node, device.index) not in reported:
                reported.add((node, device.index))
                link = f"generation {device.pcie_generation} of {device.pcie_generation_max or '?'}"
                of = (node, f"generation {generation}", f"generation {usual}")
                alike.setdefault(of, {})[device.index] = (device, link)
    for (node, has, expected), by_index in alike.items():
        yield narrow(node, has, expected, list(by_index.values()))


def narrow(node: Node, has: str, usual: str, devices: list[tuple[gpus.Device, str]]) -> Finding:
    names = some_of([gpus.device_text(device) for device, _ in devices], SHOWN)
    links, have, peers = ("link", "has", "its peers") if len(devices) == 1 else ("links", "have", "their peers")
    return Finding.about(
        [node],
        f"The PCIe {links} of {names} on {node.name} {have} {has}; those of {peers} have {usual}.",
        evidence=[f"{node.name}: GPU {device.index}, {device.name}: {link}" for device, link in devices],
        fixes=[Fix.on(node, FIX)],
    )


def at_work(device: gpus.Device) -> int | None:
    """Return the PCIe generation of a device that is not idle."""
    return device.pcie_generation if device.performance == 0 else None

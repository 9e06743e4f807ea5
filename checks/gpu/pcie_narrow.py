"""A GPU's PCIe link has fewer lanes than that of its like.

What you see
------------
One node, or one GPU of it, is slower than the others wherever data comes from the host or goes to the network.

Why it happens
--------------
The card or a riser is not well seated, a lane is dirty or broken, or the slot gives it fewer.

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

from distdoctor.check_api import Cluster, Finding, Fix, gpus

SEVERITY = "warn"
MATTERS = "what goes through the host to or from this GPU is slower, and the others wait for it"


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node, device, lanes, usual in gpus.unlike_its_model(cluster, lambda device: device.pcie_width):
        if lanes < usual and gpus.wants_gpus(node):
            yield Finding.about(
                [node],
                f"The PCIe link of {gpus.device_said(device)} on {node.name} has {lanes} lanes; its like have {usual}.",
                evidence=[
                    f"{node.name}: GPU {device.index}, {device.name}: x{lanes} of x{device.pcie_width_max or '?'}"
                ],
                fixes=[Fix.on(node, "Seat the card anew, or take the node out of use.")],
            )

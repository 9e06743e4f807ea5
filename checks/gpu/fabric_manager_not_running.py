"""The NVSwitch fabric is not up.

What you see
------------
`Error 802: system not yet initialized`, NCCL tests: `Test CUDA failure ... 'system not yet initialized'`.

Why it happens
--------------
A machine with NVSwitch needs nvidia-fabricmanager of the driver's own version; it is not running, or of another
version.

Fix
---
systemctl enable --now nvidia-fabricmanager, in the version of the driver; then nvidia-smi -q | grep -A2 Fabric.

When it is harmless
-------------------
Never.

See also
--------
nccl/nvls-fabric-manager
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line("system not yet initialized"),
    Line(  # its own log
        "fabric manager NVIDIA GPU driver interface version",
        told="The fabric manager and the driver are of different versions",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        waiting = [d for d in gpus.used_devices(node) if unready(d) and not gpus.computed_right(node, d)]
        said = [text for text in gpus.gpu_reasons(node) if "system not yet initialized" in text]
        if not waiting and not said:
            continue
        which = f" for {gpus.devices_text(waiting)}" if waiting else ""
        states = "; ".join(dict.fromkeys(device.fabric_error or device.fabric for device in waiting))
        yield Finding.about(
            [node],
            f"The NVSwitch fabric of {node.name} is not up{which}.",
            evidence=[
                *(f"{node.name}: NVML says of the fabric: {states}" for _ in waiting[:1]),
                *(f"{node.name}: {text}" for text in said),
            ],
            fixes=[fix(node)],
        )


def unready(device: gpus.Device) -> bool:
    """Return whether a device that belongs to a fabric has not been registered with it."""
    return device.fabric in ("not-started", "in-progress") or bool(device.fabric_error)


def fix(node: Node) -> Fix:
    version = f", of the driver's own version {gpus.driver(node).module}," if gpus.driver(node).module else ""
    return Fix.on(
        node,
        f"Start NVIDIA's fabric manager{version} on the host; no container can.",
        commands=("systemctl enable --now nvidia-fabricmanager",),
    )
